//! TLS of listeners and clients: reloaded certificates, negotiation of the protocol, and redirects from plain HTTP.
//! TLS 1.2 is the minimum; the algorithms are those of ring. Terms: `docs/GLOSSARY.md`.
//!
//! A failed handshake is logged at debug level only: a network scan causes many of them and must not fill the
//! log.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

pub mod access;
pub mod acme;
pub mod authority;
mod certificate;
mod client;
pub mod connections;
mod error;
pub mod escape;
mod pem;
mod port;
pub mod redirect;
pub mod secrets;
pub mod security;
mod server_certificates;
pub mod socket;
#[cfg(test)]
mod tests;
mod trust_stores;
mod validity;
pub mod workers;

pub use certificate::{CertificateFiles, Warning, is_exposed};
pub use client::{client_with_ca, client_with_pinned_certificate};
pub use error::{HandshakeError, TlsError, format_time};
pub use port::{PortFiles, PortTls};
pub use server_certificates::{ReloadOutcome, ServerCertificates};
pub use trust_stores::{TrustStore, TrustStores};
pub use validity::ValidityPeriod;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Protocols of a connection, with their ALPN names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http2,
    Http1,
    /// No protocol: a CA that validates its challenge disconnects after the handshake (RFC 8737).
    Challenge,
}

impl Protocol {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Http2 => b"h2",
            Self::Http1 => b"http/1.1",
            Self::Challenge => b"acme-tls/1",
        }
    }

    fn names(protocols: &[Self]) -> Vec<Vec<u8>> {
        protocols.iter().map(|protocol| protocol.name().to_vec()).collect()
    }
}

/// What a handshake negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiation {
    /// Otherwise HTTP/1.1, which is also the default of a client without ALPN.
    pub is_http2: bool,
}

/// TLS configuration of a listener: certificates, protocols by preference, TLS 1.2 or only 1.3. With CAs for
/// clients, a client needs a certificate that one of them signed.
///
/// Sessions are resumed by tickets, which the clients keep: ten thousand of them cost no memory here. With client
/// certificates sessions are not resumed, because a ticket would outlive the verified certificate.
pub fn server_config(
    certificates: Arc<ServerCertificates>,
    protocols: &[Protocol],
    only_tls13: bool,
    client_cas: Option<&Arc<RootCertStore>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = provider();
    let versions: &[&SupportedProtocolVersion] =
        if only_tls13 { &[&version::TLS13] } else { &[&version::TLS13, &version::TLS12] };
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
    let builder = match client_cas {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider).build();
            // This fails only without any CA, and a file without one was rejected before.
            let unusable = |error: VerifierBuilderError| rustls::Error::General(error.to_string());
            builder.with_client_cert_verifier(verifier.map_err(unusable)?)
        }
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = Protocol::names(protocols);
    if client_cas.is_none() {
        config.ticketer = ring::Ticketer::new()?;
    } else {
        config.send_tls13_tickets = 0;
    }
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// TLS configuration of a client: one of these CAs must have signed the server's certificate.
fn client_config(roots: Arc<RootCertStore>, protocols: &[Protocol]) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = Protocol::names(protocols);
    Ok(Arc::new(config))
}

/// Accepts the TLS handshake of a client within `patience`.
pub async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    acceptor: &TlsAcceptor,
    patience: Duration,
) -> Result<(TlsStream<IO>, Negotiation), HandshakeError> {
    let result = tokio::time::timeout(patience, acceptor.accept(io)).await;
    let result =
        result.map_err(|_| HandshakeError::Late(patience)).and_then(|it| it.map_err(HandshakeError::Failed));
    let is_challenge =
        |stream: &TlsStream<IO>| stream.get_ref().1.alpn_protocol() == Some(Protocol::Challenge.name());
    match result {
        Ok(stream) if is_challenge(&stream) => Err(HandshakeError::Challenge),
        Ok(stream) => {
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(Protocol::Http2.name());
            Ok((stream, Negotiation { is_http2 }))
        }
        Err(error) => {
            tracing::debug!(%error, "no TLS handshake");
            Err(error)
        }
    }
}

/// The algorithms, set explicitly: the default of a process is that of the first caller.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Random bytes for a key.
pub fn random_bytes() -> Result<[u8; 32], TlsError> {
    let mut bytes = [0; 32];
    let filled = provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(bytes)
}

fn roots_of(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(file)? {
        let refused = |error: rustls::Error| TlsError::Ca { file: file.to_owned(), cause: error.to_string() };
        roots.add(certificate).map_err(refused)?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some certificates of a system may be too old to parse; one usable certificate is enough.
    let (trusted, _) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        let cause =
            found.errors.first().map_or_else(|| "no certificate found".to_owned(), ToString::to_string);
        return Err(TlsError::NoSystemRoots { cause });
    }
    Ok(roots)
}
