//! The private CA of a fleet, its certificates, and invalid certificates.

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The validity of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    Good,
    Expired,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// The CA certificate, as PEM.
    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate and key for a node of this name, as PEM.
    pub(crate) fn issue(&self, name: &str, term: Term) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        if term == Term::Expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Writes a node's certificate, key and CA into a folder; returns them as `mesh.tls` names them.
    pub(crate) fn write_node_files(&self, folder: &Path, name: &str) -> Value {
        let (certificate, key) = self.issue(name, Term::Good);
        let put = |file: &str, text: &str| {
            let path = folder.join(file);
            std::fs::write(&path, text).unwrap();
            path
        };
        let key = put("node.key", &key);
        restrict(&key);
        json!({"ca": put("ca.crt", self.certificate()), "cert": put("node.crt", &certificate), "key": key})
    }
}

/// Restricts a key file to its owner.
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
