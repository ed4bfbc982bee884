//! The sockets that the service listens on, all bound before anything is served.

use super::bounded::Bounded;
use crate::config::Settings;
use crate::seldom::Seldom;
use anyhow::{Context, bail};
use axum::serve::Listener;
use hivemind_core::{Clock, MonotonicClock};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// How long nobody is accepted where there is nothing to accept with.
const PAUSE: Duration = Duration::from_secs(1);

/// A socket that goes on listening whatever happens to those who come.
pub(super) struct Tcp {
    listener: TcpListener,
    failures: Seldom,
}

/// Operators, probes and scrapers are few; idle strangers must not shut them out.
const MOST_VISITORS: usize = 1_024;

pub(super) struct Listeners {
    pub(super) grpc: Option<Bounded<Tcp>>,
    pub(super) grpc_uds: Option<Bounded<UnixListener>>,
    pub(super) admin: Option<Bounded<Tcp>>,
    pub(super) admin_uds: Option<Bounded<UnixListener>>,
    pub(super) metrics: Option<Bounded<Tcp>>,
    pub(super) gateway: Option<Bounded<Tcp>>,
    /// Plain HTTP that is sent to HTTPS.
    pub(super) redirect: Option<Bounded<Tcp>>,
}

impl Listeners {
    pub(super) async fn bind(settings: &Settings) -> anyhow::Result<Self> {
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
            grpc: tcp(server.grpc, "grpc_port", most_callers).await?,
            admin: tcp(server.admin, "admin_port", MOST_VISITORS).await?,
            metrics: tcp(server.metrics, "metrics_port", MOST_VISITORS).await?,
            grpc_uds: unix(server.grpc_uds.as_deref())
                .await?
                .map(|socket| Bounded::new(socket, most_callers)),
            admin_uds: unix(server.admin_uds.as_deref())
                .await?
                .map(|socket| Bounded::new(socket, MOST_VISITORS)),
        })
    }
}

async fn tcp(address: Option<SocketAddr>, key: &str, most: usize) -> anyhow::Result<Option<Bounded<Tcp>>> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; free it, or set server.{key} to another port, 0 for any")
    })?;
    Ok(Some(Bounded::new(Tcp::new(listener), most)))
}

impl Tcp {
    pub(super) const fn new(listener: TcpListener) -> Self {
        Self { listener, failures: Seldom::new() }
    }

    /// Tells of what keeps connections from being accepted, and waits for it to pass: descriptors come back
    /// as connections are closed.
    async fn pause(&self, error: &io::Error) {
        if let Some(times) = self.failures.happens(MonotonicClock.now()) {
            let at = self.listener.local_addr().map(|at| at.to_string()).unwrap_or_default();
            tracing::error!(
                times,
                "no connection can be accepted at {at}: {error}; where too many files are open, raise `ulimit -n` or \
                 systemd's `LimitNOFILE`"
            );
        }
        let _ = tokio::time::timeout(PAUSE, std::future::pending::<()>()).await;
    }
}

impl Listener for Tcp {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // An answer is small and final: waiting to fill a packet only delays it.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer);
                }
                // Whoever has gone before it was let in is nobody's trouble.
                Err(error)
                    if [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind()) => {}
                Err(error) => self.pause(&error).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
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
