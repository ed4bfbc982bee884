//! Access control of the ports: TLS, API keys and the admin token, loaded before anything is served.

use super::limited_listener::LimitedListener;
use super::listeners::{Listeners, Tcp};
use crate::settings::Settings;
use anyhow::Context;
use hivemind_admin::Reach;
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::health::ConfiguredComponents;
use hivemind_tls::access::Access;
use hivemind_tls::security::Security;
use hivemind_tls::{PortFiles, PortTls, Protocol};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

const OF_CALLS: &[Protocol] = &[Protocol::Http2];
const OF_PAGES: &[Protocol] = &[Protocol::Http2, Protocol::Http1];

/// What a client of each port must present.
pub(super) struct PortAccess {
    /// TLS on each port; `None` means plaintext.
    pub(super) grpc: Option<Arc<PortTls>>,
    pub(super) admin: Option<Arc<PortTls>>,
    pub(super) metrics: Option<Arc<PortTls>>,
    pub(super) access: Access,
}

impl PortAccess {
    pub(super) fn open(security: &Security) -> anyhow::Result<Self> {
        let port = |key: &str, files: &Option<PortFiles>, protocols| {
            let load = |files| PortTls::load(files, protocols, SystemClock.now()).map(Arc::new);
            files.as_ref().map(load).transpose().with_context(|| format!("`security.{key}`"))
        };
        Ok(Self {
            grpc: port("grpc_tls", &security.grpc_tls, OF_CALLS)?,
            admin: port("admin.tls", &security.admin_tls, OF_PAGES)?,
            metrics: port("metrics_tls", &security.metrics_tls, OF_PAGES)?,
            access: Access::open(security)?,
        })
    }

    /// The components that report health.
    pub(super) fn parts(&self, settings: &Settings) -> ConfiguredComponents {
        let of_gateway = settings.gateway.as_ref().is_some_and(|gateway| gateway.front.tls.is_some());
        ConfiguredComponents {
            mesh: settings.mesh.is_some(),
            certificates: of_gateway || settings.mesh.is_some() || !self.ports().is_empty(),
            keys: self.access.is_asked_for(),
        }
    }

    /// The TLS ports whose files are followed.
    pub(super) fn ports(&self) -> Vec<Arc<PortTls>> {
        [&self.grpc, &self.admin, &self.metrics].into_iter().flatten().cloned().collect()
    }

    /// Which clients can reach the admin port.
    pub(super) fn admin_reach(&self, at: SocketAddr) -> Reach {
        match &self.admin {
            Some(tls) if at.ip().is_loopback() || tls.knows_its_callers() => Reach::Private,
            None if at.ip().is_loopback() => Reach::Loopback,
            _ => Reach::Network,
        }
    }

    /// Warns about ports that the network can reach without protection.
    pub(super) fn warn_about_unprotected_ports(&self, listeners: &Listeners) {
        let at = |listener: &Option<LimitedListener<Tcp>>| listener.as_ref()?.local_addr().ok();
        let outside = |at: &SocketAddr| !at.ip().is_loopback();
        if let Some(at) = at(&listeners.admin).filter(|at| self.admin_reach(*at) == Reach::Network) {
            if !self.access.is_asked_for() {
                tracing::warn!(
                    "the admin port at {at} is reachable from the network without authentication, so it rejects writes; set \
                     `security.admin.token_file`"
                );
            } else if self.admin.is_none() {
                tracing::warn!(
                    "keys and tokens for {at} cross the network in plaintext; set `security.admin.tls`"
                );
            }
        }
        let has_keys = self.access.keys.is_some() && self.grpc.is_none();
        if let Some(at) = at(&listeners.grpc).filter(outside).filter(|_| has_keys) {
            tracing::warn!("API keys for {at} cross the network in plaintext; set `security.grpc_tls`");
        }
    }
}

/// Warns about a configuration file that other users can read: it contains the paths of secrets.
pub(super) fn warn_if_readable_by_others(configuration: Option<&Path>) {
    let mode = |path: &Path| std::fs::metadata(path).map(|found| found.permissions().mode());
    let Some(path) = configuration else { return };
    let shown = path.display();
    match mode(path) {
        Ok(mode) if mode & 0o002 != 0 => {
            tracing::warn!(
                "{shown}: every user of this machine can change the configuration; `chmod o-rw {shown}`"
            );
        }
        Ok(mode) if mode & 0o004 != 0 => {
            tracing::warn!(
                "{shown}: every user of this machine can read the configuration; `chmod o-r {shown}`"
            );
        }
        _ => {}
    }
}
