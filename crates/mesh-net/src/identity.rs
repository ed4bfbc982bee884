//! Identity of a node: its certificate and the CA that it trusts. Both sides of every connection present a certificate of
//! the mesh's own CA. The files may be replaced at any time; each TLS handshake uses the active ones, and open
//! connections are not affected.
//!
//! A peer's certificate is for its name and not for its address, and the name is known only when the peer sends its
//! hello. So TLS verifies the CA, and the mesh handshake verifies the name.

mod error;
mod trust;
mod validity;

pub use error::NodeIdentityError;
pub(super) use validity::Validity;

use arc_swap::ArcSwap;
use hivemind_core::{Clock, Timestamp};
use hivemind_mesh::NodeId;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ResolvesClientCert, Resumption, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use trust::{TrustVerifier, Verifier};

/// ALPN protocol of mesh connections.
const PROTOCOL: &[u8] = b"hivemind-mesh/1";
/// Maximum size of a certificate file; bundles of CAs are smaller.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// Files of a node's certificate, its key, and the CA of the mesh.
///
/// As created by `hivemind certs`:
///
/// ```
/// use hivemind_mesh_net::MeshTlsFiles;
/// use std::path::Path;
///
/// let folder = Path::new("/etc/hivemind/certs");
/// let files = MeshTlsFiles { ca: folder.join("ca.crt"), cert: folder.join("a.crt"), key: folder.join("a.key") };
/// assert!(files.key.starts_with(folder));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshTlsFiles {
    /// The certificate of the CA, or of two CAs during a rotation.
    pub ca: PathBuf,
    /// This node's certificate, with the chain up to the CA.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Expiry of the active certificates.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh_net::Certificates;
///
/// fn is_due(certificates: &Certificates, now: Timestamp) -> bool {
///     now >= certificates.renew_from || now >= certificates.renew_ca_from
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificates {
    /// Expiry of this node's certificate.
    pub own_until: Timestamp,
    /// Expiry of its CA. Peers trust a configured CA even after it expired; other software may not.
    pub ca_until: Timestamp,
    /// When to renew the certificate: after two thirds of its lifetime, or two weeks before its expiry if that is later.
    pub renew_from: Timestamp,
    /// When to renew the CA.
    pub renew_ca_from: Timestamp,
}

/// A node's certificate and CA, as last read from their files.
pub(super) struct NodeIdentity {
    files: MeshTlsFiles,
    name: NodeId,
    clock: Arc<dyn Clock>,
    trust: Arc<TrustVerifier>,
    own: Arc<OwnCertificate>,
    good: ArcSwap<Certificates>,
}

/// The active certificate.
#[derive(Debug)]
struct OwnCertificate(ArcSwap<CertifiedKey>);

/// Which files changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdentityChange {
    pub(super) own: bool,
    pub(super) ca: bool,
}

impl NodeIdentity {
    /// Reads the files of the node with this name.
    ///
    /// # Errors
    /// If a file is invalid, or if peers would reject the certificate.
    pub(super) fn load(
        files: MeshTlsFiles,
        name: NodeId,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NodeIdentityError> {
        let (trust, own, good) = read(&files, &name, clock.now())?;
        let trust = Arc::new(TrustVerifier(ArcSwap::from_pointee(trust)));
        let own = Arc::new(OwnCertificate(ArcSwap::from_pointee(own)));
        Ok(Self { files, name, clock, trust, own, good: ArcSwap::from_pointee(good) })
    }

    /// Reads the files again and activates changes. Returns what changed.
    ///
    /// # Errors
    /// As [`NodeIdentity::load`]; then nothing changes.
    pub(super) fn reload(&self) -> Result<IdentityChange, NodeIdentityError> {
        let (trust, own, good) = read(&self.files, &self.name, self.clock.now())?;
        let change = IdentityChange {
            ca: self.trust.0.load().1.roots != trust.1.roots,
            own: self.own.0.load().cert != own.cert,
        };
        if change.ca {
            self.trust.0.store(Arc::new(trust));
        }
        if change.own {
            self.own.0.store(Arc::new(own));
        }
        self.good.store(Arc::new(good));
        Ok(change)
    }

    /// Expiry of the active certificates.
    pub(super) fn certificates(&self) -> Certificates {
        **self.good.load()
    }

    /// Whether the active CA verifies a chain at this time.
    pub(super) fn trusts(&self, chain: &[CertificateDer<'_>], at: Timestamp) -> bool {
        let Some((first, rest)) = chain.split_first() else { return false };
        self.trust.0.load().0.verify_client_cert(first, rest, unix(at)).is_ok()
    }

    /// TLS configuration of inbound connections, without session resumption: every connection verifies the peer.
    pub(super) fn server(&self) -> Result<ServerConfig, NodeIdentityError> {
        let mut config = ServerConfig::builder_with_details(provider(), self.time())
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .with_client_cert_verifier(Arc::clone(&self.trust) as Arc<dyn ClientCertVerifier>)
            .with_cert_resolver(Arc::clone(&self.own) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }

    /// TLS configuration of outbound connections.
    pub(super) fn client(&self) -> Result<ClientConfig, NodeIdentityError> {
        let mut config = ClientConfig::builder_with_details(provider(), self.time())
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&self.trust) as Arc<dyn ServerCertVerifier>)
            .with_client_cert_resolver(Arc::clone(&self.own) as Arc<dyn ResolvesClientCert>);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn time(&self) -> Arc<dyn TimeProvider> {
        Arc::new(TlsTime(Arc::clone(&self.clock)))
    }
}

/// The clock of the node as the time source of TLS.
struct TlsTime(Arc<dyn Clock>);

impl TimeProvider for TlsTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(unix(self.0.now()))
    }
}

impl fmt::Debug for TlsTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTime(..)")
    }
}

fn unix(now: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_nanos(now.as_nanos()))
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is mapped")]
fn tls(cause: rustls::Error) -> NodeIdentityError {
    NodeIdentityError::Tls(cause.to_string())
}

/// Whether a certificate is for a name. Certificates treat `Node`, `node` and `node.` as equal and the mesh does not, so
/// only the plain lower case name is accepted: a certificate must not match two names.
pub(super) fn is_for(certificate: &CertificateDer<'_>, name: &NodeId) -> bool {
    let name = name.as_str();
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) || name.ends_with('.') {
        return false;
    }
    let Ok(wanted) = ServerName::try_from(name) else { return false };
    ParsedCertificate::try_from(certificate).is_ok_and(|parsed| verify_server_name(&parsed, &wanted).is_ok())
}

/// When the first certificate of a chain expires.
pub(super) fn valid_until(chain: &[CertificateDer<'_>]) -> Timestamp {
    chain
        .iter()
        .filter_map(|certificate| Validity::of(certificate))
        .map(|good| good.until)
        .min()
        .unwrap_or(Timestamp::MAX)
}

fn read(
    files: &MeshTlsFiles,
    name: &NodeId,
    now: Timestamp,
) -> Result<(Verifier, CertifiedKey, Certificates), NodeIdentityError> {
    let no_ca = || NodeIdentityError::Missing { file: files.ca.clone(), what: "CA certificate" };
    let authorities = certificates(&files.ca)?;
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes(&files.key)?)
        .map_err(|_| NodeIdentityError::Missing { file: files.key.clone(), what: "private key" })?;
    let verifier = verifier(&authorities).ok_or_else(no_ca)?;
    let mismatch = || NodeIdentityError::Mismatch { cert: files.cert.clone(), key: files.key.clone() };
    let own = CertifiedKey::from_der(chain, key, &provider()).map_err(|_| mismatch())?;
    let (first, rest) = own.cert.split_first().ok_or_else(mismatch)?;
    if !is_for(first, name) {
        return Err(NodeIdentityError::OtherName { cert: files.cert.clone(), name: name.clone() });
    }
    let is_good = |verifier: &Verifier| verifier.0.verify_client_cert(first, rest, unix(now));
    is_good(&verifier).map_err(|cause| NodeIdentityError::Refused {
        cert: files.cert.clone(),
        ca: files.ca.clone(),
        cause: cause.to_string(),
    })?;
    // Of several CAs, only those that verify this node's certificate count.
    let its = authorities.iter().filter(|authority| {
        self::verifier(std::slice::from_ref(*authority)).is_some_and(|verifier| is_good(&verifier).is_ok())
    });
    let ca = its.filter_map(|authority| Validity::of(authority)).max_by_key(|good| good.until);
    let ca = ca.ok_or_else(no_ca)?;
    let validity = Validity::of(first).ok_or_else(mismatch)?;
    let good = Certificates {
        own_until: validity.until,
        ca_until: ca.until,
        renew_from: validity.renew_from(),
        renew_ca_from: ca.renew_from(),
    };
    Ok((verifier, own, good))
}

fn verifier(authorities: &[CertificateDer<'static>]) -> Option<Verifier> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).ok()?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider());
    Some(Verifier(verifier.build().ok()?, roots))
}

fn bytes(file: &Path) -> Result<Vec<u8>, NodeIdentityError> {
    let unreadable = |cause| NodeIdentityError::Unreadable { file: file.to_owned(), cause };
    let found = std::fs::metadata(file).map_err(unreadable)?;
    if found.len() > MAX_FILE_SIZE {
        return Err(NodeIdentityError::TooLarge { file: file.to_owned() });
    }
    std::fs::read(file).map_err(unreadable)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, NodeIdentityError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(file)?).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(NodeIdentityError::Missing { file: file.to_owned(), what: "certificate" }),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
