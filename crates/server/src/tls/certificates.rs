//! The certificates of a listener. Each handshake takes what is in force at that moment, so new ones
//! come into force between two handshakes, and no connection notices. All of them come into force
//! together or none does: a file that cannot be used changes nothing.

use super::validity::Validity;
use super::{TlsError, error, pem, provider};
use arc_swap::ArcSwap;
use hivemind_core::Timestamp;
use rustls::Error::InconsistentKeys;
use rustls::InconsistentKeys::KeyMismatch;
use rustls::client::verify_server_name;
use rustls::pki_types::{DnsName, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// From when on a certificate's end is worth a word: renewal is usually at thirty days.
const SOON: Duration = Duration::from_secs(14 * 24 * 3_600);

/// Where a certificate with its chain is, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// Certificates in force, and the files they come from. A client that names a server gets the first
/// that is for this name; one that names none, or one that none is for, gets the first.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: Vec<CertificateFiles>,
    in_force: ArcSwap<Vec<Certificate>>,
}

#[derive(Clone, Debug)]
struct Certificate {
    key: Arc<CertifiedKey>,
    validity: Validity,
    /// Anyone on this machine may read the key.
    is_exposed: bool,
}

/// Whether files were other than those in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Yes,
    No,
}

/// What is not wrong yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// Every user of this machine may read the key.
    Exposed { key: PathBuf },
    /// It ends soon, or has ended since it was loaded.
    Expires { cert: PathBuf, not_after: Timestamp },
    /// It has not begun, or this machine's clock is wrong.
    NotYetValid { cert: PathBuf, not_before: Timestamp },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exposed { key } => {
                let key = key.display();
                write!(f, "{key}: every user of this machine can read this private key; `chmod o-r {key}`")
            }
            Self::Expires { cert, not_after } => {
                write!(f, "{}: the certificate ends {}; renew it", cert.display(), error::at(*not_after))
            }
            Self::NotYetValid { cert, not_before } => {
                let (cert, from) = (cert.display(), error::at(*not_before));
                write!(f, "{cert}: the certificate only begins {from}; look at this machine's clock")
            }
        }
    }
}

impl Certificates {
    /// Loads the files, the first of which is for whoever asks for no name that is known.
    pub(crate) fn load(files: Vec<CertificateFiles>, now: Timestamp) -> Result<Self, TlsError> {
        let loaded = load_all(&files, now)?;
        Ok(Self { files, in_force: ArcSwap::from_pointee(loaded) })
    }

    /// Puts in force what the files are now. Whoever follows them calls this.
    ///
    /// # Errors
    /// If one of them cannot be used: what was in force stays so.
    pub(crate) fn reload(&self, now: Timestamp) -> Result<Changed, TlsError> {
        let loaded = load_all(&self.files, now)?;
        let is_same = self.in_force.load().iter().zip(&loaded).all(|(old, new)| {
            // Keys cannot be compared; but each was found to fit its certificate.
            old.key.cert == new.key.cert && old.is_exposed == new.is_exposed
        });
        if is_same {
            return Ok(Changed::No);
        }
        self.in_force.store(Arc::new(loaded));
        Ok(Changed::Yes)
    }

    /// When the first of them ends.
    pub(crate) fn expires_at(&self) -> Timestamp {
        let in_force = self.in_force.load();
        in_force.iter().map(|certificate| certificate.validity.not_after).min().unwrap_or(Timestamp::MAX)
    }

    /// What whoever runs this should know at this moment.
    pub(crate) fn warnings(&self, now: Timestamp) -> Vec<Warning> {
        let in_force = self.in_force.load();
        let each = self.files.iter().zip(in_force.iter());
        each.flat_map(|(files, certificate)| certificate.warnings(files, now)).collect()
    }

    /// Each file that has to be followed.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().flat_map(|files| [files.cert.as_path(), files.key.as_path()])
    }

    fn named(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let in_force = self.in_force.load();
        let name = name.and_then(|name| DnsName::try_from(name).ok()).map(ServerName::DnsName);
        let is_for = |certificate: &&Certificate| name.as_ref().is_some_and(|name| certificate.is_for(name));
        // With one, there is nothing to choose.
        let found = if in_force.len() > 1 { in_force.iter().find(is_for) } else { None };
        found.or(in_force.first()).map(|certificate| Arc::clone(&certificate.key))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.named(hello.server_name())
    }
}

impl Certificate {
    fn load(files: &CertificateFiles, now: Timestamp) -> Result<Self, TlsError> {
        let CertificateFiles { cert, key } = files;
        let chain = pem::certificates(cert)?;
        let private_key = pem::private_key(key)?;
        let bad = |cause: String| TlsError::BadCertificate { file: cert.clone(), cause };
        let first = chain.first().ok_or_else(|| TlsError::NoCertificate { file: cert.clone() })?;
        ParsedCertificate::try_from(first).map_err(|error| bad(error.to_string()))?;
        let validity =
            Validity::of(first).ok_or_else(|| bad("it has no dates that can be read".to_owned()))?;
        if validity.not_after < now {
            return Err(TlsError::Expired { file: cert.clone(), not_after: validity.not_after });
        }
        let certified =
            CertifiedKey::from_der(chain, private_key, &provider()).map_err(|error| match error {
                InconsistentKeys(KeyMismatch) => TlsError::Mismatch { cert: cert.clone(), key: key.clone() },
                _ => TlsError::BadKey { file: key.clone() },
            })?;
        let is_exposed = std::fs::metadata(key).is_ok_and(|found| found.permissions().mode() & 0o004 != 0);
        Ok(Self { key: Arc::new(certified), validity, is_exposed })
    }

    /// By the rules that clients have, wildcards included.
    fn is_for(&self, name: &ServerName<'_>) -> bool {
        let parsed = self.key.end_entity_cert().and_then(ParsedCertificate::try_from);
        parsed.is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
    }

    fn warnings(&self, files: &CertificateFiles, now: Timestamp) -> Vec<Warning> {
        let Validity { not_before, not_after } = self.validity;
        let cert = || files.cert.clone();
        let exposed = self.is_exposed.then(|| Warning::Exposed { key: files.key.clone() });
        let expires =
            (not_after < now.saturating_add(SOON)).then(|| Warning::Expires { cert: cert(), not_after });
        let early = (now < not_before).then(|| Warning::NotYetValid { cert: cert(), not_before });
        [exposed, expires, early].into_iter().flatten().collect()
    }
}

fn load_all(files: &[CertificateFiles], now: Timestamp) -> Result<Vec<Certificate>, TlsError> {
    if files.is_empty() {
        return Err(TlsError::Empty);
    }
    files.iter().map(|files| Certificate::load(files, now)).collect()
}
