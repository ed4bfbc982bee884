//! A test certificate authority and the certificate files that it issues.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct IssuedFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "the test's authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let authority = Self { folder, issuer: Issuer::new(params, key), pem };
        put(&authority.file(), &authority.pem);
        authority
    }

    /// The CA certificate, in a file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for this machine, valid for servers and clients.
    pub fn issue(&self, stem: &str) -> IssuedFiles {
        self.issue_until(stem, 2_099)
    }

    /// A certificate whose validity ends with a year.
    pub fn issue_until(&self, stem: &str, year: i32) -> IssuedFiles {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = date_time_ymd(2_000, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |ending: &str| self.folder.path().join(format!("{stem}.{ending}"));
        let issued = IssuedFiles { cert: path("pem"), key: path("key") };
        // The key first: a reader that loads the files between the two writes finds a pair that does not match
        // and keeps the old one.
        put(&issued.key, &key.serialize_pem());
        put(&issued.cert, &certificate.pem());
        issued
    }

    /// A TLS client configuration that trusts this CA and presents this certificate, if any.
    pub fn client(&self, shows: Option<&IssuedFiles>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_root_certificates(roots);
        let mut config = match shows {
            None => builder.with_no_client_auth(),
            Some(IssuedFiles { cert, key }) => {
                let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

/// Replaces a file in one step, readable by its owner only.
pub fn put(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::set_permissions(&next, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(next, path).unwrap();
}
