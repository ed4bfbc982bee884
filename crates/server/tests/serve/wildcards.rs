//! Values with a `*`: what they match, and which values share a counter.

use hivemind_testkit::{Server, statuses};

const RULES: &str = "
domain: d
descriptors:
- {key: path, value: '/a/*/c', rate_limit: {unit: day, requests_per_unit: 5}}
- {key: path, value: '*.png', rate_limit: {unit: day, requests_per_unit: 6}}
- {key: path, value: '/x*y*z', rate_limit: {unit: day, requests_per_unit: 7}}
- {key: shared, value: 'bot*', share_threshold: true, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: own, value: 'bot*', rate_limit: {unit: day, requests_per_unit: 3}}
- key: tenant
  value: 'acme-*'
  share_threshold: true
  descriptors: [ {key: user, rate_limit: {unit: day, requests_per_unit: 3}} ]
- {key: all, value: '*', rate_limit: {unit: day, requests_per_unit: 8}}
- {key: reported, value: 'v*', value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}
- {key: plain, value_to_metric: true, descriptors: [ {key: leaf, rate_limit: {unit: day, requests_per_unit: 9}} ]}
- {key: hidden, value: 'v*', value_to_metric: true, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 9}}
";

#[tokio::test]
async fn star_matches_any_text_in_any_position() {
    let server = Server::with_rules(RULES).await;
    for (descriptors, expected) in [
        ("path=/a/b/c", "OK 5/DAY, 4 left"),
        ("path=/a/b/b/c", "OK 5/DAY, 4 left"),
        ("path=/a//c", "OK 5/DAY, 4 left"),
        ("path=/a/c", "none"),
        ("path=/img/logo.png", "OK 6/DAY, 5 left"),
        ("path=.png", "OK 6/DAY, 5 left"),
        ("path=/x1y2z", "OK 7/DAY, 6 left"),
        ("path=/xyz", "OK 7/DAY, 6 left"),
        ("path=/xzy", "none"),
        ("all=", "OK 8/DAY, 7 left"),
        ("all=anything/at=all", "OK 8/DAY, 7 left"),
    ] {
        assert_eq!(statuses(&server.ask("d", descriptors).await), expected, "{descriptors}");
    }
}

#[tokio::test]
async fn wildcard_values_have_own_counters_unless_shared() {
    let server = Server::with_rules(RULES).await;
    for (descriptors, expected) in [
        ("own=bot1", "OK 3/DAY, 2 left"),
        ("own=bot2", "OK 3/DAY, 2 left"),
        ("shared=bot1", "OK 3/DAY, 2 left"),
        ("shared=bot2", "OK 3/DAY, 1 left"),
        ("shared=bot1", "OK 3/DAY, 0 left"),
        ("shared=bot3", "OVER 3/DAY"),
        // The same for a level above the limit; the user is not shared.
        ("tenant=acme-1 user=ada", "OK 3/DAY, 2 left"),
        ("tenant=acme-2 user=ada", "OK 3/DAY, 1 left"),
        ("tenant=acme-2 user=bob", "OK 3/DAY, 2 left"),
    ] {
        assert_eq!(statuses(&server.ask("d", descriptors).await), expected, "{descriptors}");
    }
}

#[tokio::test]
async fn descriptors_sharing_a_counter_are_both_counted() {
    let server = Server::with_rules(RULES).await;
    let answer = server.ask("d", "shared=bot1 | shared=bot2").await;
    assert_eq!(statuses(&answer), "OK 3/DAY, 2 left | OK 3/DAY, 1 left");
}

#[tokio::test]
async fn statistics_are_labeled_by_pattern_or_value_as_configured() {
    let server = Server::with_rules(RULES).await;
    for (descriptors, labels) in [
        ("own=bot1", "domain=\"d\",key1=\"own_bot*\""),
        ("reported=v1", "domain=\"d\",key1=\"reported_v1\""),
        ("plain=p leaf=l", "domain=\"d\",key1=\"plain_p\",key2=\"leaf\""),
        ("hidden=v1", "domain=\"d\",key1=\"hidden_v*\""),
    ] {
        server.ask("d", descriptors).await;
        assert_eq!(server.counted("total_hits", labels).await, Some(1), "{descriptors}");
    }
}
