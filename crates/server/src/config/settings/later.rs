//! Sections of capabilities that are not there yet. Their keys and kinds are checked, so
//! that a file that is right today stays right; nothing is kept of them.
//!
//! What can be missing without harm is a warning. Where missing it would admit other
//! requests than asked for, or leave open what was to be closed, it is an error.

use super::kind::{
    AMOUNT, BYTES, FLAG, HOST_PORT, IPV6_PREFIX, LISTEN, MILLIS, NETWORK, NUMBER, PATH, SPAN, URL, WORD,
};
use super::reading::Section;

/// Takes the root, since it is the section as a whole that is not there yet.
pub(super) fn mesh(root: &mut Section<'_, '_>) {
    let mut section = root.section("mesh");
    let why =
        "counters are not cached; how old a peer's count may be is `rate_limiting.staleness_threshold_ms`";
    section.superseded("cache_ttl_ms", &NUMBER, Err(why));
    section.read("node_id", &WORD);
    section.read("cluster_id", &WORD);
    section.read("bind", &LISTEN);
    section.read("advertise", &WORD);
    section.list("bootstrap_peers", &HOST_PORT);
    section.read("dns", &WORD);
    section.read("mdns", &FLAG);
    section.read("gossip_interval_ms", &MILLIS);
    section.read("sync_interval_ms", &MILLIS);
    section.read("max_peers", &AMOUNT);
    section.read("ask_timeout_ms", &MILLIS);
    section.choice("on_unreachable", &[("share", ()), ("refuse", ()), ("admit", ())]);
    section.read("bandwidth_limit", &BYTES);
    let mut tls = section.section("tls");
    for file in ["ca", "cert", "key"] {
        tls.read(file, &PATH);
    }
    if root.has("mesh") {
        root.not_yet("mesh", "the mesh, by which nodes share their limits, is");
    }
}

/// As [`mesh`].
pub(super) fn gateway(root: &mut Section<'_, '_>) {
    let mut section = root.section("gateway");
    section.read("listen", &LISTEN);
    section.opaque("tls");
    let mut client_ip = section.section("client_ip");
    client_ip.list("trusted_proxies", &NETWORK);
    client_ip.read("trusted_hops", &NUMBER);
    client_ip.read("legacy_leftmost", &FLAG);
    client_ip.read("header", &WORD);
    client_ip.read("ipv6_prefix", &IPV6_PREFIX);
    section.list("identity", &WORD);
    section.read("max_body", &BYTES);
    let mut platform = section.section("platform");
    limits(&mut platform);
    platform.read("max_requests", &AMOUNT);
    platform.choice("scope", &[("service", ()), ("global", ())]);
    websocket(&mut platform);
    section.each("services", |service| {
        service.read("id", &WORD);
        service.read("host", &WORD);
        service.read("path_prefix", &WORD);
        service.one_or_list("upstream", &URL);
        limits(&mut service.section("limits"));
        websocket(service);
        service.each("endpoints", |endpoint| {
            endpoint.read("id", &WORD);
            endpoint.read("path", &WORD);
            endpoint.list("methods", &WORD);
            limits(&mut endpoint.section("limits"));
        });
    });
    if root.has("gateway") {
        root.not_yet("gateway", "the gateway is");
    }
}

fn limits(section: &mut Section<'_, '_>) {
    section.read("requests", &AMOUNT);
    section.read("requests_per_second", &AMOUNT);
    section.read("window", &SPAN);
    section.read("burst", &AMOUNT);
    section.choice("algorithm", &[("token_bucket", ()), ("fixed_window", ()), ("sliding_window", ())]);
}

fn websocket(section: &mut Section<'_, '_>) {
    let mut websocket = section.section("websocket");
    for what in ["connections", "messages"] {
        let mut section = websocket.section(what);
        section.read("enabled", &FLAG);
        limits(&mut section);
    }
    websocket.choice("on_limit", &[("http429", ()), ("close_4429", ())]);
}

pub(super) fn security(section: &mut Section<'_, '_>) {
    let mut grpc_tls = section.section("grpc_tls");
    for file in ["cert", "key", "client_ca"] {
        grpc_tls.read(file, &PATH);
    }
    let plaintext = "leave it out and keep the port on loopback, or put a proxy that speaks TLS in front";
    if section.has("grpc_tls") {
        section.refuse("grpc_tls", "TLS on the gRPC port is not there yet in this version".into(), plaintext);
    }
    let mut admin = section.section("admin");
    admin.opaque("tls");
    if admin.has("tls") {
        admin.refuse("tls", "TLS on the admin port is not there yet in this version".into(), plaintext);
    }
    let unguarded = "leave it out and keep the port where only you can reach it";
    if admin.read("token_file", &PATH).is_some() {
        admin.refuse("token_file", "admin tokens are not there yet in this version".into(), unguarded);
    }
    if section.read("api_keys_file", &PATH).is_some() {
        section.refuse("api_keys_file", "API keys are not there yet in this version".into(), unguarded);
    }
}
