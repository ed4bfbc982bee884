//! A test CA, certificates from it, and a client that trusts it.

use super::wire::Wire;
use hivemind_testkit::within;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "the test's authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let root = CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap();
        Self { folder, issuer: Issuer::new(params, key), root }
    }

    /// The CA certificate, in a file.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate and its key for these names.
    pub(crate) fn issue(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// The same, in files that are each replaced atomically; returns them as the configuration names them.
    pub(crate) fn issue_to(&self, folder: &Path, stem: &str, names: &[&str]) -> Value {
        let (certificate, key) = self.issue(names);
        let put = |ending: &str, text: &str| {
            let path = folder.join(format!("{stem}.{ending}"));
            let next = folder.join(format!("{stem}.{ending}.next"));
            std::fs::write(&next, text).unwrap();
            std::fs::rename(next, &path).unwrap();
            path
        };
        json!({"cert": put("pem", &certificate), "key": put("key", &key)})
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client configuration that trusts the CA and offers these ALPN protocols.
    fn client(&self, protocols: &[&str]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config
    }
}

/// A TLS connection of a client that trusts this CA and requests a server name.
pub(crate) async fn tls_client(
    authority: &Authority,
    address: SocketAddr,
    name: &str,
    protocols: &[&str],
) -> std::io::Result<(Wire, Vec<u8>)> {
    let socket = within("a connection", TcpStream::connect(address)).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = TlsConnector::from(Arc::new(authority.client(protocols)));
    let stream: TlsStream<TcpStream> = within("a handshake", connector.connect(name, socket)).await?;
    let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    Ok((Wire::over(stream), certificate))
}
