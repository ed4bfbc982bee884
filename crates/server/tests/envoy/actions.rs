//! Envoy's rate limit actions: for each, the first request passes, the second is refused, and a request with
//! another descriptor passes.

use crate::stack::{Setup, Stack};
use serde_json::{Value, json};

type Request<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// A rule with one request per year for this entry, and none for other entries.
pub(crate) fn once(key: &str, value: &str) -> String {
    format!("- {{key: '{key}', value: '{value}', rate_limit: {{unit: year, requests_per_unit: 1}}}}\n")
}

/// Sends two requests that make the entry, and one that does not.
fn assert_second_refused(stack: &Stack, limited: Request<'_>, other: Request<'_>) {
    assert_eq!(stack.status(limited.0, limited.1), 200, "the first");
    assert_eq!(stack.status(limited.0, limited.1), 429, "the second");
    assert_eq!(stack.status(other.0, other.1), 200, "another");
}

fn limited_by(action: &Value, key: &str, value: &str) -> Setup {
    Setup::new(&once(key, value)).actions(&[json!([action])])
}

#[test]
fn source_cluster_limits_requests_of_one_fleet() {
    let action = json!({"source_cluster": {}});
    let Some(stack) = limited_by(&action, "source_cluster", "edge").start() else { return };
    assert_eq!([(); 2].map(|()| stack.status("/", &[])), [200, 429]);
}

#[test]
fn destination_cluster_limits_requests_to_one_upstream() {
    let action = json!({"destination_cluster": {}});
    let Some(stack) = limited_by(&action, "destination_cluster", "spare")
        .route(json!({"route": {"cluster": null, "cluster_header": "x-to"}}))
        .start()
    else {
        return;
    };
    assert_second_refused(&stack, ("/", &[("x-to", "spare")]), ("/", &[("x-to", "upstream")]));
}

#[test]
fn request_headers_limit_each_value_separately() {
    let action = json!({"request_headers": {"header_name": "x-user", "descriptor_key": "user"}});
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let Some(stack) = Setup::new(rules).actions(&[json!([action])]).start() else { return };
    assert_second_refused(&stack, ("/", &[("x-user", "ada")]), ("/", &[("x-user", "bob")]));
    assert_eq!(stack.status("/", &[("x-user", "bob")]), 429);
    // Without the header Envoy makes no descriptor and does not call the service.
    assert_eq!([(); 2].map(|()| stack.status("/", &[])), [200, 200]);
}

#[test]
fn query_parameters_limit_by_url_parameter() {
    let action = json!({"query_parameters": {"query_parameter_name": "plan", "descriptor_key": "the_plan"}});
    let Some(stack) = limited_by(&action, "the_plan", "free").start() else { return };
    assert_second_refused(&stack, ("/?plan=free", &[]), ("/?plan=gold", &[]));
}

#[test]
fn generic_key_limits_the_whole_route() {
    let action = json!({"generic_key": {"descriptor_value": "checkout"}});
    let Some(stack) = limited_by(&action, "generic_key", "checkout").start() else { return };
    assert_eq!(stack.status("/", &[("x-user", "ada")]), 200);
    assert_eq!(stack.status("/", &[("x-user", "bob")]), 429);
}

#[test]
fn header_value_match_limits_matching_requests() {
    let action = json!({"header_value_match": {
        "descriptor_value": "robots",
        "headers": [{"name": "user-agent", "string_match": {"contains": "bot"}}],
    }});
    let Some(stack) = limited_by(&action, "header_match", "robots").start() else { return };
    assert_second_refused(&stack, ("/", &[("user-agent", "a bot")]), ("/", &[("user-agent", "a human")]));
}

#[test]
fn query_parameter_value_match_limits_matching_requests() {
    let action = json!({"query_parameter_value_match": {
        "descriptor_value": "exports",
        "query_parameters": [{"name": "format", "string_match": {"exact": "csv"}}],
    }});
    let Some(stack) = limited_by(&action, "query_match", "exports").start() else { return };
    assert_second_refused(&stack, ("/?format=csv", &[]), ("/?format=html", &[]));
}

#[test]
fn dynamic_metadata_limits_by_value_of_earlier_filter() {
    let metadata = json!({"metadata": {
        "source": "DYNAMIC",
        "descriptor_key": "tenant",
        "metadata_key": {"key": "auth", "path": [{"key": "tenant"}]},
    }});
    let to_metadata = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
        "request_rules": [{
            "header": "x-tenant",
            "on_header_present": {"metadata_namespace": "auth", "key": "tenant", "type": "STRING"},
        }],
    });
    let Some(stack) = limited_by(&metadata, "tenant", "acme")
        .before("envoy.filters.http.header_to_metadata", &to_metadata)
        .start()
    else {
        return;
    };
    assert_second_refused(&stack, ("/", &[("x-tenant", "acme")]), ("/", &[("x-tenant", "umbrella")]));
}

#[test]
fn route_metadata_limits_by_the_routes_own_value() {
    let metadata = json!({"metadata": {
        "source": "ROUTE_ENTRY",
        "descriptor_key": "tier",
        "metadata_key": {"key": "shop", "path": [{"key": "tier"}]},
    }});
    let Some(stack) = limited_by(&metadata, "tier", "slow")
        .route(json!({"metadata": {"filter_metadata": {"shop": {"tier": "slow"}}}}))
        .start()
    else {
        return;
    };
    assert_eq!([(); 2].map(|()| stack.status("/", &[])), [200, 429]);
}

#[test]
fn expression_limits_by_its_computed_value() {
    let action = json!({"extension": {
        "name": "envoy.rate_limit_descriptors.expr",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor",
            "descriptor_key": "first_segment",
            "text": "request.path.startsWith('/api/') ? 'api' : 'pages'",
        },
    }});
    let Some(stack) = limited_by(&action, "first_segment", "api").start() else { return };
    assert_second_refused(&stack, ("/api/users", &[]), ("/about", &[]));
}

#[test]
fn several_actions_make_one_descriptor_with_several_entries() {
    let actions = json!([
        {"generic_key": {"descriptor_key": "route", "descriptor_value": "search"}},
        {"request_headers": {"header_name": "x-user", "descriptor_key": "user"}},
    ]);
    let rules = "
- key: route
  value: search
  descriptors:
  - {key: user, value: 'free-*', rate_limit: {unit: year, requests_per_unit: 1}}
";
    let Some(stack) = Setup::new(rules).actions(&[actions]).start() else { return };
    assert_second_refused(&stack, ("/", &[("x-user", "free-ada")]), ("/", &[("x-user", "gold-bob")]));
    assert_eq!(stack.status("/", &[("x-user", "free-bob")]), 200, "a wildcard counts each value separately");
}
