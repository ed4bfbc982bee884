//! Behind a real Envoy that traces by OpenTelemetry: its calls carry its context, and both tell one receiver.

use crate::asking::{SAMPLED, TRACE, sending_to};
use crate::front::app;
use crate::http::Connection;
use crate::proxy::{self, Envoy};
use crate::receiver::{Receiver, by_id};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

fn cluster(name: &str, at: SocketAddr, protocol: &str) -> Value {
    let address = json!({"socket_address": {"address": at.ip().to_string(), "port_value": at.port()}});
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

fn bootstrap(admin: &Path, app: SocketAddr, limiter: SocketAddr, receiver: SocketAddr) -> Value {
    let limits = json!([{"actions": [{"generic_key": {"descriptor_key": "k", "descriptor_value": "v"}}]}]);
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "ingress",
        "tracing": {"provider": {"name": "envoy.tracers.opentelemetry", "typed_config": {
            "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
            "grpc_service": {"envoy_grpc": {"cluster_name": "receiver"}, "timeout": "20s"},
            "service_name": "envoy",
        }}},
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": "app", "rate_limits": limits}},
        ]}]},
        "http_filters": [
            {"name": "envoy.filters.http.ratelimit", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
                "domain": "d",
                "timeout": "20s",
                "failure_mode_deny": true,
                "rate_limit_service": {
                    "transport_api_version": "V3",
                    "grpc_service": {"envoy_grpc": {"cluster_name": "hivemind"}},
                },
            }},
            {"name": "envoy.filters.http.router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            }},
        ],
    });
    json!({
        "node": {"id": "test", "cluster": "edge"},
        "admin": {"address": {"pipe": {"path": admin}}},
        // Envoy holds spans back for seconds, unless it is told not to.
        "layered_runtime": {"layers": [{"name": "test", "static_layer": {
            "tracing.opentelemetry.min_flush_spans": 1,
        }}]},
        "static_resources": {
            "listeners": [{
                "name": "ingress",
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
                "filter_chains": [{"filters": [
                    {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
                ]}],
            }],
            "clusters": [
                cluster("app", app, "http_protocol_options"),
                cluster("hivemind", limiter, "http2_protocol_options"),
                cluster("receiver", receiver, "http2_protocol_options"),
            ],
        },
    })
}

// Seen failing on: calls whose metadata is not looked at.
#[tokio::test(flavor = "multi_thread")]
async fn behind_envoy_a_check_is_below_envoys_own_span_of_the_call() {
    let Some(program) = proxy::program() else { return };
    let (receiver, app) = (Receiver::start().await, app().await);
    let server = sending_to(&receiver).start().await;
    let folder = tempfile::tempdir().unwrap();
    let at = SocketAddr::from(([127, 0, 0, 1], receiver.port));
    let bootstrap = bootstrap(&Envoy::admin_socket(folder.path()), app, server.grpc, at);
    let envoy = tokio::task::block_in_place(|| {
        let envoy = Envoy::start(&program, folder.path(), &bootstrap);
        let mut connection = Connection::tcp(envoy.address).unwrap();
        assert_eq!(connection.get("/", &[("traceparent", SAMPLED)]).unwrap().status, 200);
        envoy
    });
    let from = |service: &'static str| {
        move |all: &[crate::receiver::Received]| all.iter().any(|of| of.service == service)
    };
    receiver.until("a check", from("hivemind")).await;
    let check = receiver.named("ratelimit.check").remove(0);
    assert_eq!((check.service.as_str(), check.trace().as_str()), ("hivemind", TRACE));
    let is_parent = |of: &crate::receiver::Received| of.service == "envoy" && of.id() == check.parent();
    receiver.until("Envoy's span of the call", |all| all.iter().any(is_parent)).await;
    let parent = &by_id(&receiver.spans())[&check.parent()];
    assert_eq!(parent.trace(), TRACE);
    println!("the check is below {:?}", parent.span.name);
    drop(envoy);
}
