//! Each way in which Envoy makes a descriptor of a request: the first passes, the second does not,
//! and a request that makes another descriptor is none of that limit's business.

use crate::stack::{Setup, Stack};
use serde_json::{Value, json};

type Request<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// One request a year for this entry, and none for any other.
pub(crate) fn once(key: &str, value: &str) -> String {
    format!("- {{key: '{key}', value: '{value}', rate_limit: {{unit: year, requests_per_unit: 1}}}}\n")
}

/// Asks twice with what makes the entry, and then with what does not.
fn refuses_the_second(stack: &Stack, limited: Request<'_>, other: Request<'_>) {
    assert_eq!(stack.status(limited.0, limited.1), 200, "the first");
    assert_eq!(stack.status(limited.0, limited.1), 429, "the second");
    assert_eq!(stack.status(other.0, other.1), 200, "another");
}

fn limited_by(action: &Value, key: &str, value: &str) -> Setup {
    Setup::new(&once(key, value)).actions(&[json!([action])])
}

#[test]
fn source_cluster_limits_what_comes_from_one_fleet() {
    let action = json!({"source_cluster": {}});
    let Some(stack) = limited_by(&action, "source_cluster", "edge").start() else { return };
    assert_eq!([(); 2].map(|()| stack.status("/", &[])), [200, 429]);
}

#[test]
fn destination_cluster_limits_what_goes_to_one_upstream() {
    let action = json!({"destination_cluster": {}});
    let Some(stack) = limited_by(&action, "destination_cluster", "spare")
        .route(json!({"route": {"cluster": null, "cluster_header": "x-to"}}))
        .start()
    else {
        return;
    };
    refuses_the_second(&stack, ("/", &[("x-to", "spare")]), ("/", &[("x-to", "upstream")]));
}

#[test]
fn request_headers_limit_each_value_alone() {
    let action = json!({"request_headers": {"header_name": "x-user", "descriptor_key": "user"}});
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let Some(stack) = Setup::new(rules).actions(&[json!([action])]).start() else { return };
    refuses_the_second(&stack, ("/", &[("x-user", "ada")]), ("/", &[("x-user", "bob")]));
    assert_eq!(stack.status("/", &[("x-user", "bob")]), 429);
    // Without the header there is no descriptor, and Envoy does not even ask.
    assert_eq!([(); 2].map(|()| stack.status("/", &[])), [200, 200]);
}

#[test]
fn query_parameters_limit_by_the_address_line() {
    let action = json!({"query_parameters": {"query_parameter_name": "plan", "descriptor_key": "the_plan"}});
    let Some(stack) = limited_by(&action, "the_plan", "free").start() else { return };
    refuses_the_second(&stack, ("/?plan=free", &[]), ("/?plan=gold", &[]));
}

#[test]
fn generic_key_limits_a_route_as_a_whole() {
    let action = json!({"generic_key": {"descriptor_value": "checkout"}});
    let Some(stack) = limited_by(&action, "generic_key", "checkout").start() else { return };
    assert_eq!(stack.status("/", &[("x-user", "ada")]), 200);
    assert_eq!(stack.status("/", &[("x-user", "bob")]), 429);
}

#[test]
fn header_value_match_limits_those_who_match() {
    let action = json!({"header_value_match": {
        "descriptor_value": "robots",
        "headers": [{"name": "user-agent", "string_match": {"contains": "bot"}}],
    }});
    let Some(stack) = limited_by(&action, "header_match", "robots").start() else { return };
    refuses_the_second(&stack, ("/", &[("user-agent", "a bot")]), ("/", &[("user-agent", "a human")]));
}

#[test]
fn query_parameter_value_match_limits_those_who_match() {
    let action = json!({"query_parameter_value_match": {
        "descriptor_value": "exports",
        "query_parameters": [{"name": "format", "string_match": {"exact": "csv"}}],
    }});
    let Some(stack) = limited_by(&action, "query_match", "exports").start() else { return };
    refuses_the_second(&stack, ("/?format=csv", &[]), ("/?format=html", &[]));
}

#[test]
fn dynamic_metadata_limits_by_what_an_earlier_filter_found() {
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
    refuses_the_second(&stack, ("/", &[("x-tenant", "acme")]), ("/", &[("x-tenant", "umbrella")]));
}

#[test]
fn route_metadata_limits_by_what_the_route_says_of_itself() {
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
fn an_expression_limits_by_what_it_computes() {
    let action = json!({"extension": {
        "name": "envoy.rate_limit_descriptors.expr",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor",
            "descriptor_key": "first_segment",
            "text": "request.path.startsWith('/api/') ? 'api' : 'pages'",
        },
    }});
    let Some(stack) = limited_by(&action, "first_segment", "api").start() else { return };
    refuses_the_second(&stack, ("/api/users", &[]), ("/about", &[]));
}

#[test]
fn several_actions_make_one_descriptor_of_several_entries() {
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
    refuses_the_second(&stack, ("/", &[("x-user", "free-ada")]), ("/", &[("x-user", "gold-bob")]));
    assert_eq!(stack.status("/", &[("x-user", "free-bob")]), 200, "a wildcard counts each value alone");
}
