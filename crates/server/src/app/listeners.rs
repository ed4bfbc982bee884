//! Listening sockets of the service, all bound before anything is served.

use super::bounded::Bounded;
use super::handed::{Handed, Opener, Place};
use crate::config::Settings;
use anyhow::{Context, bail};
use axum::serve::Listener;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_telemetry::log_throttle::LogThrottle;
use std::io;
use std::net::SocketAddr;
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
const MOST_VISITORS: usize = 1_024;
/// A redirect is a single short response, so a small number is enough.
const MOST_REDIRECTED: usize = 1_024;
/// Length of the accept queue, capped by the kernel's `net.core.somaxconn`. A burst of clients arrives within a
/// moment, and a client that finds the queue full retries only after a second.
const WAITING: u32 = 4_096;

pub(super) struct Listeners {
    pub(super) grpc: Option<Bounded<Tcp>>,
    pub(super) grpc_uds: Option<Bounded<UnixListener>>,
    pub(super) admin: Option<Bounded<Tcp>>,
    pub(super) admin_uds: Option<Bounded<UnixListener>>,
    pub(super) metrics: Option<Bounded<Tcp>>,
    pub(super) gateway: Option<Bounded<Tcp>>,
    /// Redirects plain HTTP to HTTPS.
    pub(super) redirect: Option<Bounded<Tcp>>,
    /// Where a successor requests all sockets.
    pub(super) handover: Option<UnixListener>,
    /// The sockets that systemd opened.
    of_systemd: Vec<Place>,
}

impl Listeners {
    /// Opens all sockets in the settings: takes the inherited ones, and binds the others.
    pub(super) async fn open(settings: &Settings, mut handed: Handed) -> anyhow::Result<Self> {
        let server = &settings.server;
        let most_callers = server.calls.max_connections.get();
        let port = |key| format!("set server.{key} to another port, 0 for any");
        let of_systemd = handed.of_systemd();
        let from = &mut handed;
        let (gateway, redirect) = match settings.gateway.as_ref().map(|gateway| &gateway.front) {
            None => (None, None),
            Some(front) => {
                let remedy = "set gateway.listen to another address, port 0 for any";
                let most = front.max_connections.get();
                let gateway = tcp(Place::Gateway, Some(front.listen), most, remedy, from)?;
                let address = front.tls.as_ref().and_then(|tls| tls.redirect_from);
                let remedy = "set gateway.tls.redirect_from to another address";
                (gateway, tcp(Place::Redirect, address, MOST_REDIRECTED, remedy, from)?)
            }
        };
        let grpc = tcp(Place::Grpc, server.grpc, most_callers, &port("grpc_port"), from)?;
        let admin = tcp(Place::Admin, server.admin, MOST_VISITORS, &port("admin_port"), from)?;
        let metrics = tcp(Place::Metrics, server.metrics, MOST_VISITORS, &port("metrics_port"), from)?;
        let grpc_uds = unix(Place::GrpcUds, server.grpc_uds.as_deref(), from).await?;
        let admin_uds = unix(Place::AdminUds, server.admin_uds.as_deref(), from).await?;
        let handover = unix(Place::Handover, server.handover_socket.as_deref(), from).await?;
        if let (Some(_), Some(path)) = (&handover, &server.handover_socket) {
            // The handover checks the peer's credentials too; this only keeps others from connecting.
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(path, mode)
                .with_context(|| format!("restricting the permissions of {}", path.display()))?;
        }
        if let [name, ..] = handed.left().as_slice() {
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
            grpc_uds: grpc_uds.map(|socket| Bounded::new(socket, most_callers)),
            admin_uds: admin_uds.map(|socket| Bounded::new(socket, MOST_VISITORS)),
            handover,
            of_systemd,
        })
    }

    /// Duplicates all sockets, for a successor.
    pub(super) fn descriptors(&self) -> io::Result<Vec<(Place, Opener, OwnedFd)>> {
        let tcp = |socket: &Option<Bounded<Tcp>>| descriptor(socket.as_ref().map(Bounded::listener));
        let unix =
            |socket: &Option<Bounded<UnixListener>>| descriptor(socket.as_ref().map(Bounded::listener));
        let all = [
            (Place::Grpc, tcp(&self.grpc)?),
            (Place::GrpcUds, unix(&self.grpc_uds)?),
            (Place::Admin, tcp(&self.admin)?),
            (Place::AdminUds, unix(&self.admin_uds)?),
            (Place::Metrics, tcp(&self.metrics)?),
            (Place::Gateway, tcp(&self.gateway)?),
            (Place::Redirect, tcp(&self.redirect)?),
            (Place::Handover, descriptor(self.handover.as_ref())?),
        ];
        let opener = |place| if self.of_systemd.contains(&place) { Opener::Systemd } else { Opener::Service };
        Ok(all.into_iter().filter_map(|(place, socket)| Some((place, opener(place), socket?))).collect())
    }
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
    place: Place,
    address: Option<SocketAddr>,
    most: usize,
    remedy: &str,
    handed: &mut Handed,
) -> anyhow::Result<Option<Bounded<Tcp>>> {
    let listener = match (handed.tcp(place, address)?, address) {
        (Some(socket), _) => TcpListener::from_std(socket)?,
        (None, Some(address)) => {
            listen(address).with_context(|| format!("cannot listen on {address}; free it, or {remedy}"))?
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Bounded::new(Tcp::new(listener), most)))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of the previous process may still be closing.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
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
    place: Place,
    path: Option<&Path>,
    handed: &mut Handed,
) -> anyhow::Result<Option<UnixListener>> {
    if let Some(socket) = handed.unix(place, path)? {
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
