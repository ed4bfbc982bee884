//! `security`: secrets, TLS of the ports, and access of callers and operators.

use crate::{CertificateFiles, PortFiles};
use hivemind_config::reader::Section;
use hivemind_config::value_kind::PATH;
use std::path::PathBuf;

/// Secrets, TLS of the ports, and access of callers and operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Seed of the key hash; `None`: a random seed at each start.
    pub key_seed_file: Option<PathBuf>,
    /// TLS on the gRPC, admin and metrics ports; `None`: plaintext.
    pub grpc_tls: Option<PortFiles>,
    pub admin_tls: Option<PortFiles>,
    pub metrics_tls: Option<PortFiles>,
    /// Tokens of operators, which open the admin port.
    pub token_file: Option<PathBuf>,
    /// API keys of callers; `None`: calls need no key.
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

/// TLS on a port. A section without a certificate is an error, because the port would be plaintext.
fn port(section: &mut Section<'_, '_>, key: &str) -> Option<PortFiles> {
    let is_there = section.has(key);
    let mut tls = section.section(key);
    let [cert, private_key, client_ca] = ["cert", "key", "client_ca"].map(|file| tls.read(file, &PATH));
    let is_whole = tls.has("cert") && tls.has("key");
    if is_there && !is_whole {
        let cause =
            format!("`{}` needs a certificate and its key, and one of them is missing", section.path(key));
        section.refuse(key, cause, "write `cert: FILE` and `key: FILE`, or remove the section for plaintext");
    }
    Some(PortFiles { certificate: CertificateFiles { cert: cert?, key: private_key? }, client_ca })
}
