//! What a node of the mesh is told, and why it would not start.

use super::identity::{IdentityError, TlsFiles};
use super::quic::EndpointError;
use crate::options::MeshOptions;
use crate::owner::NodeId;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// What a node of the mesh is told.
#[derive(Clone, Debug)]
pub struct MeshSettings {
    /// Its name, for which its certificate is: lower case, since certificates do not tell the cases apart.
    pub name: NodeId,
    /// The name of the mesh; peers of others are not spoken to.
    pub cluster: String,
    /// Where it listens, for datagrams and for TCP.
    pub bind: SocketAddr,
    /// The address at which peers can call it; none is the one that they see it call from.
    pub advertise: Option<IpAddr>,
    /// The port of that address, where it is another than the one it listens at.
    pub advertise_port: Option<u16>,
    /// How it finds its peers.
    pub discovery: Discovery,
    /// The most peers.
    pub max_peers: usize,
    /// Its certificate and the CA.
    pub tls: TlsFiles,
    /// How limits are shared.
    pub options: MeshOptions,
}

/// How a node finds its peers. One that is told of no way is a mesh of its own, that others may join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// `host:port` of peers; each is looked up again and again, and may stand for many. It is where to begin, and
    /// never says who is gone.
    pub peers: Vec<String>,
    /// Names in DNS behind which all nodes of the mesh are, and nobody else: `name` or `name:port` for A and AAAA
    /// records (without a port, at this node's own), `_service._protocol.name` for SRV records. A node that is silent
    /// and gone from there counts as dead.
    pub dns: Vec<String>,
    /// The name servers to ask for SRV records; none are those of the system.
    pub nameservers: Vec<SocketAddr>,
    /// Whether to look for peers on the local network by multicast.
    pub mdns: bool,
}

impl Discovery {
    /// Whether there is no way to find anybody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_names() && !self.mdns
    }

    /// Whether it names peers that have to be there.
    pub(super) fn has_names(&self) -> bool {
        !self.peers.is_empty() || !self.dns.is_empty()
    }
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The certificate or the CA.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The socket.
    #[error("the mesh cannot listen at {address}: {cause}; see `mesh.bind`")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: io::Error,
    },
    /// QUIC.
    #[error("the mesh cannot speak QUIC: {0}")]
    Quic(#[from] EndpointError),
}
