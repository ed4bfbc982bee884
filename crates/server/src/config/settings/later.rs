//! Sections of capabilities that are not there yet. Their keys and kinds are checked, so
//! that a file that is right today stays right; nothing is kept of them.
//!
//! What can be missing without harm is a warning. Where missing it would admit other
//! requests than asked for, or leave open what was to be closed, it is an error.

use super::kind::{AMOUNT, BYTES, FLAG, HOST_PORT, LISTEN, MILLIS, NUMBER, PATH, WORD};
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
