//! A CA for each test, the files of certificates that it signs, and a TLS server.

use super::super::{
    CertificateFiles, Protocol, ServerCertificates, TlsError, accept, roots_of, server_config,
};
use hivemind_core::{Clock, SystemClock};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(super) const BOTH: [Protocol; 2] = [Protocol::Http2, Protocol::Http1];

/// A CA with its folder, in which its certificate is `ca.pem`.
pub(super) struct Ca {
    pub(super) folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Ca {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        // OpenSSL would treat a certificate with the same name as its issuer as self-signed.
        params.distinguished_name.push(DnType::CommonName, "The CA of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Files `NAME.crt` and `NAME.key` of a certificate for these server names.
    pub(super) fn issue(&self, name: &str, servers: &[&str]) -> CertificateFiles {
        self.issue_with(name, servers, |_| {})
    }

    pub(super) fn issue_with(
        &self,
        name: &str,
        servers: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateFiles {
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(servers).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        self.write(name, &cert.pem(), &key.serialize_pem())
    }

    /// Replaces each file atomically, as ACME clients do.
    fn write(&self, name: &str, cert: &str, key: &str) -> CertificateFiles {
        let files = CertificateFiles {
            cert: self.path(&format!("{name}.crt")),
            key: self.path(&format!("{name}.key")),
        };
        for (file, text) in [(&files.cert, cert), (&files.key, key)] {
            let new = file.with_extension("new");
            std::fs::write(&new, text).unwrap();
            std::fs::set_permissions(&new, PermissionsExt::from_mode(0o600)).unwrap();
            std::fs::rename(new, file).unwrap();
        }
        files
    }
}

pub(super) fn load(files: &[&CertificateFiles]) -> Result<ServerCertificates, TlsError> {
    ServerCertificates::load(files.iter().map(|files| (*files).clone()).collect(), SystemClock.now())
}

/// The number of changed certificates, and the errors of the others.
pub(super) fn reload(certificates: &ServerCertificates) -> (usize, Vec<String>) {
    let renewal = certificates.reload(SystemClock.now());
    (renewal.changed, renewal.refused.iter().map(ToString::to_string).collect())
}

/// Answers every connection with the name of the negotiated protocol, in the form of HTTP/1.1.
pub(super) async fn serve(
    certificates: &Arc<ServerCertificates>,
    only_tls13: bool,
    client_ca: Option<&Path>,
) -> SocketAddr {
    let cas = client_ca.map(|file| Arc::new(roots_of(file).unwrap()));
    let config = server_config(Arc::clone(certificates), &BOTH, only_tls13, cas.as_ref()).unwrap();
    let acceptor = TlsAcceptor::from(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok((mut stream, agreed)) = accept(io, &acceptor, Duration::from_secs(10)).await else {
                    return;
                };
                let text = if agreed.is_http2 { "HTTP/2" } else { "HTTP/1.1" };
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
                let mut head = [0; 1_024];
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut head).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}
