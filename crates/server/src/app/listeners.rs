//! Listening sockets of the service, all bound before anything is served.

use super::limited_listener::{LimitedListener, ListenerLimits};
use crate::inherited_sockets::{InheritedSockets, Opener, SocketPurpose};
use crate::settings::Settings;
use anyhow::{Context, bail};
use axum::serve::Listener;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_telemetry::log_throttle::LogThrottle;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Pause of a listener after a failed accept.
const PAUSE: Duration = Duration::from_secs(1);

/// A TCP listener that continues to accept after errors.
pub(super) struct Tcp {
    listener: TcpListener,
    failures: LogThrottle,
}

/// Operators, probes and scrapers are few; idle connections of others must not lock them out.
pub(super) const MAX_HTTP_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
/// A redirect is a single short response, so a small number is enough.
pub(super) const MAX_REDIRECT_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
/// Length of the accept queue, capped by the kernel's `net.core.somaxconn`. A burst of clients arrives within a
/// moment, and a client that finds the queue full retries only after a second.
const BACKLOG: u32 = 4_096;

pub(super) struct Listeners {
    pub(super) grpc: Option<LimitedListener<Tcp>>,
    pub(super) grpc_uds: Option<LimitedListener<UnixListener>>,
    pub(super) admin: Option<LimitedListener<Tcp>>,
    pub(super) admin_uds: Option<LimitedListener<UnixListener>>,
    pub(super) metrics: Option<LimitedListener<Tcp>>,
    pub(super) gateway: Option<LimitedListener<Tcp>>,
    /// Redirects plain HTTP to HTTPS.
    pub(super) redirect: Option<LimitedListener<Tcp>>,
    /// Where a successor requests all sockets.
    pub(super) handover: Option<UnixListener>,
    /// The sockets that systemd opened.
    of_systemd: Vec<SocketPurpose>,
}

impl Listeners {
    /// Opens all sockets in the settings: takes the inherited ones, and binds the others.
    pub(super) async fn open(settings: &Settings, mut sockets: InheritedSockets) -> anyhow::Result<Self> {
        let server = &settings.server;
        let max_calls = server.calls.max_connections;
        let port = |key| format!("set server.{key} to another port, 0 for any");
        let of_systemd = sockets.of_systemd();
        let from = &mut sockets;
        let (gateway, redirect) = match settings.gateway.as_ref().map(|gateway| &gateway.front) {
            None => (None, None),
            Some(front) => {
                let remedy = "set gateway.listen to another address, port 0 for any";
                let limits = ListenerLimits::of_gateway(front)?;
                let gateway = tcp(SocketPurpose::Gateway, Some(front.listen), limits, remedy, from)?;
                let address = front.tls.as_ref().and_then(|tls| tls.redirect_from);
                let remedy = "set gateway.tls.redirect_from to another address";
                let limits = ListenerLimits::of_server(MAX_REDIRECT_CONNECTIONS, server);
                (gateway, tcp(SocketPurpose::Redirect, address, limits, remedy, from)?)
            }
        };
        let limits = |max| ListenerLimits::of_server(max, server);
        let grpc = tcp(SocketPurpose::Grpc, server.grpc, limits(max_calls), &port("grpc_port"), from)?;
        let of_http = || limits(MAX_HTTP_CONNECTIONS);
        let admin = tcp(SocketPurpose::Admin, server.admin, of_http(), &port("admin_port"), from)?;
        let metrics = tcp(SocketPurpose::Metrics, server.metrics, of_http(), &port("metrics_port"), from)?;
        let grpc_uds = unix(SocketPurpose::GrpcUds, server.grpc_uds.as_deref(), from).await?;
        let admin_uds = unix(SocketPurpose::AdminUds, server.admin_uds.as_deref(), from).await?;
        let handover = unix(SocketPurpose::Handover, server.handover_socket.as_deref(), from).await?;
        if let (Some(_), Some(path)) = (&handover, &server.handover_socket) {
            // The handover checks the peer's credentials too; this only keeps others from connecting.
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(path, mode)
                .with_context(|| format!("restricting the permissions of {}", path.display()))?;
        }
        if let [name, ..] = sockets.left().as_slice() {
            bail!(
                "systemd passed a socket named `{name}`, but no setting uses it; remove it from the .socket unit, or \
                   configure it"
            );
        }
        Ok(Self {
            gateway,
            redirect,
            grpc,
            admin,
            metrics,
            grpc_uds: grpc_uds.map(|socket| local(socket, max_calls)),
            admin_uds: admin_uds.map(|socket| local(socket, MAX_HTTP_CONNECTIONS)),
            handover,
            of_systemd,
        })
    }

    /// Duplicates all sockets, for a successor.
    pub(super) fn descriptors(&self) -> io::Result<Vec<(SocketPurpose, Opener, OwnedFd)>> {
        let tcp = |socket: &Option<LimitedListener<Tcp>>| {
            descriptor(socket.as_ref().map(LimitedListener::listener))
        };
        let unix = |socket: &Option<LimitedListener<UnixListener>>| {
            descriptor(socket.as_ref().map(LimitedListener::listener))
        };
        let all = [
            (SocketPurpose::Grpc, tcp(&self.grpc)?),
            (SocketPurpose::GrpcUds, unix(&self.grpc_uds)?),
            (SocketPurpose::Admin, tcp(&self.admin)?),
            (SocketPurpose::AdminUds, unix(&self.admin_uds)?),
            (SocketPurpose::Metrics, tcp(&self.metrics)?),
            (SocketPurpose::Gateway, tcp(&self.gateway)?),
            (SocketPurpose::Redirect, tcp(&self.redirect)?),
            (SocketPurpose::Handover, descriptor(self.handover.as_ref())?),
        ];
        let opener =
            |purpose| if self.of_systemd.contains(&purpose) { Opener::Systemd } else { Opener::Service };
        Ok(all
            .into_iter()
            .filter_map(|(purpose, socket)| Some((purpose, opener(purpose), socket?)))
            .collect())
    }
}

/// Clients of a Unix socket have no address, so only their total is limited.
fn local(socket: UnixListener, max: NonZeroUsize) -> LimitedListener<UnixListener> {
    LimitedListener::new(socket, ListenerLimits::of_all(max, 0))
}

fn descriptor(socket: Option<&impl AsFd>) -> io::Result<Option<OwnedFd>> {
    socket.map(|socket| socket.as_fd().try_clone_to_owned()).transpose()
}

impl AsFd for Tcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn tcp(
    purpose: SocketPurpose,
    address: Option<SocketAddr>,
    limits: ListenerLimits,
    remedy: &str,
    sockets: &mut InheritedSockets,
) -> anyhow::Result<Option<LimitedListener<Tcp>>> {
    let listener = match (sockets.tcp(purpose, address)?, address) {
        (Some(socket), _) => TcpListener::from_std(socket)?,
        (None, Some(address)) => {
            listen(address).with_context(|| format!("cannot listen on {address}; free it, or {remedy}"))?
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(LimitedListener::new(Tcp::new(listener), limits)))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of the previous process may still be closing.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Tcp {
    pub(super) const fn new(listener: TcpListener) -> Self {
        Self { listener, failures: LogThrottle::new() }
    }

    /// Logs an accept error and waits: descriptors become free as connections close.
    async fn pause(&self, error: &io::Error) {
        if let Some(times) = self.failures.record(MonotonicClock.now()) {
            let at = self.listener.local_addr().map(|at| at.to_string()).unwrap_or_default();
            tracing::error!(
                times,
                "cannot accept connections at {at}: {error}; if too many files are open, raise `ulimit -n` or systemd's \
                 `LimitNOFILE`"
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
                    // Responses are small and complete: Nagle's algorithm would only delay them.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer);
                }
                // The client left before it was accepted.
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

async fn unix(
    purpose: SocketPurpose,
    path: Option<&Path>,
    sockets: &mut InheritedSockets,
) -> anyhow::Result<Option<UnixListener>> {
    if let Some(socket) = sockets.unix(purpose, path)? {
        return Ok(Some(UnixListener::from_std(socket)?));
    }
    let Some(path) = path else { return Ok(None) };
    if UnixStream::connect(path).await.is_ok() {
        bail!("cannot listen on {}; another process listens there", path.display());
    }
    // A socket without a listener was left behind by a killed process.
    let is_socket = std::os::unix::fs::FileTypeExt::is_socket;
    if std::fs::symlink_metadata(path).is_ok_and(|file| is_socket(&file.file_type())) {
        std::fs::remove_file(path).with_context(|| format!("removing the old socket {}", path.display()))?;
    }
    let listener = UnixListener::bind(path);
    listener
        .map(Some)
        .with_context(|| format!("cannot listen on {}; check that its folder exists", path.display()))
}
