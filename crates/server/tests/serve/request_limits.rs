//! Limits carried by requests: cases 17 to 21 of the conformance page.

use crate::rule_matching::BASIC;
use hivemind_testkit::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use hivemind_testkit::{Server, Setup, overall, request, statuses};
use tonic::Code;

const DAY: i32 = 4;
const HOUR: i32 = 3;

fn with_limit(domain: &str, text: &str, requests_per_unit: u32, unit: i32) -> RateLimitRequest {
    let mut request = request(domain, text);
    for descriptor in &mut request.descriptors {
        descriptor.limit = Some(RateLimitOverride { requests_per_unit, unit });
    }
    request
}

#[tokio::test]
async fn request_limit_overrides_the_rules_of_its_domain() {
    let server = Server::with_rules(BASIC).await;
    let (something, other) = ("key1=value1 subkey1=something", "key1=value1 subkey1=something_else");
    for (case, domain, call, limit, unit, expected) in [
        (17, "foo_domain", "key1=value1", 10, DAY, "none"),
        (18, "test-domain", something, 10, DAY, "OK 10/DAY, 9 left"),
        (18, "test-domain", something, 10, DAY, "OK 10/DAY, 8 left"),
        // Another amount keeps the counter.
        (18, "test-domain", something, 20, DAY, "OK 20/DAY, 17 left"),
        (18, "test-domain", something, 2, DAY, "OVER 2/DAY"),
        (19, "test-domain", something, 42, HOUR, "OK 42/HOUR, 41 left"),
        (20, "test-domain", other, 42, HOUR, "OK 42/HOUR, 41 left"),
        // No rule has this key, and none is needed.
        (20, "test-domain", "unknown=x", 5, DAY, "OK 5/DAY, 4 left"),
        // A limit of its own although the rule is unlimited, and without the rule's name.
        (20, "test-domain", "key6=x", 5, DAY, "OK 5/DAY, 4 left"),
        (20, "test-domain", "key4=x", 5, DAY, "OK 5/DAY, 4 left"),
        (20, "test-domain", "key2=zero", 0, DAY, "OVER 0/DAY"),
    ] {
        let answer = server.send(with_limit(domain, call, limit, unit)).await;
        assert_eq!(statuses(&answer), expected, "case {case}: {call} {limit}");
    }
    let labels = |leaf: &str| format!("domain=\"test-domain\",key1=\"key1_value1\",key2=\"subkey1_{leaf}\"");
    assert_eq!(server.counted("total_hits", &labels("something")).await, Some(5));
    assert_eq!(server.counted("total_hits", &labels("something_else")).await, Some(1));
}

#[tokio::test]
async fn request_limit_supports_every_unit_of_the_protocol() {
    let server = Server::with_rules(BASIC).await;
    for (unit, name) in [(1, "SECOND"), (2, "MINUTE"), (3, "HOUR"), (4, "DAY"), (5, "MONTH"), (6, "YEAR")] {
        let answer = server.send(with_limit("test-domain", "brought=x", 9, unit)).await;
        assert_eq!(statuses(&answer), format!("OK 9/{name}, 8 left"));
    }
}

#[tokio::test]
async fn unknown_unit_in_request_is_invalid_argument() {
    // Seen failing on: `Ok(RateLimitUnit::Unknown) => Period::SECOND`.
    let server = Server::with_rules(BASIC).await;
    for unit in [0, 7, 99, -1, i32::MAX, i32::MIN] {
        let error = server.try_send(with_limit("test-domain", "a=b", 1, unit)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "case 21: unit {unit}");
        assert!(error.message().contains(&unit.to_string()), "{}", error.message());
        assert!(error.message().contains("HOUR 3"), "the error lists the known units: {}", error.message());
    }
    assert_eq!(statuses(&server.ask("test-domain", "key3=foo").await), "OK 1/HOUR, 0 left");
}

#[tokio::test]
async fn request_limit_is_neither_shadow_nor_quota() {
    let rules = "domain: d\ndescriptors:\n- {key: s, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n\
                 - {key: q, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let server = Setup::rules(rules).start().await;
    for key in ["s", "q"] {
        let mut call = with_limit("d", &format!("{key}=x"), 0, DAY);
        let answer = server.send(call.clone()).await;
        assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OVER", "OVER 0/DAY"));
        // Another descriptor with room would make a quota pass; this is not a quota.
        call.descriptors.extend(request("d", "q=room").descriptors);
        assert_eq!(overall(&server.send(call).await), "OVER");
    }
}
