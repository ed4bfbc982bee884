//! What a node of the mesh is told, and why it would not start.

use super::identity::{IdentityError, TlsFiles};
use super::quic::EndpointError;
use hivemind_mesh::MeshOptions;
use hivemind_mesh::NodeId;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// What a node of the mesh is told.
///
/// ```
/// use hivemind_mesh_net::{Discovery, MeshSettings, TlsFiles};
/// use hivemind_mesh::{MeshOptions, NodeId};
///
/// let tls = TlsFiles { ca: "ca.crt".into(), cert: "a.crt".into(), key: "a.key".into() };
/// let settings = MeshSettings {
///     name: NodeId::parse("a")?,
///     cluster: "shop".into(),
///     bind: "0.0.0.0:7946".parse()?,
///     advertise: None,
///     advertise_port: None,
///     discovery: Discovery { peers: vec!["b.example.org:7946".into()], ..Discovery::default() },
///     max_peers: 100,
///     tls,
///     options: MeshOptions::default(),
/// };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use hivemind_mesh_net::Discovery;
///
/// assert!(Discovery::default().is_empty()); // A mesh of its own, which others may join.
/// let headless = Discovery { dns: vec!["hivemind.default.svc".into()], ..Discovery::default() };
/// assert!(!headless.is_empty());
/// ```
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
///
/// ```
/// use hivemind_core::SystemClock;
/// # use hivemind_mesh_net::{Discovery, MeshSettings, TlsFiles};
/// # use hivemind_mesh::{MeshOptions, NodeId};
/// use hivemind_mesh_net::Mesh;
/// use std::sync::Arc;
///
/// let tls = TlsFiles { ca: "/nowhere/ca.crt".into(), cert: "/nowhere/a.crt".into(), key: "/nowhere/a.key".into() };
/// # let (advertise, advertise_port, max_peers) = (None, None, 9);
/// # let (name, bind) = (NodeId::parse("a")?, "127.0.0.1:0".parse()?);
/// # let (cluster, discovery, options) = ("shop".into(), Discovery::default(), MeshOptions::default());
/// # let settings = MeshSettings { name, cluster, bind, advertise, advertise_port, discovery, max_peers, tls, options };
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let error = runtime.block_on(Mesh::start(settings, Arc::new(SystemClock))).unwrap_err();
/// assert!(error.to_string().ends_with("`hivemind certs` makes it"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
