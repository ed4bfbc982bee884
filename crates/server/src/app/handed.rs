//! Listening sockets that were open before this process was there: systemd's, or those of the process that it takes
//! over from. The kernel's queue of a socket belongs to all who hold it, so whoever waits in it is served by the next.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Grpc,
    GrpcUds,
    Admin,
    AdminUds,
    Metrics,
    Gateway,
    Redirect,
    Handover,
}

impl Place {
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

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }

    pub(crate) const fn is_unix(self) -> bool {
        matches!(self, Self::GrpcUds | Self::AdminUds | Self::Handover)
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) enum HandedSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// All sockets that there are already.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    sockets: BTreeMap<Place, (HandedSocket, Opener)>,
    /// Whose those are that systemd's protocol has: all of them.
    opener: Opener,
}

/// Who has opened a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opener {
    /// A process like this one, where its settings said.
    #[default]
    Service,
    /// Where it listens is systemd's to say, whatever the settings have.
    Systemd,
}

impl Handed {
    pub(crate) fn by_systemd() -> Self {
        Self { opener: Opener::Systemd, ..Self::default() }
    }

    /// Gives back the one that had this place before.
    pub(crate) fn add(&mut self, place: Place, socket: HandedSocket) -> Option<HandedSocket> {
        self.sockets.insert(place, (socket, self.opener)).map(|(before, _)| before)
    }

    /// One that came from another process as a descriptor.
    pub(super) fn add_descriptor(&mut self, place: Place, socket: OwnedFd, opener: Opener) {
        let socket = if place.is_unix() {
            HandedSocket::Unix(socket.into())
        } else {
            HandedSocket::Tcp(socket.into())
        };
        self.sockets.insert(place, (socket, opener));
    }

    /// Those that systemd has opened.
    pub(super) fn of_systemd(&self) -> Vec<Place> {
        let of_systemd = self.sockets.iter().filter(|(_, (_, opener))| *opener == Opener::Systemd);
        of_systemd.map(|(place, _)| *place).collect()
    }

    /// The port for this place, if it is where it should be; none in `address`: there should be no such port.
    pub(super) fn tcp(
        &mut self,
        place: Place,
        address: Option<SocketAddr>,
    ) -> io::Result<Option<TcpListener>> {
        let Some((HandedSocket::Tcp(socket), opener)) = self.sockets.remove(&place) else { return Ok(None) };
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

    /// The Unix socket for this place, likewise.
    pub(super) fn unix(&mut self, place: Place, path: Option<&Path>) -> io::Result<Option<UnixListener>> {
        let Some((HandedSocket::Unix(socket), opener)) = self.sockets.remove(&place) else { return Ok(None) };
        let at = socket.local_addr()?;
        if opener == Opener::Service && (path.is_none() || at.as_pathname() != path) {
            return Ok(None);
        }
        socket.set_nonblocking(true)?;
        Ok(Some(socket))
    }

    /// Those of systemd that nobody has taken: what they are for is not configured.
    pub(super) fn left(&self) -> Vec<&'static str> {
        self.of_systemd().into_iter().map(Place::name).collect()
    }
}
