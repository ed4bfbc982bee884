//! Response headers for clients and upstreams: Envoy's own, made from the returned statuses, and those of the
//! service.

use crate::stack::Setup;
use hivemind_testkit::envoy::http::Response;
use serde_json::json;

const YEAR: u64 = 365 * 24 * 60 * 60;

fn by_user() -> serde_json::Value {
    json!([{"request_headers": {"header_name": "x-user", "descriptor_key": "user"}}])
}

fn number(response: &Response, name: &str) -> u64 {
    response.header(name).unwrap_or_else(|| panic!("no {name}: {response:?}")).parse().unwrap()
}

#[test]
fn envoy_limit_headers_list_every_status_with_window() {
    let rules = "
- {key: user, rate_limit: {name: per-user, unit: year, requests_per_unit: 2}}
- {key: generic_key, value: all, rate_limit: {name: total, unit: month, requests_per_unit: 100}}
";
    let all = json!([{"generic_key": {"descriptor_value": "all"}}]);
    let Some(stack) = Setup::new(rules)
        .actions(&[by_user(), all])
        .filter(json!({"enable_x_ratelimit_headers": "DRAFT_VERSION_03"}))
        .start()
    else {
        return;
    };
    for (remaining, status) in [("1", 200), ("0", 200), ("0", 429)] {
        let response = stack.get("/", &[("x-user", "ada")]);
        assert_eq!(response.status, status);
        let limit = r#"2, 2;w=31536000;name="per-user", 100;w=2592000;name="total""#;
        assert_eq!(response.header("x-ratelimit-limit"), Some(limit));
        assert_eq!(response.header("x-ratelimit-remaining"), Some(remaining));
        // The reset is that of the tightest limit, the user's, and not the month's.
        assert!((1..=YEAR).contains(&number(&response, "x-ratelimit-reset")), "{response:?}");
        // Off by default in the filter.
        assert_eq!(response.header("retry-after"), None);
    }
}

#[test]
fn refused_client_gets_retry_after_header() {
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let Some(stack) = Setup::new(rules)
        .actions(&[by_user()])
        .filter(json!({"enable_x_ratelimit_headers": "DRAFT_VERSION_03", "enable_retry_after_header": true}))
        .start()
    else {
        return;
    };
    assert_eq!(
        stack.get("/", &[("x-user", "ada")]).header("retry-after"),
        None,
        "there is nothing to wait for"
    );
    let refused = stack.get("/", &[("x-user", "ada")]);
    assert_eq!(refused.status, 429);
    assert!((1..=YEAR).contains(&number(&refused, "retry-after")), "{refused:?}");
    assert_eq!(refused.header("retry-after"), refused.header("x-ratelimit-reset"));
}

#[test]
fn own_limit_headers_reach_client_with_configured_names() {
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let names = json!({"enabled": true, "limit": "RateLimit-Limit", "remaining": "X-Left"});
    let Some(stack) =
        Setup::new(rules).actions(&[by_user()]).settings(json!({"response_headers": names})).start()
    else {
        return;
    };
    for status in [200, 429] {
        let response = stack.get("/", &[("x-user", "ada")]);
        assert_eq!(response.status, status);
        assert_eq!(response.header("ratelimit-limit"), Some("1"));
        assert_eq!(response.header("x-left"), Some("0"));
        assert!((1..=YEAR).contains(&number(&response, "ratelimit-reset")));
    }
}

#[test]
fn rule_adds_client_and_upstream_headers_and_refusal_body() {
    let rules = r#"
- key: user
  rate_limit: {unit: year, requests_per_unit: 1}
  response:
    headers: {x-plan: free, x-upgrade-at: https://shop.example/plans}
    request_headers: {x-checked-by: hivemind}
    raw_body: '{"error": "the free plan has one request a year"}'
"#;
    let Some(stack) = Setup::new(rules).actions(&[by_user()]).start() else { return };
    let passed = stack.get("/", &[("x-user", "ada")]);
    assert_eq!(passed.status, 200);
    assert_eq!(passed.header("x-plan"), Some("free"));
    assert_eq!(passed.upstream_header("x-checked-by"), Some("hivemind"));
    assert_eq!(passed.upstream_header("x-plan"), None, "a client header is not sent to the upstream");
    let refused = stack.get("/", &[("x-user", "ada")]);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("x-upgrade-at"), Some("https://shop.example/plans"));
    assert_eq!(refused.body, r#"{"error": "the free plan has one request a year"}"#);
}

#[test]
fn custom_period_has_limit_and_reset_but_no_window() {
    let rules = "- {key: user, rate_limit: {unit: year, unit_multiplier: 2, requests_per_unit: 1}}\n";
    let Some(stack) = Setup::new(rules)
        .actions(&[by_user()])
        .filter(json!({"enable_x_ratelimit_headers": "DRAFT_VERSION_03"}))
        .start()
    else {
        return;
    };
    for status in [200, 429] {
        let response = stack.get("/", &[("x-user", "ada")]);
        assert_eq!(response.status, status);
        assert_eq!(response.header("x-ratelimit-limit"), Some("1"));
        assert!((1..=2 * YEAR).contains(&number(&response, "x-ratelimit-reset")));
    }
}

#[test]
fn limit_in_request_overrides_the_rules() {
    let bring = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
        "metadata": [{"metadata_namespace": "plans", "value": {"limit": {"requests_per_unit": 2, "unit": "YEAR"}}}],
    });
    let limit = json!({"dynamic_metadata": {"metadata_key": {"key": "plans", "path": [{"key": "limit"}]}}});
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let Some(stack) = Setup::new(rules)
        .before("envoy.filters.http.set_metadata", &bring)
        .route(json!({"route": {"rate_limits": [{"actions": by_user(), "limit": limit}]}}))
        .start()
    else {
        return;
    };
    assert_eq!([(); 3].map(|()| stack.status("/", &[("x-user", "ada")])), [200, 200, 429]);
}
