//! Settings of a mesh node, and errors of its start.

use super::identity::{MeshTlsFiles, NodeIdentityError};
use super::quic::EndpointError;
use hivemind_mesh::MeshOptions;
use hivemind_mesh::NodeId;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Settings of a mesh node.
///
/// ```
/// use hivemind_mesh_net::{Discovery, MeshSettings, MeshTlsFiles};
/// use hivemind_mesh::{MeshOptions, NodeId};
///
/// let tls = MeshTlsFiles { ca: "ca.crt".into(), cert: "a.crt".into(), key: "a.key".into() };
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
    /// Its name, which its certificate has to match: lower case, because certificates ignore case.
    pub name: NodeId,
    /// The name of the mesh; nodes of other meshes are rejected.
    pub cluster: String,
    /// The address to listen on, for UDP and TCP.
    pub bind: SocketAddr,
    /// The address that peers dial; by default the source address of its connections.
    pub advertise: Option<IpAddr>,
    /// The port that peers dial; by default the port it listens on.
    pub advertise_port: Option<u16>,
    /// How it discovers peers.
    pub discovery: Discovery,
    /// Maximum number of peers.
    pub max_peers: usize,
    /// Its certificate, its key and the CA.
    pub tls: MeshTlsFiles,
    /// Options of the mesh protocol.
    pub options: MeshOptions,
}

/// How a node discovers peers. Without any source it founds a mesh of its own, which others may join.
///
/// ```
/// use hivemind_mesh_net::Discovery;
///
/// assert!(Discovery::default().is_empty());
/// let headless = Discovery { dns: vec!["hivemind.default.svc".into()], ..Discovery::default() };
/// assert!(!headless.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// `host:port` of peers; each is looked up periodically and may resolve to several addresses. A node that is missing
    /// from them is not considered gone.
    pub peers: Vec<String>,
    /// DNS names that resolve to exactly the nodes of the mesh: `name` or `name:port` for A and AAAA records (by default
    /// with this node's port), `_service._protocol.name` for SRV records. A node that is silent and no longer listed is
    /// dead.
    pub dns: Vec<String>,
    /// Name servers for SRV records; by default those of the system.
    pub nameservers: Vec<SocketAddr>,
    /// Whether to discover peers on the local network by multicast DNS.
    pub mdns: bool,
}

impl Discovery {
    /// Whether no source of peers is configured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_names() && !self.mdns
    }

    /// Whether it has names to look up.
    pub(super) fn has_names(&self) -> bool {
        !self.peers.is_empty() || !self.dns.is_empty()
    }
}

/// Why a node did not start.
///
/// ```
/// use hivemind_core::SystemClock;
/// # use hivemind_mesh_net::{Discovery, MeshSettings, MeshTlsFiles};
/// # use hivemind_mesh::{MeshOptions, NodeId};
/// use hivemind_mesh_net::Mesh;
/// use std::sync::Arc;
///
/// let tls = MeshTlsFiles { ca: "/nowhere/ca.crt".into(), cert: "/nowhere/a.crt".into(), key: "/nowhere/a.key".into() };
/// # let (advertise, advertise_port, max_peers) = (None, None, 9);
/// # let (name, bind) = (NodeId::parse("a")?, "127.0.0.1:0".parse()?);
/// # let (cluster, discovery, options) = ("shop".into(), Discovery::default(), MeshOptions::default());
/// # let settings = MeshSettings { name, cluster, bind, advertise, advertise_port, discovery, max_peers, tls, options };
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let error = runtime.block_on(Mesh::start(settings, Arc::new(SystemClock))).unwrap_err();
/// assert!(error.to_string().ends_with("create it with `hivemind certs`"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeshStartError {
    /// An invalid certificate or CA.
    #[error(transparent)]
    Identity(#[from] NodeIdentityError),
    /// A socket error.
    #[error("the mesh cannot listen on {address}: {cause}; change `mesh.bind`")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        cause: io::Error,
    },
    /// QUIC failed.
    #[error("QUIC cannot be set up: {0}")]
    Quic(#[from] EndpointError),
}
