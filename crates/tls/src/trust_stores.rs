//! Trust stores: the CAs that verify the certificates of upstreams. Each file, and the system's CAs, is read
//! once for all upstreams that use it. A changed file applies to the next connection; open connections stay
//! open.

use super::certificate::fingerprint;
use super::{Protocol, ReloadOutcome, TlsError, client_config, roots_of, system_roots};
use arc_swap::ArcSwap;
use rustls::{ClientConfig, RootCertStore};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_rustls::TlsConnector;

/// All trust stores in use.
#[derive(Debug, Default)]
pub struct TrustStores {
    /// By file; `None`: the CAs of the system.
    of: Mutex<BTreeMap<Option<PathBuf>, Arc<TrustStore>>>,
}

/// The CAs of one file with the client configurations that trust them.
#[derive(Debug)]
pub struct TrustStore(ArcSwap<ClientConfigs>);

#[derive(Debug)]
struct ClientConfigs {
    roots: Arc<RootCertStore>,
    any: Arc<ClientConfig>,
    /// For upgrades, which HTTP/2 does not have.
    http1: Arc<ClientConfig>,
}

impl TrustStores {
    /// The trust store of this file, or of the system.
    pub fn of(&self, file: Option<&Path>) -> Result<Arc<TrustStore>, TlsError> {
        let mut of = self.lock();
        if let Some(known) = of.get(&file.map(Path::to_owned)) {
            return Ok(Arc::clone(known));
        }
        let configs = ClientConfigs::new(match file {
            Some(file) => roots_of(file)?,
            None => system_roots()?,
        })?;
        let trusted = Arc::new(TrustStore(ArcSwap::from_pointee(configs)));
        of.insert(file.map(Path::to_owned), Arc::clone(&trusted));
        Ok(trusted)
    }

    /// Reloads all files. An unusable file changes nothing.
    pub fn reload(&self) -> ReloadOutcome {
        let mut renewal = ReloadOutcome::default();
        let mut of = self.lock();
        // Stores that no upstream uses any longer are dropped.
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

    /// All files that are reloaded on change.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().keys().flatten().cloned().collect()
    }

    /// Hashes the present state of all files, to detect changes.
    pub fn fingerprint(&self, into: &mut impl Hasher) {
        self.paths().iter().for_each(|file| fingerprint(file, into));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Option<PathBuf>, Arc<TrustStore>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrustStore {
    /// A connector that offers HTTP/2 and HTTP/1.1.
    pub fn any(&self) -> TlsConnector {
        Arc::clone(&self.0.load().any).into()
    }

    pub fn http1(&self) -> TlsConnector {
        Arc::clone(&self.0.load().http1).into()
    }

    /// Replaces the CAs and returns whether they changed.
    fn renew(&self, roots: RootCertStore) -> Result<bool, TlsError> {
        if self.0.load().roots.roots == roots.roots {
            return Ok(false);
        }
        // New configurations without stored sessions: a resumed session would skip the verification.
        self.0.store(Arc::new(ClientConfigs::new(roots)?));
        Ok(true)
    }
}

impl ClientConfigs {
    fn new(roots: RootCertStore) -> Result<Self, TlsError> {
        let roots = Arc::new(roots);
        let any = client_config(Arc::clone(&roots), &[Protocol::Http2, Protocol::Http1])?;
        let http1 = client_config(Arc::clone(&roots), &[Protocol::Http1])?;
        Ok(Self { roots, any, http1 })
    }
}
