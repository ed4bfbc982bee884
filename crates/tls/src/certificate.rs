//! Server certificate with its private key, loaded from two files. The names and the validity period are
//! read once, here, and not at each handshake.

use super::validity::ValidityPeriod;
use super::{TlsError, error, pem, provider};
use hivemind_core::Timestamp;
use rustls::Error::InconsistentKeys;
use rustls::InconsistentKeys::KeyMismatch;
use rustls::sign::CertifiedKey;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use webpki::EndEntityCert;

/// Time before the end of a certificate at which a warning starts: renewal is usually at thirty days.
const SOON: Duration = Duration::from_secs(14 * 24 * 3_600);

/// The files of a certificate chain and of its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl CertificateFiles {
    pub(super) fn each(&self) -> [&Path; 2] {
        [&self.cert, &self.key]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) validity: ValidityPeriod,
    /// DNS names in lower case; `*.example.org` matches any name one label below.
    pub(super) names: Vec<Box<str>>,
    /// Every user of this machine can read the key.
    is_exposed: bool,
}

/// A problem of a certificate that is used nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Warning {
    /// Every user of this machine can read the key.
    Exposed { key: PathBuf },
    /// It ends soon.
    Expires { cert: PathBuf, not_after: Timestamp },
    /// It has expired, and no other one replaces it.
    Expired { cert: PathBuf, not_after: Timestamp },
    /// It is not valid yet, or this machine's clock is wrong.
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
                write!(
                    f,
                    "{}: the certificate ends {}; renew it",
                    cert.display(),
                    error::format_time(*not_after)
                )
            }
            Self::Expired { cert, not_after } => {
                let (cert, at) = (cert.display(), error::format_time(*not_after));
                write!(f, "{cert}: the certificate expired {at}, and clients refuse it; renew it")
            }
            Self::NotYetValid { cert, not_before } => {
                let (cert, from) = (cert.display(), error::format_time(*not_before));
                write!(f, "{cert}: the certificate only begins {from}; check this machine's clock")
            }
        }
    }
}

impl Certificate {
    pub(super) fn load(files: &CertificateFiles) -> Result<Self, TlsError> {
        let CertificateFiles { cert, key } = files;
        let chain = pem::certificates(cert)?;
        let private_key = pem::private_key(key)?;
        let bad = |cause: String| TlsError::BadCertificate { file: cert.clone(), cause };
        let first = chain.first().ok_or_else(|| TlsError::NoCertificate { file: cert.clone() })?;
        let parsed = EndEntityCert::try_from(first).map_err(|error| bad(error.to_string()))?;
        let names = parsed.valid_dns_names().map(|name| name.to_ascii_lowercase().into()).collect();
        let validity =
            ValidityPeriod::of(first).ok_or_else(|| bad("its validity period cannot be read".to_owned()))?;
        let certified =
            CertifiedKey::from_der(chain, private_key, &provider()).map_err(|error| match error {
                InconsistentKeys(KeyMismatch) => TlsError::Mismatch { cert: cert.clone(), key: key.clone() },
                _ => TlsError::BadKey { file: key.clone() },
            })?;
        Ok(Self { key: Arc::new(certified), validity, names, is_exposed: is_exposed(key) })
    }

    /// Compares the chains only: private keys cannot be compared, and each one was verified against its chain.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert && self.is_exposed == other.is_exposed
    }

    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.validity.not_after < now
    }

    pub(super) fn warnings(&self, files: &CertificateFiles, now: Timestamp) -> Vec<Warning> {
        let ValidityPeriod { not_before, not_after } = self.validity;
        let cert = || files.cert.clone();
        let exposed = self.is_exposed.then(|| Warning::Exposed { key: files.key.clone() });
        let end = if self.has_ended(now) {
            Some(Warning::Expired { cert: cert(), not_after })
        } else {
            (not_after < now.saturating_add(SOON)).then(|| Warning::Expires { cert: cert(), not_after })
        };
        let early = (now < not_before).then(|| Warning::NotYetValid { cert: cert(), not_before });
        [exposed, end, early].into_iter().flatten().collect()
    }
}

/// Whether every user of this machine can read a private key.
pub fn is_exposed(key: &Path) -> bool {
    std::fs::metadata(key).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

/// Hashes the present state of a file, to detect changes.
pub(super) fn fingerprint(file: &Path, into: &mut impl Hasher) {
    match pem::read(file) {
        Ok(text) => text.hash(into),
        Err(error) => error.to_string().hash(into),
    }
    is_exposed(file).hash(into);
}
