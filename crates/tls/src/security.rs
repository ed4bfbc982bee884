//! `security`: secrets, and who may ask.

use crate::{CertificateFiles, PortFiles};
use hivemind_config::reader::Section;
use hivemind_config::value_kind::PATH;
use std::path::PathBuf;

/// Secrets, and who may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// What keys are hashed with; none: another at each start.
    pub key_seed_file: Option<PathBuf>,
    /// TLS on the gRPC, admin and metrics ports; none: plaintext.
    pub grpc_tls: Option<PortFiles>,
    pub admin_tls: Option<PortFiles>,
    pub metrics_tls: Option<PortFiles>,
    /// What opens the admin port.
    pub token_file: Option<PathBuf>,
    /// Whose calls are answered; none: everybody's.
    pub api_keys_file: Option<PathBuf>,
}

pub fn read(mut section: Section<'_, '_>) -> Security {
    let grpc_tls = port(&mut section, "grpc_tls");
    let metrics_tls = port(&mut section, "metrics_tls");
    let mut admin = section.section("admin");
    let admin_tls = port(&mut admin, "tls");
    let token_file = admin.read("token_file", &PATH);
    Security {
        key_seed_file: section.read("key_seed_file", &PATH),
        api_keys_file: section.read("api_keys_file", &PATH),
        grpc_tls,
        admin_tls,
        metrics_tls,
        token_file,
    }
}

/// TLS on a port. A section that names no certificate is a mistake: the port would be plaintext.
fn port(section: &mut Section<'_, '_>, key: &str) -> Option<PortFiles> {
    let is_there = section.has(key);
    let mut tls = section.section(key);
    let [cert, private_key, client_ca] = ["cert", "key", "client_ca"].map(|file| tls.read(file, &PATH));
    let is_whole = tls.has("cert") && tls.has("key");
    if is_there && !is_whole {
        let cause = format!("`{}` is a certificate and its key, and not both are here", section.path(key));
        section.refuse(key, cause, "write `cert: FILE` and `key: FILE`, or leave it out for plaintext");
    }
    Some(PortFiles { certificate: CertificateFiles { cert: cert?, key: private_key? }, client_ca })
}
