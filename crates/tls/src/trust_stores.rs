//! Whom we believe when we call: the CAs that the certificates of upstreams are checked with. Each file is
//! read once for all upstreams that name it, and so are the system's CAs; a file that changes holds for the
//! next connection, and those that are open stay so.

use super::certificate::fingerprint;
use super::{Protocol, ReloadOutcome, TlsError, client_config, roots_of, system_roots};
use arc_swap::ArcSwap;
use rustls::{ClientConfig, RootCertStore};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_rustls::TlsConnector;

/// All CAs that are in use.
#[derive(Debug, Default)]
pub struct TrustStores {
    /// By file; none: the system's.
    of: Mutex<BTreeMap<Option<PathBuf>, Arc<TrustStore>>>,
}

/// How those are called whose certificate one file of CAs has to have signed.
#[derive(Debug)]
pub struct TrustStore(ArcSwap<Callers>);

#[derive(Debug)]
struct Callers {
    roots: Arc<RootCertStore>,
    any: Arc<ClientConfig>,
    /// For upgrades, which HTTP/2 has none of.
    http1: Arc<ClientConfig>,
}

impl TrustStores {
    /// What to call with, by the CAs of this file, or the system's.
    pub fn of(&self, file: Option<&Path>) -> Result<Arc<TrustStore>, TlsError> {
        let mut of = self.lock();
        if let Some(known) = of.get(&file.map(Path::to_owned)) {
            return Ok(Arc::clone(known));
        }
        let callers = Callers::new(match file {
            Some(file) => roots_of(file)?,
            None => system_roots()?,
        })?;
        let trusted = Arc::new(TrustStore(ArcSwap::from_pointee(callers)));
        of.insert(file.map(Path::to_owned), Arc::clone(&trusted));
        Ok(trusted)
    }

    /// Puts in force what the files are now. One that cannot be used changes nothing.
    pub fn reload(&self) -> ReloadOutcome {
        let mut renewal = ReloadOutcome::default();
        let mut of = self.lock();
        // What no upstream names any more is let go of.
        of.retain(|_, trusted| Arc::strong_count(trusted) > 1);
        for (file, trusted) in of.iter() {
            let Some(file) = file else { continue };
            let renewed = roots_of(file).and_then(|roots| trusted.renew(roots));
            match renewed {
                Ok(is_other) => renewal.changed += usize::from(is_other),
                Err(error) => renewal.refused.push(error),
            }
        }
        renewal
    }

    /// Each file that has to be followed.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().keys().flatten().cloned().collect()
    }

    /// What all files are at the moment.
    pub fn fingerprint(&self, into: &mut impl Hasher) {
        self.paths().iter().for_each(|file| fingerprint(file, into));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<PathBuf>, Arc<TrustStore>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrustStore {
    /// For whichever HTTP the other side chooses.
    pub fn any(&self) -> TlsConnector {
        Arc::clone(&self.0.load().any).into()
    }

    pub fn http1(&self) -> TlsConnector {
        Arc::clone(&self.0.load().http1).into()
    }

    /// Says whether these are others.
    fn renew(&self, roots: RootCertStore) -> Result<bool, TlsError> {
        if self.0.load().roots.roots == roots.roots {
            return Ok(false);
        }
        // With nothing of what was agreed on before: a resumed session would not be checked.
        self.0.store(Arc::new(Callers::new(roots)?));
        Ok(true)
    }
}

impl Callers {
    fn new(roots: RootCertStore) -> Result<Self, TlsError> {
        let roots = Arc::new(roots);
        let any = client_config(Arc::clone(&roots), &[Protocol::Http2, Protocol::Http1])?;
        let http1 = client_config(Arc::clone(&roots), &[Protocol::Http1])?;
        Ok(Self { roots, any, http1 })
    }
}
