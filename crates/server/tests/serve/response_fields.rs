//! Response fields besides the codes: headers, body, quota, metadata. Cases 50 and 52.

use hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use hivemind_testkit::proto::envoy::service::ratelimit::v3::rate_limit_response::quota::ExpirationSpecifier;
use hivemind_testkit::{Server, Setup, headers, overall, request, statuses};
use prost_types::value::Kind;
use std::collections::BTreeMap;

const RULES: &str = "
domain: d
descriptors:
- {key: wide, rate_limit: {unit: day, requests_per_unit: 100}}
- {key: narrow, rate_limit: {unit: day, requests_per_unit: 10}}
- {key: same, rate_limit: {unit: day, requests_per_unit: 10}}
- {key: zero, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: zero2, rate_limit: {unit: hour, requests_per_unit: 0}}
- {key: quota, quota_mode: true, rate_limit: {unit: week, requests_per_unit: 0}}
- {key: free, rate_limit: {unlimited: true}}
- key: extras
  rate_limit: {unit: day, requests_per_unit: 2}
  response:
    headers: {x-plan: gold, X-Other: '1'}
    request_headers: {x-upstream: yes-please}
    raw_body: '{\"error\": \"slow down\"}'
    quota: {id: extras-quota, valid_for: 30s}
- key: both
  rate_limits: [{unit: minute, requests_per_unit: 5}, {unit: day, requests_per_unit: 100}]
- key: silent
  rate_limit: {unit: day, requests_per_unit: 2}
";

fn three(limit: u32, remaining: u32, answer: &RateLimitResponse, of: usize) -> Vec<String> {
    let reset = answer.statuses[of].duration_until_reset.unwrap().seconds;
    vec![
        format!("RateLimit-Limit: {limit}"),
        format!("RateLimit-Remaining: {remaining}"),
        format!("RateLimit-Reset: {reset}"),
    ]
}

#[tokio::test]
async fn limit_headers_are_off_by_default() {
    let server = Server::with_rules(RULES).await;
    assert!(headers(&server.ask("d", "narrow=x").await).is_empty());
}

#[tokio::test]
async fn limit_headers_describe_the_tightest_limit() {
    let server = Setup::rules(RULES).with("rate_limiting.response_headers.enabled", "true").start().await;
    for (descriptors, limit, remaining, of) in [
        ("narrow=a", 10, 9, 0),
        ("wide=b | narrow=b", 10, 9, 1),
        ("none=x | narrow=c | wide=c | free=x", 10, 9, 1),
        // The first of equal limits.
        ("same=d | narrow=d", 10, 9, 0),
        // Over the limit, and the last of those that are.
        ("zero=x | narrow=e", 0, 0, 0),
        ("zero=x | zero2=x", 0, 0, 1),
        ("zero2=x | zero=x", 0, 0, 1),
        // A quota over its limit does not refuse by itself.
        ("zero=x | quota=x", 0, 0, 0),
    ] {
        let answer = server.ask("d", descriptors).await;
        assert_eq!(headers(&answer), three(limit, remaining, &answer, of), "case 50: {descriptors}");
    }
    assert!(headers(&server.ask("d", "none=x | free=x").await).is_empty(), "no limit matches");
    let several = headers(&server.ask("d", "both=x").await);
    assert_eq!(several[..2], ["RateLimit-Limit: 5, 5;w=60, 100;w=86400", "RateLimit-Remaining: 4"]);
}

#[tokio::test]
async fn limit_header_names_are_configurable() {
    let setup = Setup::rules(RULES).with("rate_limiting.response_headers.enabled", "true");
    let setup = setup.with("rate_limiting.response_headers.limit", "x-my-limit");
    let setup = setup.with("rate_limiting.response_headers.remaining", "x-my-remaining");
    let server = setup.with("rate_limiting.response_headers.reset", "x-my-reset").start().await;
    let answer = server.ask("d", "zero=x").await;
    let names: Vec<_> = answer.response_headers_to_add.iter().map(|header| header.key.as_str()).collect();
    assert_eq!(names, ["x-my-limit", "x-my-remaining", "x-my-reset"]);
}

#[tokio::test]
async fn rule_response_adds_headers_body_and_quota() {
    let server = Server::with_rules(RULES).await;
    let upstream = |answer: &RateLimitResponse| {
        let pairs = answer.request_headers_to_add.iter();
        pairs.map(|header| format!("{}: {}", header.key, header.value)).collect::<Vec<_>>()
    };
    let answer = server.ask("d", "extras=x").await;
    assert_eq!(headers(&answer), ["x-plan: gold", "X-Other: 1"]);
    assert_eq!(upstream(&answer), ["x-upstream: yes-please"]);
    assert!(answer.raw_body.is_empty(), "a body is only for refused requests");
    let quota = answer.statuses[0].quota.clone().expect("a quota");
    assert_eq!((quota.id.as_str(), quota.requests), ("extras-quota", 1));
    let Some(ExpirationSpecifier::ValidUntil(until)) = &quota.expiration_specifier else {
        panic!("{quota:?}")
    };
    // The end of the day gives the current time, to the second.
    let reset = answer.statuses[0].duration_until_reset.unwrap().seconds;
    let since_midnight = (until.seconds - 30).rem_euclid(86_400);
    assert!((86_400 - reset - since_midnight).abs() <= 1, "{until:?}, and the day has {reset} s left");
    assert_eq!(answer.quota, Some(quota), "the smallest quota is the request's");

    server.ask("d", "extras=x").await;
    let answer = server.ask("d", "extras=x").await;
    assert_eq!(overall(&answer), "OVER");
    assert_eq!(headers(&answer), ["x-plan: gold", "X-Other: 1"]);
    assert_eq!(answer.raw_body, br#"{"error": "slow down"}"#);
    assert!(upstream(&answer).is_empty(), "no headers for the upstream");
    assert_eq!((&answer.quota, &answer.statuses[0].quota), (&None, &None));

    let answer = server.ask("d", "silent=x | none=x").await;
    assert_eq!((headers(&answer), upstream(&answer), answer.raw_body.len()), (vec![], vec![], 0));
    assert_eq!(answer.quota, None);
}

#[tokio::test]
async fn rule_response_is_omitted_if_another_rule_refuses() {
    let server = Server::with_rules(RULES).await;
    let answer = server.ask("d", "extras=y | zero=x").await;
    assert_eq!(overall(&answer), "OVER");
    assert!(answer.request_headers_to_add.is_empty());
    assert!(answer.raw_body.is_empty(), "the rule with a body did not refuse");
}

const METADATA: &str = "
domain: d
descriptors:
- key: a
  quota_mode: true
  detailed_metric: true
  rate_limit: {unit: day, requests_per_unit: 5}
  metadata: {backend: blue, nested: {one: 1, both: first}, list: [x, 2, true], nothing: null}
- key: b
  quota_mode: true
  rate_limit: {unit: day, requests_per_unit: 5}
  metadata: {backend: green, nested: {two: 2.5, both: second}, extra: 'true'}
- key: b
  value: over
  quota_mode: true
  rate_limit: {unit: day, requests_per_unit: 0}
  metadata: {backend: red, never: seen}
";

/// A struct as a flat text, so that it can be compared.
fn flat(value: &Kind) -> String {
    match value {
        Kind::NullValue(_) => "null".into(),
        Kind::NumberValue(number) => number.to_string(),
        Kind::StringValue(text) => format!("'{text}'"),
        Kind::BoolValue(value) => value.to_string(),
        Kind::ListValue(list) => {
            let items: Vec<_> = list.values.iter().map(|item| flat(item.kind.as_ref().unwrap())).collect();
            format!("[{}]", items.join(", "))
        }
        Kind::StructValue(fields) => {
            let fields: BTreeMap<_, _> = fields.fields.iter().collect();
            let fields = fields
                .into_iter()
                .map(|(key, value)| format!("{key}: {}", flat(value.kind.as_ref().unwrap())));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn metadata(answer: &RateLimitResponse) -> String {
    flat(&Kind::StructValue(answer.dynamic_metadata.clone().expect("metadata")))
}

#[tokio::test]
async fn metadata_of_passing_rules_is_merged_first_value_wins() {
    // Seen failing on: `merge` of answer.rs overwriting existing values.
    let server = Setup::rules(METADATA).with("rate_limiting.dynamic_metadata", "true").start().await;
    let answer = server.ask("d", "a=1 | b=2 | b=over").await;
    assert_eq!(overall(&answer), "OK", "{}", statuses(&answer));
    assert_eq!(
        metadata(&answer),
        "{descriptors: [{entries: ['a=1']}, {entries: ['b=2']}, {entries: ['b=over']}], domain: 'd', \
         metadata: {backend: 'blue', extra: 'true', list: ['x', 2, true], nested: {both: 'first', one: 1, two: 2.5}, \
         nothing: null}}",
        "case 52"
    );
    let answer = server.ask("d", "b=over | b=2").await;
    assert!(
        metadata(&answer).contains("metadata: {backend: 'green', extra"),
        "case 52: {}",
        metadata(&answer)
    );
    let answer = server.ask("d", "b=over").await;
    assert_eq!(metadata(&answer), "{descriptors: [{entries: ['b=over']}], domain: 'd'}", "case 52");
}

#[tokio::test]
async fn metadata_contains_hits_and_limits_of_the_request() {
    let server = Setup::rules(METADATA).with("rate_limiting.dynamic_metadata", "true").start().await;
    let mut call = request("d", "x=1 y=2 | z=3");
    call.hits_addend = 2;
    call.descriptors[0].hits_addend = Some(0);
    call.descriptors[1].limit = Some(
        hivemind_testkit::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride {
            requests_per_unit: 10,
            unit: 4,
        },
    );
    assert_eq!(
        metadata(&server.send(call).await),
        "{descriptors: [{entries: ['x=1', 'y=2'], hitsAddend: 0}, \
         {entries: ['z=3'], limit: 'requests_per_unit:10 unit:DAY'}], domain: 'd', hitsAddend: 2}"
    );
}

#[tokio::test]
async fn dynamic_metadata_is_off_by_default() {
    let server = Server::with_rules(METADATA).await;
    assert_eq!(server.ask("d", "a=1").await.dynamic_metadata, None);
}
