//! Inherited listening sockets: opened by systemd, or by the process that this one takes over from. All holders of a
//! socket share its accept queue, so clients that wait in it are served by the successor.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// The purpose of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SocketPurpose {
    Grpc,
    GrpcUds,
    Admin,
    AdminUds,
    Metrics,
    Gateway,
    Redirect,
    Handover,
}

impl SocketPurpose {
    pub(crate) const ALL: [Self; 8] = [
        Self::Grpc,
        Self::GrpcUds,
        Self::Admin,
        Self::AdminUds,
        Self::Metrics,
        Self::Gateway,
        Self::Redirect,
        Self::Handover,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::GrpcUds => "grpc_uds",
            Self::Admin => "admin",
            Self::AdminUds => "admin_uds",
            Self::Metrics => "metrics",
            Self::Gateway => "gateway",
            Self::Redirect => "redirect",
            Self::Handover => "handover",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.name() == name)
    }

    pub(crate) const fn is_unix(self) -> bool {
        matches!(self, Self::GrpcUds | Self::AdminUds | Self::Handover)
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) enum InheritedSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// All inherited sockets.
#[derive(Debug, Default)]
pub(crate) struct InheritedSockets {
    sockets: BTreeMap<SocketPurpose, (InheritedSocket, Opener)>,
    /// The opener of sockets that are added without one.
    opener: Opener,
}

/// The process that opened a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opener {
    /// A process like this one, at the address in its settings.
    #[default]
    Service,
    /// systemd: its unit sets the address, regardless of our settings.
    Systemd,
}

impl InheritedSockets {
    pub(crate) fn from_systemd() -> Self {
        Self { opener: Opener::Systemd, ..Self::default() }
    }

    /// Adds a socket, and returns the one that it replaces.
    pub(crate) fn add(&mut self, purpose: SocketPurpose, socket: InheritedSocket) -> Option<InheritedSocket> {
        self.sockets.insert(purpose, (socket, self.opener)).map(|(before, _)| before)
    }

    /// Adds a descriptor that was received from another process.
    pub(super) fn add_descriptor(&mut self, purpose: SocketPurpose, socket: OwnedFd, opener: Opener) {
        let socket = if purpose.is_unix() {
            InheritedSocket::Unix(socket.into())
        } else {
            InheritedSocket::Tcp(socket.into())
        };
        self.sockets.insert(purpose, (socket, opener));
    }

    /// The sockets that systemd opened.
    pub(super) fn of_systemd(&self) -> Vec<SocketPurpose> {
        let of_systemd = self.sockets.iter().filter(|(_, (_, opener))| *opener == Opener::Systemd);
        of_systemd.map(|(purpose, _)| *purpose).collect()
    }

    /// The TCP socket for this purpose, if its address matches; an `address` of `None` means that there should be
    /// none.
    pub(super) fn tcp(
        &mut self,
        purpose: SocketPurpose,
        address: Option<SocketAddr>,
    ) -> io::Result<Option<TcpListener>> {
        let Some((InheritedSocket::Tcp(socket), opener)) = self.sockets.remove(&purpose) else {
            return Ok(None);
        };
        let at = socket.local_addr()?;
        let is_meant = |address: SocketAddr| {
            address.ip() == at.ip() && (address.port() == 0 || address.port() == at.port())
        };
        if opener == Opener::Service && !address.is_some_and(is_meant) {
            return Ok(None);
        }
        socket.set_nonblocking(true)?;
        Ok(Some(socket))
    }

    /// The Unix socket for this purpose, likewise.
    pub(super) fn unix(
        &mut self,
        purpose: SocketPurpose,
        path: Option<&Path>,
    ) -> io::Result<Option<UnixListener>> {
        let Some((InheritedSocket::Unix(socket), opener)) = self.sockets.remove(&purpose) else {
            return Ok(None);
        };
        let at = socket.local_addr()?;
        if opener == Opener::Service && (path.is_none() || at.as_pathname() != path) {
            return Ok(None);
        }
        socket.set_nonblocking(true)?;
        Ok(Some(socket))
    }

    /// The systemd sockets that no setting uses.
    pub(super) fn left(&self) -> Vec<&'static str> {
        self.of_systemd().into_iter().map(SocketPurpose::name).collect()
    }
}
