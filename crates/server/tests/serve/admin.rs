//! The admin port: health, the HTTP check `/json` (B.12), and the active rules.

use hivemind_testkit::{Server, get, post, within};

const RULES: &str = "
domain: d
descriptors:
- {key: k, rate_limit: {unit: day, requests_per_unit: 2, name: two}}
- {key: shadow, value: 'a*', shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: outer, descriptors: [ {key: inner, quota_mode: true, rate_limit: {unlimited: true}} ]}
- {key: allowed, value: x}
";

const CHECK: &str = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn serving_service_reports_health_on_every_endpoint() {
    let server = Server::with_rules(RULES).await;
    for (path, code, body) in
        [("/healthz", 200, "ok\n"), ("/readyz", 200, "ready\n"), ("/healthcheck", 200, "OK")]
    {
        let page = get(server.admin, path).await;
        assert_eq!((page.code, page.body.as_str()), (code, body), "{path}");
    }
    assert_eq!(get(server.admin, "/nowhere").await.code, 404);
    assert_eq!(get(server.metrics, "/nowhere").await.code, 404);
}

#[tokio::test]
async fn http_check_answers_200_then_429_in_proto3_json() {
    let server = Server::with_rules(RULES).await;
    for (left, code) in [(Some(1), 200), (Some(0), 200), (None, 429)] {
        let page = post(server.admin, "/json", CHECK).await;
        assert_eq!(page.code, code);
        assert_eq!(page.header("content-type"), Some("application/json"));
        let answer = json(&page.body);
        let status = &answer["statuses"][0];
        let name = if code == 200 { "OK" } else { "OVER_LIMIT" };
        assert_eq!((&answer["overallCode"], &status["code"]), (&name.into(), &name.into()));
        assert_eq!(status["currentLimit"], json(r#"{"requestsPerUnit": 2, "unit": "DAY", "name": "two"}"#));
        // Zero values are omitted.
        let left = left.filter(|left| *left > 0);
        assert_eq!(status.get("limitRemaining").and_then(serde_json::Value::as_u64), left);
        let reset = status["durationUntilReset"].as_str().unwrap();
        assert!(reset.strip_suffix('s').unwrap().parse::<u32>().is_ok_and(|seconds| seconds >= 1), "{reset}");
    }
}

#[tokio::test]
async fn http_check_and_grpc_call_share_counters() {
    let server = Server::with_rules(RULES).await;
    post(server.admin, "/json", CHECK).await;
    assert_eq!(hivemind_testkit::statuses(&server.ask("d", "k=v").await), "OK 2/DAY `two`, 0 left");
    assert_eq!(post(server.admin, "/json", CHECK).await.code, 429);
}

#[tokio::test]
async fn http_check_accepts_camel_and_snake_case_fields() {
    let server = Server::with_rules(RULES).await;
    for (body, left) in [
        (r#"{"domain":"d","hitsAddend":2,"descriptors":[{"entries":[{"key":"k","value":"1"}]}]}"#, None),
        (r#"{"domain":"d","hits_addend":2,"descriptors":[{"entries":[{"key":"k","value":"2"}]}]}"#, None),
        (r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"3"}],"hitsAddend":"0"}]}"#, Some(2)),
        (r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"4"}],"hits_addend":0}]}"#, Some(2)),
        (
            r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"5"}],"isNegativeHits":true}]}"#,
            Some(2),
        ),
        (
            r#"{"domain":"d","descriptors":[{"entries":[{"key":"z","value":"6"}],"limit":{"requestsPerUnit":9,"unit":"DAY"}}]}"#,
            Some(8),
        ),
        (
            r#"{"domain":"d","descriptors":[{"entries":[{"key":"z","value":"7"}],"limit":{"requests_per_unit":9,"unit":4}}]}"#,
            Some(8),
        ),
    ] {
        let page = post(server.admin, "/json", body).await;
        assert_eq!(page.code, 200, "{body}: {page:?}");
        assert_eq!(json(&page.body)["statuses"][0]["limitRemaining"].as_u64(), left, "{body}");
    }
}

#[tokio::test]
async fn undecidable_request_is_400_with_the_references_body() {
    let server = Server::with_rules(RULES).await;
    for (body, reason) in [
        ("", ""),
        ("}", ""),
        ("[]", ""),
        ("{}", "domain must not be empty"),
        (r#"{"domain": "d"}"#, "descriptor list must not be empty"),
        (r#"{"domain": "d", "unheard": 1}"#, "unheard"),
        (r#"{"domain": 7}"#, ""),
        (
            r#"{"domain":"d","descriptors":[{"entries":[],"limit":{"requestsPerUnit":9,"unit":99}}]}"#,
            "unit 99",
        ),
        (r#"{"domain":"d","descriptors":[{}]} and more"#, ""),
    ] {
        let page = post(server.admin, "/json", body).await;
        assert_eq!((page.code, page.body.as_str()), (400, "Bad Request\n"), "B.12: {body}");
        assert!(page.header("x-error").is_some_and(|error| error.contains(reason)), "{body}: {page:?}");
    }
    // The reason quotes the request; the header must stay one line.
    let long = format!(r#"{{"domain": "d", "{}": 1}}"#, r"k\n".repeat(100_000));
    let page = post(server.admin, "/json", &long).await;
    assert!(page.header("x-error").is_some_and(|error| (1..=300).contains(&error.len())), "{}", page.code);
    assert_eq!(post(server.admin, "/json", &" ".repeat(2 << 20)).await.code, 413);
    assert_eq!(post(server.admin, "/json", CHECK).await.code, 200);
}

#[tokio::test]
async fn active_rules_are_listed_one_per_line() {
    let server = Server::with_rules(RULES).await;
    let page = get(server.admin, "/rlconfig").await;
    let lines: Vec<_> = page.body.lines().collect();
    assert_eq!(page.code, 200);
    assert_eq!(lines.len(), 3, "a descriptor without a limit is not listed: {lines:?}");
    assert!(lines[0].starts_with("d.k: ") && lines[0].ends_with("shadow_mode: false, quota_mode: false"));
    assert!(lines[1].starts_with("d.shadow_a*: ") && lines[1].contains("shadow_mode: true"), "{lines:?}");
    assert!(lines[2].starts_with("d.outer.inner: ") && lines[2].contains("quota_mode: true"), "{lines:?}");
}

#[tokio::test]
async fn startup_without_flags_prints_a_working_example() {
    let mut server = hivemind_testkit::Setup::new().start().await;
    server.signal("TERM").await;
    server.ended().await;
    let screen = server.screen.rest().await;
    assert!(screen.contains("built-in demo rules") && screen.contains("--rules"), "{screen}");
    let line =
        screen.lines().find_map(|line| line.trim().strip_prefix("curl -s http://")).expect("a curl line");
    let (place, body) = line.split_once(" -d ").unwrap();
    assert_eq!(place, format!("{}/json", server.admin));
    let printed = screen.lines().map(str::trim).find(|line| line.starts_with('{')).expect("an answer");
    // A service of its own, because the other one has ended.
    let server = hivemind_testkit::Setup::new().start().await;
    let page = within("an answer", post(server.admin, "/json", body.trim_matches('\''))).await;
    assert_eq!((page.code, page.body.as_str()), (200, printed));
}
