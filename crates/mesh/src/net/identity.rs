//! Who this node is to its peers, and whom it believes: a certificate of the mesh's own CA on
//! both sides of every connection. Both come from files and may be replaced there at any
//! time; a handshake takes what is in force at that moment, and no connection notices.
//!
//! A peer's certificate is for its name, not for the address that was dialled: which
//! peer answers at an address is only known once it has answered. So the CA is checked in the
//! handshake, and the name when the peer has said it (`hello`).

use crate::owner::NodeId;
use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the two sides of a connection agree to speak.
const PROTOCOL: &[u8] = b"hivemind-mesh/1";
/// The most bytes of a file of certificates: whole bundles of CAs are smaller.
const LARGEST_FILE: u64 = 1 << 20;

/// Where a node's certificate, its key, and the mesh's CA are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates of the CA, or of several while one takes the place of another.
    pub ca: PathBuf,
    /// This node's certificate, for its name, with the chain up to the CA.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a node has no identity.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// A file is not there, or may not be read.
    #[error("{}: cannot be read: {cause}; `hivemind certs` makes it", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A file is far too large.
    #[error("{}: has more than {LARGEST_FILE} bytes; give the PEM text alone", file.display())]
    TooLarge {
        /// Which file.
        file: PathBuf,
    },
    /// A file has no such thing.
    #[error("{}: has no {what} as PEM that can be used; `hivemind certs` makes one", file.display())]
    Missing {
        /// Which file.
        file: PathBuf,
        /// What.
        what: &'static str,
    },
    /// The certificate and the key are not a pair.
    #[error("{}: the key is not that of {}; give the two that were made together", key.display(), cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Peers would not believe this node's name.
    #[error("{}: the certificate is not for the name `{name}`; set `mesh.node_id` to the name it is for, or make one by `hivemind certs node --name {name}`", cert.display())]
    OtherName {
        /// The certificate's file.
        cert: PathBuf,
        /// This node's name.
        name: NodeId,
    },
    /// The certificate is not of the CA, or has expired: no peer would believe it.
    #[error("{}: peers would not accept this certificate: {cause}; make a new one by `hivemind certs node` with the CA in {}", cert.display(), ca.display())]
    Refused {
        /// The certificate's file.
        cert: PathBuf,
        /// The CA's file.
        ca: PathBuf,
        /// Why.
        cause: Error,
    },
    /// TLS itself.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] Error),
}

/// A node's certificate and the CA that it believes, as their files were last read.
#[derive(Debug)]
pub struct Identity {
    files: TlsFiles,
    name: NodeId,
    trust: Arc<Trust>,
    own: Arc<Own>,
}

/// The CA in force.
#[derive(Debug)]
struct Trust(ArcSwap<Verifier>);

#[derive(Debug)]
struct Verifier(Arc<dyn ClientCertVerifier>, RootCertStore);

/// The certificate in force.
#[derive(Debug)]
struct Own(ArcSwap<CertifiedKey>);

impl Identity {
    /// Reads the files of the node of this name.
    ///
    /// # Errors
    /// If one of them cannot be used, or no peer would believe them.
    pub fn load(files: TlsFiles, name: NodeId, now: UnixTime) -> Result<Self, IdentityError> {
        let (trust, own) = read(&files, &name, now)?;
        let trust = Arc::new(Trust(ArcSwap::from_pointee(trust)));
        Ok(Self { files, name, trust, own: Arc::new(Own(ArcSwap::from_pointee(own))) })
    }

    /// Puts in force what the files are now; says whether they were others.
    ///
    /// # Errors
    /// As [`Identity::load`]; then everything stays as it was.
    pub fn reload(&self, now: UnixTime) -> Result<bool, IdentityError> {
        let (trust, own) = read(&self.files, &self.name, now)?;
        let same_roots = self.trust.0.load().1.roots == trust.1.roots;
        let same_cert = self.own.0.load().cert == own.cert;
        if same_roots && same_cert {
            return Ok(false);
        }
        self.trust.0.store(Arc::new(trust));
        self.own.0.store(Arc::new(own));
        Ok(true)
    }

    /// The files it is read from.
    #[must_use]
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// How connections are taken. Nothing is resumed: every peer is checked anew.
    pub(super) fn server(&self) -> Result<ServerConfig, IdentityError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::clone(&self.trust) as Arc<dyn ClientCertVerifier>)
            .with_cert_resolver(Arc::clone(&self.own) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }

    /// How peers are called.
    pub(super) fn client(&self) -> Result<ClientConfig, IdentityError> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&self.trust) as Arc<dyn ServerCertVerifier>)
            .with_client_cert_resolver(Arc::clone(&self.own) as Arc<dyn ResolvesClientCert>);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Whether a certificate is for a name.
pub(super) fn is_for(certificate: &CertificateDer<'_>, name: &NodeId) -> bool {
    let Ok(wanted) = ServerName::try_from(name.as_str()) else { return false };
    ParsedCertificate::try_from(certificate).is_ok_and(|parsed| verify_server_name(&parsed, &wanted).is_ok())
}

fn read(files: &TlsFiles, name: &NodeId, now: UnixTime) -> Result<(Verifier, CertifiedKey), IdentityError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        let what = "CA certificate";
        roots.add(certificate).map_err(|_| IdentityError::Missing { file: files.ca.clone(), what })?;
    }
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes(&files.key)?)
        .map_err(|_| IdentityError::Missing { file: files.key.clone(), what: "private key" })?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider())
        .build()
        .map_err(|_| IdentityError::Missing { file: files.ca.clone(), what: "CA certificate" })?;
    let mismatch = || IdentityError::Mismatch { cert: files.cert.clone(), key: files.key.clone() };
    let own = CertifiedKey::from_der(chain, key, &provider()).map_err(|_| mismatch())?;
    let (first, rest) = own.cert.split_first().ok_or_else(mismatch)?;
    if !is_for(first, name) {
        return Err(IdentityError::OtherName { cert: files.cert.clone(), name: name.clone() });
    }
    verifier.verify_client_cert(first, rest, now).map_err(|cause| IdentityError::Refused {
        cert: files.cert.clone(),
        ca: files.ca.clone(),
        cause,
    })?;
    Ok((Verifier(verifier, roots), own))
}

fn bytes(file: &Path) -> Result<Vec<u8>, IdentityError> {
    let unreadable = |cause| IdentityError::Unreadable { file: file.to_owned(), cause };
    let found = std::fs::metadata(file).map_err(unreadable)?;
    if found.len() > LARGEST_FILE {
        return Err(IdentityError::TooLarge { file: file.to_owned() });
    }
    std::fs::read(file).map_err(unreadable)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(file)?).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(IdentityError::Missing { file: file.to_owned(), what: "certificate" }),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn check_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature(message, certificate, signature, &provider().signature_verification_algorithms)
}

fn only_tls13() -> Error {
    Error::General("the mesh speaks TLS 1.3".to_owned())
}

impl ClientCertVerifier for Trust {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.load().0.verify_client_cert(end, chain, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        check_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A peer that is called is checked as one that calls.
impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.load().0.verify_client_cert(end, chain, now).map(|_| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        check_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
