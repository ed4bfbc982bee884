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
