//! Envoy's configuration: one listener, one route, the rate limit filter, three clusters.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

/// The differences of one test: fields merged over the defaults, and further filters.
#[derive(Default)]
pub struct Bootstrap {
    pub route: Vec<Value>,
    pub better_routes: Vec<Value>,
    pub filter: Vec<Value>,
    pub before: Vec<Value>,
    pub after: Vec<Value>,
}

impl Bootstrap {
    pub fn into_json(self, admin: &Path, limiter: &Value, upstreams: &[(&str, SocketAddr)]) -> Value {
        let mut route = json!({"match": {"prefix": "/"}, "route": {"cluster": "upstream"}});
        for fields in self.route {
            merge(&mut route, fields);
        }
        let mut routes = self.better_routes;
        routes.push(route);
        let mut filters = self.before;
        filters.push(rate_limit_filter(self.filter));
        filters.extend(self.after);
        let last = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
        filters.push(json!({"name": "envoy.filters.http.router", "typed_config": {"@type": last}}));
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "ingress",
            // The client's address is taken from the header, so that a test can act as several clients.
            "use_remote_address": true,
            "xff_num_trusted_hops": 1,
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
            "http_filters": filters,
        });
        let mut clusters: Vec<_> = upstreams
            .iter()
            .map(|(name, at)| cluster(name, &address(*at), "http_protocol_options"))
            .collect();
        clusters.push(cluster("hivemind", limiter, "http2_protocol_options"));
        json!({
            "node": {"id": "test", "cluster": "edge"},
            "admin": {"address": {"pipe": {"path": admin}}},
            "static_resources": {
                "listeners": [{
                    "name": "ingress",
                    "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
                    "filter_chains": [{"filters": [
                        {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
                    ]}],
                }],
                "clusters": clusters,
            },
        })
    }
}

fn rate_limit_filter(overrides: Vec<Value>) -> Value {
    let mut config = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        "domain": "test",
        "timeout": "20s",
        "failure_mode_deny": true,
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": "hivemind"}},
        },
    });
    for fields in overrides {
        merge(&mut config, fields);
    }
    json!({"name": "envoy.filters.http.ratelimit", "typed_config": config})
}

pub fn cluster(name: &str, address: &Value, protocol: &str) -> Value {
    let protocol = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {protocol: {}},
    });
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "20s",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol},
        "load_assignment": {"cluster_name": name, "endpoints": [
            {"lb_endpoints": [{"endpoint": {"address": address}}]},
        ]},
    })
}

pub fn address(at: SocketAddr) -> Value {
    json!({"socket_address": {"address": at.ip().to_string(), "port_value": at.port()}})
}

/// Merges fields over others: maps are merged, a null removes a field, any other value replaces.
pub fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, from) => *into = from,
    }
}
