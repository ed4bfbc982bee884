//! TLS clients of the commands of this program, which usually call its own service.

use super::{Protocol, TlsError, client_config, pem, provider, roots_of, system_roots};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version};
use std::path::Path;
use std::sync::Arc;

const PROTOCOLS: &[Protocol] = &[Protocol::Http1];

/// A client that trusts the CAs in this file, or the system's.
pub fn client_with_ca(ca: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let roots = ca.map_or_else(system_roots, roots_of)?;
    client_config(Arc::new(roots), PROTOCOLS)
}

/// A client that trusts exactly this certificate: on its own machine a service is called by an address that
/// its certificate does not contain.
pub fn client_with_pinned_certificate(certificate: &Path) -> Result<Arc<ClientConfig>, TlsError> {
    let mut chain = pem::certificates(certificate)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { file: certificate.to_owned() });
    }
    let pinned = PinnedCertificate { certificate: chain.swap_remove(0), provider: provider() };
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.alpn_protocols = Protocol::names(PROTOCOLS);
    Ok(Arc::new(config))
}

/// Accepts one certificate and ignores its names and validity period. The server proves that it has the key.
#[derive(Debug)]
struct PinnedCertificate {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *shown == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
