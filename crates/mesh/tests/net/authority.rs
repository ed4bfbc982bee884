//! A private CA, and certificates of it, in a folder that goes with it.

use hivemind_mesh::net::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::fs;
use tempfile::TempDir;

pub(crate) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.crt"), certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    /// Files of a node of this name.
    pub(crate) fn node(&self, name: &str) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |ending: &str| self.folder.path().join(format!("{name}.{ending}"));
        fs::write(file("crt"), certificate.pem()).unwrap();
        fs::write(file("key"), key.serialize_pem()).unwrap();
        TlsFiles { ca: self.folder.path().join("ca.crt"), cert: file("crt"), key: file("key") }
    }
}
