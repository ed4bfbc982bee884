//! A private CA and its certificates, in a temporary folder.

use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_mesh_net::MeshTlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (issuer, pem) = issuer("the first");
        fs::write(folder.path().join("ca.crt"), &pem).unwrap();
        Self { folder, issuer, pem }
    }

    /// Replaces the CA without writing its file. Returns the certificate of the previous one.
    pub(crate) fn replace(&mut self) -> String {
        let (issuer, pem) = issuer("the second");
        self.issuer = issuer;
        std::mem::replace(&mut self.pem, pem)
    }

    /// Writes the file of the CA: its certificate, and optionally that of another CA.
    pub(crate) fn write_ca(&self, other: &str) {
        fs::write(self.folder.path().join("ca.crt"), format!("{other}{}", self.pem)).unwrap();
    }

    /// Creates the files of a node with this name.
    pub(crate) fn node(&self, name: &str) -> MeshTlsFiles {
        self.write(name, &certificate_of(name))
    }

    /// Creates the files of a node whose certificate has expired.
    pub(crate) fn expired(&self, name: &str) -> MeshTlsFiles {
        let mut params = certificate_of(name);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.write(name, &params)
    }

    /// Creates the files of a node whose certificate is valid for `span`.
    pub(crate) fn good_for(&self, name: &str, span: Duration) -> MeshTlsFiles {
        let mut params = certificate_of(name);
        params.not_after = (std::time::UNIX_EPOCH + SystemClock.now().since(Timestamp::EPOCH) + span).into();
        self.write(name, &params)
    }

    fn write(&self, name: &str, params: &CertificateParams) -> MeshTlsFiles {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |ending: &str| self.folder.path().join(format!("{name}.{ending}"));
        fs::write(file("crt"), certificate.pem()).unwrap();
        fs::write(file("key"), key.serialize_pem()).unwrap();
        MeshTlsFiles { ca: self.folder.path().join("ca.crt"), cert: file("crt"), key: file("key") }
    }
}

fn issuer(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut subject = DistinguishedName::new();
    subject.push(rcgen::DnType::CommonName, name);
    params.distinguished_name = subject;
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

fn certificate_of(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}
