//! Limits that a request brings along: cases 17 to 21 of the conformance page.

use crate::lookup::BASIC;
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
async fn a_brought_limit_goes_before_the_rules_of_its_domain() {
    let server = Server::with_rules(BASIC).await;
    let (something, other) = ("key1=value1 subkey1=something", "key1=value1 subkey1=something_else");
    for (case, domain, asked, limit, unit, expected) in [
        (17, "foo_domain", "key1=value1", 10, DAY, "none"),
        (18, "test-domain", something, 10, DAY, "OK 10/DAY, 9 left"),
        (18, "test-domain", something, 10, DAY, "OK 10/DAY, 8 left"),
        // Another amount keeps the counter.
        (18, "test-domain", something, 20, DAY, "OK 20/DAY, 17 left"),
        (18, "test-domain", something, 2, DAY, "OVER 2/DAY"),
        (19, "test-domain", something, 42, HOUR, "OK 42/HOUR, 41 left"),
        (20, "test-domain", other, 42, HOUR, "OK 42/HOUR, 41 left"),
        // No rule has this key, and none has to.
        (20, "test-domain", "unheard=of", 5, DAY, "OK 5/DAY, 4 left"),
        // A limit of its own, though the rule says unlimited; without a name, though the rule has one.
        (20, "test-domain", "key6=x", 5, DAY, "OK 5/DAY, 4 left"),
        (20, "test-domain", "key4=x", 5, DAY, "OK 5/DAY, 4 left"),
        (20, "test-domain", "key2=zero", 0, DAY, "OVER 0/DAY"),
    ] {
        let answer = server.send(with_limit(domain, asked, limit, unit)).await;
        assert_eq!(statuses(&answer), expected, "case {case}: {asked} {limit}");
    }
    let labels = |leaf: &str| format!("domain=\"test-domain\",key1=\"key1_value1\",key2=\"subkey1_{leaf}\"");
    assert_eq!(server.counted("total_hits", &labels("something")).await, Some(5));
    assert_eq!(server.counted("total_hits", &labels("something_else")).await, Some(1));
}

#[tokio::test]
async fn every_unit_of_the_protocol_can_be_brought() {
    let server = Server::with_rules(BASIC).await;
    for (unit, name) in [(1, "SECOND"), (2, "MINUTE"), (3, "HOUR"), (4, "DAY"), (5, "MONTH"), (6, "YEAR")] {
        let answer = server.send(with_limit("test-domain", "brought=x", 9, unit)).await;
        assert_eq!(statuses(&answer), format!("OK 9/{name}, 8 left"));
    }
}

#[tokio::test]
async fn an_unknown_unit_is_refused_and_the_server_lives() {
    // Seen failing on: `Ok(RateLimitUnit::Unknown) => Period::SECOND`.
    let server = Server::with_rules(BASIC).await;
    for unit in [0, 7, 99, -1, i32::MAX, i32::MIN] {
        let error = server.try_send(with_limit("test-domain", "a=b", 1, unit)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "case 21: unit {unit}");
        assert!(error.message().contains(&unit.to_string()), "{}", error.message());
        assert!(error.message().contains("HOUR 3"), "it says what is known: {}", error.message());
    }
    assert_eq!(statuses(&server.ask("test-domain", "key3=foo").await), "OK 1/HOUR, 0 left");
}

#[tokio::test]
async fn a_brought_limit_is_neither_shadow_nor_quota() {
    let rules = "domain: d\ndescriptors:\n- {key: s, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n\
                 - {key: q, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let server = Setup::rules(rules).start().await;
    for key in ["s", "q"] {
        let mut asked = with_limit("d", &format!("{key}=x"), 0, DAY);
        let answer = server.send(asked.clone()).await;
        assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OVER", "OVER 0/DAY"));
        // Another descriptor with room makes a quota pass; this is none.
        asked.descriptors.extend(request("d", "q=room").descriptors);
        assert_eq!(overall(&server.send(asked).await), "OVER");
    }
}
