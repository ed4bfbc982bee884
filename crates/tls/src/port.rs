//! TLS of a port: its certificate, and the CA that signs the certificates of callers. Both reload when their
//! files change. A handshake uses what is active when it begins; open connections stay open.

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
    /// `None`: callers need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// TLS on one port.
#[derive(Debug)]
pub struct PortTls {
    certificates: Arc<ServerCertificates>,
    protocols: &'static [Protocol],
    client_ca: Option<PathBuf>,
    active: ArcSwap<ActiveConfig>,
}

#[derive(Debug)]
struct ActiveConfig {
    /// The CAs of callers.
    roots: Option<Arc<RootCertStore>>,
    config: Arc<ServerConfig>,
}

impl PortTls {
    /// Loads the files of a port with these protocols.
    pub fn load(files: &PortFiles, protocols: &'static [Protocol], now: Timestamp) -> Result<Self, TlsError> {
        let certificates = Arc::new(ServerCertificates::load(vec![files.certificate.clone()], now)?);
        let client_ca = files.client_ca.clone();
        let roots = client_ca.as_deref().map(roots_of).transpose()?.map(Arc::new);
        let config = server_config(Arc::clone(&certificates), protocols, false, roots.as_ref())?;
        let active = ArcSwap::from_pointee(ActiveConfig { roots, config });
        Ok(Self { certificates, protocols, client_ca, active })
    }

    /// The configuration of the next handshake.
    pub fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.active.load().config).into()
    }

    /// Whether every caller presented a certificate that was verified.
    pub const fn knows_its_callers(&self) -> bool {
        self.client_ca.is_some()
    }

    pub const fn certificates(&self) -> &Arc<ServerCertificates> {
        &self.certificates
    }

    /// Reloads the file of the CA. An unusable file changes nothing.
    pub fn reload_ca(&self) -> ReloadOutcome {
        let Some(file) = &self.client_ca else { return ReloadOutcome::default() };
        let renewed = roots_of(file).and_then(|roots| {
            if self.active.load().roots.as_ref().is_some_and(|before| before.roots == roots.roots) {
                return Ok(false);
            }
            let roots = Some(Arc::new(roots));
            let config =
                server_config(Arc::clone(&self.certificates), self.protocols, false, roots.as_ref())?;
            self.active.store(Arc::new(ActiveConfig { roots, config }));
            Ok(true)
        });
        match renewed {
            Ok(is_other) => ReloadOutcome { changed: usize::from(is_other), refused: Vec::new() },
            Err(error) => ReloadOutcome { changed: 0, refused: vec![error] },
        }
    }

    /// All files that are reloaded on change.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let of_certificate = self.certificates.paths().map(ToOwned::to_owned);
        of_certificate.chain(self.client_ca.clone())
    }

    /// Hashes the present state of all files, to detect changes.
    pub fn fingerprint(&self, into: &mut impl Hasher) {
        self.paths().for_each(|file| fingerprint(&file, into));
    }
}
