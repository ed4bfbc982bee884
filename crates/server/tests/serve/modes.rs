//! Shadow rules, replacing rules, and global modes: cases 22 to 24 and 47 to 49.

use hivemind_testkit::{Server, Setup, overall, request, statuses};

const SHADOW: &str = "
domain: d
descriptors:
- {key: watched, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 20}}
- {key: watched, value: enforced, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: free, rate_limit: {unlimited: true}}
";

#[tokio::test]
async fn shadow_rule_answers_ok_and_counts_refusals() {
    // Seen failing on: `shadowed` of `Service::status` without its `!`.
    let server = Server::with_rules(SHADOW).await;
    for number in 1_u32..=25 {
        let answer = server.ask("d", "watched=x").await;
        let expected = format!("OK 20/DAY, {} left", 20_u32.saturating_sub(number));
        assert_eq!((overall(&answer), statuses(&answer)), ("OK", expected), "case 22, hit {number}");
    }
    let labels = "domain=\"d\",key1=\"watched\"";
    for (field, count) in
        [("total_hits", 25), ("over_limit", 5), ("shadow_mode", 5), ("within_limit", 20), ("near_limit", 4)]
    {
        assert_eq!(server.counted(field, labels).await, Some(count), "{field}");
    }
}

#[tokio::test]
async fn rule_next_to_a_shadow_rule_still_refuses() {
    let server = Server::with_rules(SHADOW).await;
    let mut much = request("d", "watched=x | watched=enforced");
    much.hits_addend = 3;
    assert_eq!(statuses(&server.send(much.clone()).await), "OK 20/DAY, 17 left | OK 3/DAY, 0 left");
    assert_eq!(statuses(&server.ask("d", "watched=enforced").await), "OVER 3/DAY", "case 23");
    much.hits_addend = 21;
    let answer = server.send(much).await;
    assert_eq!(overall(&answer), "OVER", "case 24");
    assert_eq!(statuses(&answer), "OK 20/DAY, 0 left | OVER 3/DAY", "case 24");
}

#[tokio::test]
async fn one_descriptor_over_limit_refuses_in_any_position() {
    let server = Server::with_rules(SHADOW).await;
    server.send(with_hits("watched=enforced", 3)).await;
    for descriptors in ["watched=enforced | other=x", "other=x | watched=enforced"] {
        let answer = server.ask("d", descriptors).await;
        assert_eq!(overall(&answer), "OVER", "case 47: {descriptors}");
        assert!(statuses(&answer).contains("none") && statuses(&answer).contains("OVER 3/DAY"));
    }
    let answer = server.ask("d", "watched=y | other=x | free=x").await;
    assert_eq!(statuses(&answer), "OK 20/DAY, 19 left | none | unlimited", "case 48");
}

fn with_hits(
    text: &str,
    hits: u32,
) -> hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitRequest {
    let mut request = request("d", text);
    request.hits_addend = hits;
    request
}

#[tokio::test]
async fn global_shadow_mode_passes_with_true_statuses() {
    let server = Setup::rules(SHADOW).with("rate_limiting.shadow_mode", "true").start().await;
    for expected in ["OK 3/DAY, 0 left", "OVER 3/DAY"] {
        let answer = server.send(with_hits("watched=enforced", 3)).await;
        assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", expected), "case 49");
    }
    let page = server.metrics().await;
    assert_eq!(page.metric("ratelimit_service_global_shadow_mode"), Some(1));
    let labels = "domain=\"d\",key1=\"watched_enforced\"";
    assert_eq!(server.counted("over_limit", labels).await, Some(3));
    assert_eq!(server.counted("shadow_mode", labels).await, Some(0), "the rule itself is not in shadow mode");
}

#[tokio::test]
async fn shadow_rule_answers_ok_under_global_modes_too() {
    // Seen failing on: global modes that overwrite the rule's own mode.
    for mode in ["shadow_mode", "quota_mode"] {
        let server = Setup::rules(SHADOW).with(&format!("rate_limiting.{mode}"), "true").start().await;
        let answer = server.send(with_hits("watched=x", 22)).await;
        assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", "OK 20/DAY, 0 left"), "{mode}");
        assert_eq!(server.counted("shadow_mode", "domain=\"d\",key1=\"watched\"").await, Some(2), "{mode}");
    }
}

#[tokio::test]
async fn global_shadow_mode_precedes_global_quota_mode() {
    let setup = Setup::rules(SHADOW).with("rate_limiting.shadow_mode", "true");
    let server = setup.with("rate_limiting.quota_mode", "true").start().await;
    let answer = server.send(with_hits("watched=enforced", 4)).await;
    assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", "OVER 3/DAY"), "case 49");
    assert_eq!(server.metrics().await.metric("ratelimit_service_global_shadow_mode"), Some(1));
}

#[tokio::test]
async fn disabled_rate_limiting_limits_nothing() {
    let server = Setup::rules(SHADOW).with("rate_limiting.enabled", "false").start().await;
    let answer = server.send(with_hits("watched=enforced | x=y", 100)).await;
    assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", "none | none"));
}

const REPLACES: &str = "
domain: d
descriptors:
- {key: basic, rate_limit: {name: basic, unit: day, requests_per_unit: 2}}
- {key: also, rate_limit: {name: basic, unit: day, requests_per_unit: 2}}
- {key: gold, rate_limit: {name: gold, unit: day, requests_per_unit: 9, replaces: [{name: basic}, {name: unheard-of}]}}
- {key: staff, rate_limit: {unlimited: true, replaces: [{name: gold}, {name: basic}]}}
- {key: free, rate_limit: {unlimited: true, name: free}}
- {key: strict, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: free}]}}
";

#[tokio::test]
async fn replaced_limit_reports_and_counts_nothing() {
    let server = Server::with_rules(REPLACES).await;
    for (descriptors, expected) in [
        ("basic=x", "OK 2/DAY `basic`, 1 left"),
        // In either order, and every limit with that name.
        ("basic=x | gold=x", "none | OK 9/DAY `gold`, 8 left"),
        ("gold=x | basic=x | also=x", "OK 9/DAY `gold`, 7 left | none | none"),
        // Its counter is unchanged.
        ("basic=x", "OK 2/DAY `basic`, 0 left"),
        ("basic=x | gold=x", "none | OK 9/DAY `gold`, 6 left"),
        // Replaced rules still replace: all names count.
        ("basic=x | gold=x | staff=x", "none | none | unlimited"),
        ("free=x", "unlimited"),
        ("free=x | strict=x", "none | OK 1/DAY, 0 left"),
        ("basic=x", "OVER 2/DAY `basic`"),
    ] {
        assert_eq!(statuses(&server.ask("d", descriptors).await), expected, "{descriptors}");
    }
    assert_eq!(server.counted("total_hits", "domain=\"d\",key1=\"basic\"").await, Some(3));
    assert_eq!(server.counted("total_hits", "domain=\"d\",key1=\"also\"").await, Some(0));
}
