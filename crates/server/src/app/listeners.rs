//! The sockets that the service listens on, all bound before anything is served.

use super::Fronts;
use super::bounded::Bounded;
use crate::config::Settings;
use anyhow::{Context, bail};
use axum::serve::{ListenerExt, TapIo};
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

pub(super) type Tcp = TapIo<TcpListener, fn(&mut TcpStream)>;

/// Operators, probes and scrapers are few; idle strangers must not shut them out.
const MOST_VISITORS: usize = 1_024;

pub(super) struct Listeners {
    /// None where the gateway is alone.
    pub(super) grpc: Option<Bounded<Tcp>>,
    pub(super) grpc_uds: Option<Bounded<UnixListener>>,
    pub(super) admin: Bounded<Tcp>,
    pub(super) admin_uds: Option<Bounded<UnixListener>>,
    pub(super) metrics: Bounded<Tcp>,
    pub(super) gateway: Option<Bounded<Tcp>>,
    /// Plain HTTP that is sent to HTTPS.
    pub(super) redirect: Option<Bounded<Tcp>>,
}

impl Listeners {
    pub(super) async fn bind(settings: &Settings, fronts: Fronts) -> anyhow::Result<Self> {
        let has_calls = fronts == Fronts::All;
        let server = &settings.server;
        let most_callers = server.calls.max_connections.get();
        let (gateway, redirect) = match &settings.gateway {
            Some(of) => (
                Some(super::gateway::bind(&of.front).await?),
                super::gateway::bind_redirect(&of.front).await?,
            ),
            None => (None, None),
        };
        Ok(Self {
            gateway,
            redirect,
            grpc: match has_calls {
                true => Some(Bounded::new(tcp(server.grpc, "grpc_port").await?, most_callers)),
                false => None,
            },
            admin: Bounded::new(tcp(server.admin, "admin_port").await?, MOST_VISITORS),
            metrics: Bounded::new(tcp(server.metrics, "metrics_port").await?, MOST_VISITORS),
            grpc_uds: unix(server.grpc_uds.as_deref().filter(|_| has_calls))
                .await?
                .map(|socket| Bounded::new(socket, most_callers)),
            admin_uds: unix(server.admin_uds.as_deref())
                .await?
                .map(|socket| Bounded::new(socket, MOST_VISITORS)),
        })
    }
}

async fn tcp(address: SocketAddr, key: &str) -> anyhow::Result<Tcp> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; free it, or set server.{key} to another port, 0 for any")
    })?;
    Ok(without_delay(listener))
}

/// An answer is small and final: waiting to fill a packet only delays it.
pub(super) fn without_delay(listener: TcpListener) -> Tcp {
    listener.tap_io(|stream| drop(stream.set_nodelay(true)))
}

async fn unix(path: Option<&Path>) -> anyhow::Result<Option<UnixListener>> {
    let Some(path) = path else { return Ok(None) };
    if UnixStream::connect(path).await.is_ok() {
        bail!("cannot listen on {}; another process does", path.display());
    }
    // A socket that nobody answers on was left behind by a process that was killed.
    let is_socket = std::os::unix::fs::FileTypeExt::is_socket;
    if std::fs::symlink_metadata(path).is_ok_and(|file| is_socket(&file.file_type())) {
        std::fs::remove_file(path).with_context(|| format!("removing the old socket {}", path.display()))?;
    }
    let listener = UnixListener::bind(path);
    listener
        .map(Some)
        .with_context(|| format!("cannot listen on {}; check that its folder exists", path.display()))
}
