//! Certificates of a listener. Each handshake uses the certificates that are active at that moment, so a reload
//! interrupts no connection. Certificates reload independently: one with unusable files keeps its previous
//! version, and the others still reload.

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
    /// Whether the last one is issued by a CA (ACME) and may be missing so far.
    awaits_last: bool,
    /// Certificates for a CA that validates a domain name.
    challenges: ArcSwap<HashMap<Box<str>, Arc<CertifiedKey>>>,
    active: ArcSwap<ActiveCertificates>,
}

/// What a handshake reads; built when files change.
#[derive(Debug, Default)]
struct ActiveCertificates {
    /// One for each pair of files; `None` until the files can be loaded.
    each: Vec<Option<Certificate>>,
    by_name: HashMap<Box<str>, Arc<CertifiedKey>>,
}

/// The result of a reload.
#[derive(Debug, Default)]
pub struct ReloadOutcome {
    /// Number of changed certificates or files.
    pub changed: usize,
    /// Errors of the files whose previous version stays active.
    pub refused: Vec<TlsError>,
}

impl ServerCertificates {
    /// Loads the files. Clients without a matching name get the first certificate. The first reload reports the
    /// unusable files.
    ///
    /// # Errors
    /// If no certificate is usable, because then no handshake would succeed.
    pub fn load(files: Vec<CertificateFiles>, now: Timestamp) -> Result<Self, TlsError> {
        let certificates = Self::of(files, false);
        let mut refused = certificates.reload(now).refused;
        if certificates.active.load().each.iter().any(Option::is_some) {
            return Ok(certificates);
        }
        Err(if refused.is_empty() { TlsError::Empty } else { refused.swap_remove(0) })
    }

    /// The same, with one more certificate that a CA issues later. Until then, handshakes that match no other
    /// certificate are refused.
    pub fn load_awaiting(files: Vec<CertificateFiles>, awaited: CertificateFiles, now: Timestamp) -> Self {
        let certificates = Self::of(files.into_iter().chain([awaited]).collect(), true);
        certificates.reload(now);
        certificates
    }

    fn of(files: Vec<CertificateFiles>, awaits_last: bool) -> Self {
        Self { files, awaits_last, challenges: ArcSwap::default(), active: ArcSwap::default() }
    }

    fn is_awaited(&self, index: usize) -> bool {
        self.awaits_last && index + 1 == self.files.len()
    }

    /// Presents this certificate to a CA that validates the domain `name`.
    pub fn answer_challenge(
        &self,
        name: &str,
        certificate: CertificateDer<'static>,
        key: Vec<u8>,
    ) -> Result<(), TlsError> {
        let key = provider().key_provider.load_private_key(PrivateKeyDer::Pkcs8(key.into()))?;
        // `from_der` would parse the certificate and reject its critical ACME extension.
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

    /// Reloads all files; called when they change.
    pub fn reload(&self, now: Timestamp) -> ReloadOutcome {
        let mut renewal = ReloadOutcome::default();
        let before = self.active.load();
        let mut each = Vec::with_capacity(self.files.len());
        for (index, files) in self.files.iter().enumerate() {
            let old = before.each.get(index).and_then(Option::as_ref);
            if self.is_awaited(index) && old.is_none() && !files.cert.exists() {
                each.push(None);
                continue;
            }
            let taken = Certificate::load(files).and_then(|new| match old {
                // An expired certificate does not replace one that is valid for longer.
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
            self.active.store(Arc::new(ActiveCertificates::new(each)));
        }
        renewal
    }

    /// The earliest expiry; `None` until a certificate is loaded.
    pub fn expires_at(&self) -> Option<Timestamp> {
        let active = self.active.load();
        let ends = active.each.iter().flatten().map(|certificate| certificate.validity.not_after);
        ends.min()
    }

    /// Warnings for the operator at this time.
    pub fn warnings(&self, now: Timestamp) -> Vec<Warning> {
        let active = self.active.load();
        let each = self.files.iter().zip(active.each.iter());
        let each = each.filter_map(|(files, certificate)| Some((files, certificate.as_ref()?)));
        each.flat_map(|(files, certificate)| certificate.warnings(files, now)).collect()
    }

    /// All files that are reloaded on change.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().flat_map(CertificateFiles::each)
    }

    /// Hashes the present state of all files, to detect changes.
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
        let active = self.active.load();
        let named = hello.server_name().and_then(|name| active.named(name));
        let first = || active.each.iter().flatten().next().map(|certificate| &certificate.key);
        named.or_else(first).map(Arc::clone)
    }
}
