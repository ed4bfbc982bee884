//! Operator actions on one key, on a node with the memory store.

mod blocks;
mod invalid;

use hivemind_testkit::{Server, get, post, request, statuses};
use serde_json::{Value, json};

pub(crate) const RULES: &str = "
domain: d
descriptors:
- {key: user, rate_limit: {unit: day, requests_per_unit: 5}}
- key: both
  rate_limits:
  - {unit: day, requests_per_unit: 9, algorithm: token_bucket, burst: 4}
  - {unit: day, requests_per_unit: 20, algorithm: sliding_window}
- {key: second, rate_limit: {unit: day, requests_per_unit: 7}}
- {key: watched, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: quota, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: free, rate_limit: {unlimited: true}}
- {key: named}
- {key: group, value: 'a*', share_threshold: true, rate_limit: {unit: day, requests_per_unit: 6}}
";

/// The JSON of a key, in the short form of descriptors.
pub(crate) fn key(text: &str) -> Value {
    let entries: Vec<Value> = text
        .split_whitespace()
        .map(|entry| entry.split_once('=').expect("key=value"))
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect();
    json!({"domain": "d", "entries": entries})
}

/// The same with one more member.
pub(crate) fn with(text: &str, name: &str, value: impl Into<Value>) -> Value {
    let mut body = key(text);
    body[name] = value.into();
    body
}

/// The status and body of a key endpoint.
pub(crate) async fn post_key(server: &Server, what: &str, body: &Value) -> (u16, Value) {
    let page = post(server.admin, &format!("/api/v1/keys/{what}"), &body.to_string()).await;
    let answer = serde_json::from_str(&page.body).unwrap_or_else(|error| panic!("{error}: {}", page.body));
    (page.code, answer)
}

/// The body of a key endpoint that must answer 200.
pub(crate) async fn post_ok(server: &Server, what: &str, body: &Value) -> Value {
    let (code, answer) = post_key(server, what, body).await;
    assert_eq!(code, 200, "{what} {body}: {answer}");
    answer
}

/// The remaining hits of each limit of a key.
pub(crate) async fn remaining(server: &Server, text: &str) -> Vec<u64> {
    let found = post_ok(server, "lookup", &key(text)).await;
    found["limits"].as_array().unwrap().iter().map(|limit| limit["remaining"].as_u64().unwrap()).collect()
}

// Seen failing on: a lookup that spends.
#[tokio::test]
async fn lookup_shows_remaining_and_spends_nothing() {
    let server = Server::with_rules(RULES).await;
    server.ask("d", "user=ada").await;
    let before = server.metrics().await.body;
    for _ in 0..3 {
        let found = post_ok(&server, "lookup", &key("user=ada")).await;
        assert_eq!(
            (&found["domain"], &found["entries"]),
            (&json!("d"), &json!([{"key": "user", "value": "ada"}]))
        );
        assert_eq!((&found["rule"], &found["blocked_until_ms"]), (&json!(0), &Value::Null));
        let limit = &found["limits"][0];
        assert_eq!(limit["remaining"], 4, "{found}");
        assert_eq!(
            (&limit["algorithm"], &limit["requests"], &limit["period_ms"], &limit["burst"]),
            (&json!("fixed_window"), &json!(5), &json!(86_400_000), &json!(5))
        );
        assert_eq!((&limit["mode"], &limit["mesh"]), (&json!("enforce"), &Value::Null));
        assert!((1..=86_400_000).contains(&limit["reset_ms"].as_u64().unwrap()), "{found}");
    }
    let counted = |page: &str| {
        let lines = page.lines().filter(|line| line.contains("user") && !line.contains("connections"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(counted(&server.metrics().await.body), counted(&before), "a lookup is not counted");
    let top = get(server.admin, "/api/v1/top?by=spent").await.body;
    assert!(
        top.contains(r#""count":1"#) && !top.contains(r#""count":2"#),
        "a lookup is not among the top keys: {top}"
    );
    assert_eq!(statuses(&server.ask("d", "user=ada").await), "OK 5/DAY, 3 left");
}

#[tokio::test]
async fn lookup_lists_each_limit_with_its_algorithm_and_mode() {
    let server = Server::with_rules(RULES).await;
    server.ask("d", "both=x").await;
    let found = post_ok(&server, "lookup", &key("both=x")).await;
    let limits = found["limits"].as_array().unwrap();
    let limits: Vec<_> =
        limits.iter().map(|of| (of["algorithm"].as_str().unwrap(), &of["burst"], &of["remaining"])).collect();
    assert_eq!(limits, [("token_bucket", &json!(4), &json!(3)), ("sliding_window", &json!(20), &json!(19))]);
    for (text, mode) in [("watched=x", "shadow"), ("quota=x", "quota")] {
        assert_eq!(post_ok(&server, "lookup", &key(text)).await["limits"][0]["mode"], mode);
    }
    // A key without a limit has an empty list, which is not an error.
    for (text, rule) in [
        ("free=x", json!(5)),
        ("named=x", Value::Null),
        ("nothing=x", Value::Null),
        ("user=a b=c", Value::Null),
    ] {
        let found = post_ok(&server, "lookup", &key(text)).await;
        assert_eq!((&found["limits"], &found["rule"]), (&json!([]), &rule), "{text}");
        assert_eq!(post_ok(&server, "reset", &key(text)).await, json!({"reset": 0}));
        assert_eq!(post_ok(&server, "grant", &with(text, "extra", 1)).await, json!({"limits": []}));
    }
    // If a wildcard's values share a counter, its name is the pattern's.
    server.ask("d", "group=ab").await;
    let found = post_ok(&server, "lookup", &key("group=ac")).await;
    assert_eq!((&found["entries"][0]["value"], &found["limits"][0]["remaining"]), (&json!("a*"), &json!(5)));
}

// Seen failing on: a reset of the first limit only.
#[tokio::test]
async fn reset_restores_all_limits_of_one_key_only() {
    let server = Server::with_rules(RULES).await;
    let mut much = request("d", "both=x | user=ada | user=bob");
    much.hits_addend = 3;
    server.send(much).await;
    assert_eq!(post_ok(&server, "reset", &key("both=x")).await, json!({"reset": 2}));
    assert_eq!(post_ok(&server, "reset", &key("user=ada")).await, json!({"reset": 1}));
    assert_eq!(remaining(&server, "both=x").await, [4, 20]);
    assert_eq!(
        (remaining(&server, "user=ada").await, remaining(&server, "user=bob").await),
        (vec![5], vec![2])
    );
    assert_eq!(statuses(&server.ask("d", "user=ada").await), "OK 5/DAY, 4 left");
}

// Seen failing on: the requested amount reported as granted.
#[tokio::test]
async fn grant_returns_spent_hits_and_reports_the_amount() {
    let server = Server::with_rules(RULES).await;
    let mut much = request("d", "both=x");
    much.hits_addend = 3;
    server.send(much).await;
    let given = post_ok(&server, "grant", &with("both=x", "extra", 2)).await;
    let limits: Vec<_> = given["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (&of["granted"], &of["remaining"], &of["why"]))
        .collect();
    assert_eq!(limits, [(&json!(2), &json!(3), &Value::Null), (&json!(2), &json!(19), &Value::Null)]);
    let given = post_ok(&server, "grant", &with("both=x", "extra", u64::MAX)).await;
    for limit in given["limits"].as_array().unwrap() {
        assert_eq!((&limit["granted"], &limit["remaining"]), (&json!(1), &limit["burst"]), "{limit}");
        assert!(limit["why"].as_str().unwrap().contains("A grant returns at most what was spent"), "{limit}");
    }
    // A window counts refused hits: they are made good first, which is reported.
    for _ in 0..8 {
        server.ask("d", "user=ada").await;
    }
    let given = post_ok(&server, "grant", &with("user=ada", "extra", 2)).await["limits"][0].clone();
    assert_eq!((&given["granted"], &given["remaining"]), (&json!(0), &json!(0)), "{given}");
    assert!(given["why"].as_str().unwrap().contains("made good first"), "{given}");
    assert_eq!(post_ok(&server, "grant", &with("user=ada", "extra", 2)).await["limits"][0]["granted"], 1);
    assert_eq!(statuses(&server.ask("d", "user=ada").await), "OK 5/DAY, 0 left");
}
