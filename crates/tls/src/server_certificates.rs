//! The certificates of a listener. Each handshake takes what is in force at that moment, so new ones
//! come into force between two handshakes, and no connection notices. Each stands for itself: one whose
//! files cannot be used stays what it was, and the others are renewed all the same.

use super::certificate::{Certificate, CertificateFiles, Warning, fingerprint};
use super::{Protocol, TlsError, provider};
use arc_swap::ArcSwap;
use hivemind_core::Timestamp;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

/// The active certificates of a listener and their files. A client that sends a server name gets the first
/// certificate with that name, or else the first whose wildcard matches. Without a server name or a match
/// it gets the first certificate.
#[derive(Debug)]
pub struct ServerCertificates {
    files: Vec<CertificateFiles>,
    /// Whether the last of them is one that a CA gives, which may not be there yet.
    awaits_last: bool,
    /// What a CA is shown that looks whether a name is ours.
    challenges: ArcSwap<HashMap<Box<str>, Arc<CertifiedKey>>>,
    in_force: ArcSwap<ActiveCertificates>,
}

/// All that a handshake looks at, made when files change.
#[derive(Debug, Default)]
struct ActiveCertificates {
    /// One for each pair of files; none where none could be read so far.
    each: Vec<Option<Certificate>>,
    by_name: HashMap<Box<str>, Arc<CertifiedKey>>,
}

/// What became of files that were read anew.
#[derive(Debug, Default)]
pub struct ReloadOutcome {
    /// How many are other than before.
    pub changed: usize,
    /// What is wrong with those that were kept.
    pub refused: Vec<TlsError>,
}

impl ServerCertificates {
    /// Loads the files, the first of which is for whoever asks for no name that is known. Whoever follows them
    /// finds at its first look what is wrong with those that cannot be used.
    ///
    /// # Errors
    /// If none of them can be: then nobody could be served.
    pub fn load(files: Vec<CertificateFiles>, now: Timestamp) -> Result<Self, TlsError> {
        let certificates = Self::of(files, false);
        let mut refused = certificates.reload(now).refused;
        if certificates.in_force.load().each.iter().any(Option::is_some) {
            return Ok(certificates);
        }
        Err(if refused.is_empty() { TlsError::Empty } else { refused.swap_remove(0) })
    }

    /// The same, with one more that a CA gives and that may not be there yet: then whoever asks for no other is not
    /// served until it is.
    pub fn load_awaiting(files: Vec<CertificateFiles>, awaited: CertificateFiles, now: Timestamp) -> Self {
        let certificates = Self::of(files.into_iter().chain([awaited]).collect(), true);
        certificates.reload(now);
        certificates
    }

    fn of(files: Vec<CertificateFiles>, awaits_last: bool) -> Self {
        Self { files, awaits_last, challenges: ArcSwap::default(), in_force: ArcSwap::default() }
    }

    fn is_awaited(&self, index: usize) -> bool {
        self.awaits_last && index + 1 == self.files.len()
    }

    /// What a CA is shown from now on that looks whether this name is ours.
    pub fn answer_challenge(
        &self,
        name: &str,
        certificate: CertificateDer<'static>,
        key: Vec<u8>,
    ) -> Result<(), TlsError> {
        let key = provider().key_provider.load_private_key(PrivateKeyDer::Pkcs8(key.into()))?;
        // Not by `from_der`, which reads the certificate and refuses what only a CA understands of it.
        let shown = Arc::new(CertifiedKey::new(vec![certificate], key));
        self.challenges.rcu(|before| {
            let mut challenges = HashMap::clone(before);
            challenges.insert(name.to_ascii_lowercase().into(), Arc::clone(&shown));
            challenges
        });
        Ok(())
    }

    pub fn answer_no_challenge(&self) {
        self.challenges.store(Arc::default());
    }

    /// Puts in force what the files are now. Whoever follows them calls this.
    pub fn reload(&self, now: Timestamp) -> ReloadOutcome {
        let mut renewal = ReloadOutcome::default();
        let before = self.in_force.load();
        let mut each = Vec::with_capacity(self.files.len());
        for (index, files) in self.files.iter().enumerate() {
            let old = before.each.get(index).and_then(Option::as_ref);
            if self.is_awaited(index) && old.is_none() && !files.cert.exists() {
                each.push(None);
                continue;
            }
            let taken = Certificate::load(files).and_then(|new| match old {
                // One that has ended takes the place of none that goes on for longer.
                Some(old) if new.has_ended(now) && old.validity.not_after > new.validity.not_after => {
                    let (file, not_after) = (files.cert.clone(), new.validity.not_after);
                    Err(TlsError::Expired { file, not_after })
                }
                Some(old) if old.is_same(&new) => Ok(None),
                _ => Ok(Some(new)),
            });
            each.push(match taken {
                Ok(Some(new)) => {
                    renewal.changed += 1;
                    Some(new)
                }
                Ok(None) => old.cloned(),
                Err(error) => {
                    renewal.refused.push(error);
                    old.cloned()
                }
            });
        }
        if renewal.changed > 0 {
            self.in_force.store(Arc::new(ActiveCertificates::new(each)));
        }
        renewal
    }

    /// When the first of them ends; none where a CA has given none yet.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let in_force = self.in_force.load();
        let ends = in_force.each.iter().flatten().map(|certificate| certificate.validity.not_after);
        ends.min()
    }

    /// What whoever runs this should know at this moment.
    pub fn warnings(&self, now: Timestamp) -> Vec<Warning> {
        let in_force = self.in_force.load();
        let each = self.files.iter().zip(in_force.each.iter());
        let each = each.filter_map(|(files, certificate)| Some((files, certificate.as_ref()?)));
        each.flat_map(|(files, certificate)| certificate.warnings(files, now)).collect()
    }

    /// Each file that has to be followed.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().flat_map(CertificateFiles::each)
    }

    /// What all files are at the moment.
    pub fn fingerprint(&self, into: &mut impl Hasher) {
        self.paths().for_each(|file| fingerprint(file, into));
    }
}

impl ActiveCertificates {
    fn new(each: Vec<Option<Certificate>>) -> Self {
        let mut by_name = HashMap::new();
        for certificate in each.iter().flatten() {
            for name in &certificate.names {
                by_name.entry(name.clone()).or_insert_with(|| Arc::clone(&certificate.key));
            }
        }
        Self { each, by_name }
    }

    fn named(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let by_wildcard = || self.by_name.get(format!("*.{}", name.split_once('.')?.1).as_str());
        self.by_name.get(name.as_str()).or_else(by_wildcard)
    }
}

impl ResolvesServerCert for ServerCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut asked = hello.alpn().into_iter().flatten();
        if (asked.next(), asked.next()) == (Some(Protocol::Challenge.name()), None) {
            return self.challenges.load().get(hello.server_name()?.to_ascii_lowercase().as_str()).cloned();
        }
        let in_force = self.in_force.load();
        let named = hello.server_name().and_then(|name| in_force.named(name));
        let first = || in_force.each.iter().flatten().next().map(|certificate| &certificate.key);
        named.or_else(first).map(Arc::clone)
    }
}
