//! Quotas: Envoy asks which of several backends has quota left, and routes the request there.

use crate::stack::{Setup, Stack};
use serde_json::{Value, json};

const RULES: &str = "
- key: backend
  value: premium
  quota_mode: true
  metadata: {backend: upstream}
  rate_limit: {name: premium, unit: year, requests_per_unit: 2}
- key: backend
  value: standard
  quota_mode: true
  metadata: {backend: spare}
  rate_limit: {name: standard, unit: year, requests_per_unit: 3}
";

fn backends() -> [Value; 2] {
    ["premium", "standard"]
        .map(|backend| json!([{"generic_key": {"descriptor_key": "backend", "descriptor_value": backend}}]))
}

/// Routes by the metadata of the response. Envoy chooses the route before it calls the service, so a later
/// filter must clear the route cache: Lua can; `header_mutation` cannot, and `transform` only with a body. The
/// route that is chosen first needs an existing cluster, or Envoy does not call the service at all.
fn setup_with_routing() -> Setup {
    let again = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": {
            "inline_string": "function envoy_on_request(handle) handle:clearRouteCache() end",
        },
    });
    let backend_is_spare = json!({
        "filter": "envoy.filters.http.ratelimit",
        "path": [{"key": "metadata"}, {"key": "backend"}],
        "value": {"string_match": {"exact": "spare"}},
    });
    Setup::new(RULES)
        .actions(&backends())
        .settings(json!({"dynamic_metadata": true}))
        .after("envoy.filters.http.lua", &again)
        .better_route(json!({
            "match": {"prefix": "/", "dynamic_metadata": [backend_is_spare]},
            "route": {"cluster": "spare"},
        }))
}

fn backend_of(stack: &Stack) -> Option<String> {
    let response = stack.get("/", &[]);
    match response.status {
        200 => Some(response.header("x-upstream").unwrap().to_owned()),
        429 => None,
        _ => panic!("{response:?}"),
    }
}

#[test]
fn request_is_routed_to_first_backend_with_quota() {
    let Some(stack) = setup_with_routing().start() else { return };
    // Both quotas are spent together, and the first that passes names the backend: 2 of premium, then the
    // remaining 1 of standard, then none has quota left.
    let backends: Vec<_> = (0..4).map(|_| backend_of(&stack)).collect();
    let [premium, standard] = ["upstream", "spare"].map(|name| Some(name.to_owned()));
    assert_eq!(backends, [premium.clone(), premium, standard, None]);
}

#[test]
fn metadata_of_passing_descriptors_reaches_the_upstream() {
    let mutation = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
        "mutations": {"request_mutations": [
            {"append": {"header": {
                "key": "x-backend",
                "value": "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:metadata:backend)%",
            }}},
            {"append": {"header": {
                "key": "x-domain",
                "value": "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:domain)%",
            }}},
            {"append": {"header": {
                "key": "x-descriptors",
                "value": "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:descriptors)%",
            }}},
        ]},
    });
    let Some(stack) = Setup::new(RULES)
        .actions(&backends())
        .settings(json!({"dynamic_metadata": true}))
        .after("envoy.filters.http.header_mutation", &mutation)
        .start()
    else {
        return;
    };
    let [first, second, third] = [(); 3].map(|()| stack.get("/", &[]));
    assert_eq!(first.upstream_header("x-domain"), Some("test"));
    let descriptors: Value = serde_json::from_str(first.upstream_header("x-descriptors").unwrap()).unwrap();
    let entries = ["/0/entries", "/1/entries"].map(|path| descriptors.pointer(path).cloned());
    assert_eq!(entries, [Some(json!(["backend=premium"])), Some(json!(["backend=standard"]))]);
    let backends = [&first, &second, &third].map(|response| response.upstream_header("x-backend"));
    assert_eq!(backends, [Some("upstream"), Some("upstream"), Some("spare")]);
    // A request refused by all quotas is not setup_with_routing anywhere.
    assert_eq!(stack.status("/", &[]), 429);
}
