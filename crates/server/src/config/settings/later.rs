//! Sections of capabilities that are not there yet. Their keys and kinds are checked, so
//! that a file that is right today stays right; nothing is kept of them.
//!
//! What can be missing without harm is a warning. Where missing it would admit other
//! requests than asked for, or leave open what was to be closed, it is an error.

use super::kind::PATH;
use super::reading::Section;

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
