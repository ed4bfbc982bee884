//! TLS on a port: its certificate, and the CA that its callers' certificates have to come from. Both follow
//! their files: a handshake takes what is in force when it begins, and connections that are open stay so.

use super::certificate::{CertificateFiles, fingerprint};
use super::{Protocol, ReloadOutcome, ServerCertificates, TlsError, roots_of, server_config};
use arc_swap::ArcSwap;
use hivemind_core::Timestamp;
use rustls::{RootCertStore, ServerConfig};
use std::hash::Hasher;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The files of a port's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFiles {
    pub certificate: CertificateFiles,
    /// None: callers need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// TLS on one port.
#[derive(Debug)]
pub struct PortTls {
    certificates: Arc<ServerCertificates>,
    protocols: &'static [Protocol],
    client_ca: Option<PathBuf>,
    in_force: ArcSwap<ActiveConfig>,
}

#[derive(Debug)]
struct ActiveConfig {
    /// Whom callers have to come from.
    roots: Option<Arc<RootCertStore>>,
    config: Arc<ServerConfig>,
}

impl PortTls {
    /// Loads the files of a port that these protocols are spoken on.
    pub fn load(files: &PortFiles, protocols: &'static [Protocol], now: Timestamp) -> Result<Self, TlsError> {
        let certificates = Arc::new(ServerCertificates::load(vec![files.certificate.clone()], now)?);
        let client_ca = files.client_ca.clone();
        let roots = client_ca.as_deref().map(roots_of).transpose()?.map(Arc::new);
        let config = server_config(Arc::clone(&certificates), protocols, false, roots.as_ref())?;
        let in_force = ArcSwap::from_pointee(ActiveConfig { roots, config });
        Ok(Self { certificates, protocols, client_ca, in_force })
    }

    /// How the next handshake goes.
    pub fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.in_force.load().config).into()
    }

    /// Whether every caller has shown a certificate that was checked.
    pub const fn knows_its_callers(&self) -> bool {
        self.client_ca.is_some()
    }

    pub const fn certificates(&self) -> &Arc<ServerCertificates> {
        &self.certificates
    }

    /// Puts in force what the file of the CA is now. One that cannot be used changes nothing.
    pub fn reload_ca(&self) -> ReloadOutcome {
        let Some(file) = &self.client_ca else { return ReloadOutcome::default() };
        let renewed = roots_of(file).and_then(|roots| {
            if self.in_force.load().roots.as_ref().is_some_and(|before| before.roots == roots.roots) {
                return Ok(false);
            }
            let roots = Some(Arc::new(roots));
            let config =
                server_config(Arc::clone(&self.certificates), self.protocols, false, roots.as_ref())?;
            self.in_force.store(Arc::new(ActiveConfig { roots, config }));
            Ok(true)
        });
        match renewed {
            Ok(is_other) => ReloadOutcome { changed: usize::from(is_other), refused: Vec::new() },
            Err(error) => ReloadOutcome { changed: 0, refused: vec![error] },
        }
    }

    /// Each file that has to be followed.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let of_certificate = self.certificates.paths().map(ToOwned::to_owned);
        of_certificate.chain(self.client_ca.clone())
    }

    /// What all files are at the moment.
    pub fn fingerprint(&self, into: &mut impl Hasher) {
        self.paths().for_each(|file| fingerprint(&file, into));
    }
}
