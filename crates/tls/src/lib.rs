//! TLS, for whoever listens and for whoever calls: certificates that follow their files, what is
//! agreed on in a handshake, and the way from plain HTTP to it. TLS 1.2 at least, with ring's
//! algorithms.
//!
//! A handshake that fails is told at debug level only: whoever scans the network fails one after the
//! other, and must not fill the log with it.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

pub mod access;
pub mod acme;
pub mod authority;
mod certificate;
mod client;
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

/// What may be spoken over a connection, by the names of ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http2,
    Http1,
    /// Nothing: a CA that looks for its challenge goes after the handshake (RFC 8737).
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

/// What a handshake came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiation {
    /// Otherwise it is HTTP/1.1, which is also what a client means that names nothing.
    pub is_http2: bool,
}

/// How a listener shakes hands: these certificates, these protocols by preference, TLS 1.2 or only
/// 1.3. With CAs for clients, only those whose certificate one of them has signed come in.
///
/// Sessions are resumed by tickets, which the clients keep: ten thousand of them cost no memory here. Where
/// clients show certificates none is resumed, since a ticket would outlive what was checked for it.
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
            // Only no CA at all is refused, and a file that has none was.
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

/// How somebody is called whose certificate one of these CAs has to have signed.
fn client_config(roots: Arc<RootCertStore>, protocols: &[Protocol]) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = Protocol::names(protocols);
    Ok(Arc::new(config))
}

/// Shakes hands with whoever has connected, who has so long for it.
pub async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(
    io: IO,
    acceptor: &TlsAcceptor,
    patience: Duration,
) -> Result<(TlsStream<IO>, Negotiation), HandshakeError> {
    let shaken = tokio::time::timeout(patience, acceptor.accept(io)).await;
    let shaken =
        shaken.map_err(|_| HandshakeError::Late(patience)).and_then(|it| it.map_err(HandshakeError::Failed));
    let is_looked_at =
        |stream: &TlsStream<IO>| stream.get_ref().1.alpn_protocol() == Some(Protocol::Challenge.name());
    match shaken {
        Ok(stream) if is_looked_at(&stream) => Err(HandshakeError::LookedAt),
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

/// The algorithms, named here: a default for the process would be whoever's comes first.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// As many random bytes as a key has.
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
    // Systems carry some that are too old to be read; what counts is that there are any.
    let (trusted, _) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        let cause = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
        return Err(TlsError::NoSystemRoots { cause });
    }
    Ok(roots)
}
