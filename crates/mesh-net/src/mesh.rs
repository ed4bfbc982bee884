//! A running mesh node: its sockets, its background tasks, and the store of its shared counters.

use super::caller_limits::CallerLimits;
use super::context::{NodeContext, every};
use super::dial_schedule::{DialSchedule, MAX_DIALS};
use super::discovery;
use super::identity::{Certificates, NodeIdentity, NodeIdentityError};
use super::isolation::Isolation;
use super::links::Links;
use super::lock;
use super::name_lookup::NameLookups;
use super::peer::Peer;
use super::peer_table::PeerTable;
use super::quic;
use super::settings::{MeshSettings, MeshStartError};
use super::tick_report::TickReports;
use super::ticker::TICK;
use hivemind_core::store::{Charge, Context, Store, StoreError, Verdicts};
use hivemind_core::{Clock, Timestamp};
use hivemind_mesh::MeshStore;
use hivemind_mesh::NodeId;
use hivemind_mesh::replicated_map::MapHandle;
use hivemind_mesh::{ForgetError, ForgetOutcome, Inspection, Node, Standing};
use quinn::VarInt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Timeout for closing connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A running mesh node, until it is dropped.
///
/// ```
/// use hivemind_core::SystemClock;
/// use hivemind_mesh_net::{Mesh, MeshSettings, MeshStartError};
/// use std::{sync::Arc, time::Duration};
///
/// async fn serve(settings: MeshSettings) -> Result<(), MeshStartError> {
///     let mesh = Mesh::start(settings, Arc::new(SystemClock)).await?;
///     let store = mesh.store(); // For a limiter: `RateLimiter::builder(limits).store(Arc::new(store), seed)`.
///     mesh.leave(Duration::from_secs(5)).await; // Returns its allowance to the others.
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Mesh {
    context: Arc<NodeContext>,
    tasks: Mutex<JoinSet<()>>,
    address: SocketAddr,
}

/// The store of shared counters.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Op, Store, StoreError};
/// use hivemind_mesh_net::PeerStore;
///
/// /// What remains of a counter at its owner.
/// async fn left(store: &PeerStore, charge: Charge<'_>, context: Context) -> Result<Option<u64>, StoreError> {
///     let peek = Charge { op: Op::Peek, ..charge };
///     Ok(store.operate(&[peek], context).await?.each().first().map(|verdict| verdict.remaining))
/// }
/// ```
#[derive(Clone)]
pub struct PeerStore(Arc<MeshStore<Arc<Links>>>);

impl Mesh {
    /// Starts a node, which then discovers its peers.
    ///
    /// # Errors
    /// If it cannot listen, or if peers would reject its certificate.
    pub async fn start(settings: MeshSettings, clock: Arc<dyn Clock>) -> Result<Self, MeshStartError> {
        let now = clock.now();
        let MeshSettings { name, cluster, bind, discovery, max_peers, options, .. } = settings;
        let identity = NodeIdentity::load(settings.tls, name.clone(), Arc::clone(&clock))?;
        let unbound = |cause| MeshStartError::Bind { address: bind, cause };
        let (listener, socket) = listen(bind).await.map_err(unbound)?;
        let address = socket.local_addr().map_err(unbound)?;
        let mut node = Node::new(name.clone(), now.as_nanos(), options.clone(), now);
        if discovery.is_empty() {
            node.found(now);
        } else if discovery.has_names() {
            node.seek_from(now.saturating_add(discovery::FOUNDING_DELAY));
        }
        let board = Arc::new(MapHandle::by_mesh_clock(&node));
        let links = Arc::new(Links::new(name.clone(), max_peers));
        let advertise = settings.advertise.or_else(|| Some(address.ip()).filter(|ip| !ip.is_unspecified()));
        let context = Arc::new(NodeContext {
            endpoint: quic::endpoint(socket, &identity)?,
            tcp_server: Arc::new(identity.server()?),
            tcp_client: Arc::new(identity.client()?),
            identity,
            cluster,
            advertised: (advertise, settings.advertise_port.unwrap_or(address.port())),
            options,
            peer_table: Mutex::new(PeerTable::new(name.clone(), max_peers)),
            board,
            dial_schedule: Mutex::new(DialSchedule::new(now.as_nanos())),
            lookups: NameLookups::new(discovery),
            store: Arc::new(MeshStore::new(node, Arc::clone(&links))),
            links,
            name,
            clock,
            caller_limits: CallerLimits::default(),
            tick_reports: Mutex::default(),
            dial_permits: Arc::new(Semaphore::new(MAX_DIALS)),
            has_connected: AtomicBool::new(false),
            reported_namesake: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&context).run_ticks());
        tasks.spawn(Arc::clone(&context).accept_quic());
        tasks.spawn(Arc::clone(&context).accept_tcp(listener));
        tasks.spawn(Arc::clone(&context).run_discovery());
        if context.lookups.settings.mdns {
            tasks.spawn(Arc::clone(&context).run_mdns());
        }
        tasks.spawn(Arc::clone(&context).run_dialer());
        tasks.spawn(Arc::clone(&context).run_gossip());
        tasks.spawn(Arc::clone(&context).log_peer_events());
        tasks.spawn(Arc::clone(&context).watch_certificates());
        Ok(Self { context, tasks: Mutex::new(tasks), address })
    }

    /// The store of shared counters.
    #[must_use]
    pub fn store(&self) -> PeerStore {
        PeerStore(Arc::clone(&self.context.store))
    }

    /// The map that all nodes replicate.
    #[must_use]
    pub fn board(&self) -> Arc<MapHandle> {
        Arc::clone(&self.context.board)
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it can serve: it is a member of the view or an observer.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.context.store.with(|node| node.is_ready())
    }

    /// Status of the mesh.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let now = self.context.clock.now();
        self.context.store.with(|node| node.standing(now))
    }

    /// Whether peers agree that this node's clock is off.
    #[must_use]
    pub fn is_clock_off(&self) -> bool {
        let now = self.context.clock.now();
        self.context.store.with(|node| node.is_outlier(node.mesh_time(now)))
    }

    /// All known peers, sorted by name.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let mut peers = self.context.peers();
        let held = self.context.store.rights_held(self.context.clock.now());
        for peer in &mut peers {
            peer.rights_held = held.get(&peer.name).copied().unwrap_or(0);
        }
        peers
    }

    /// All known peers without the allowance they hold, whose summation visits every counter.
    #[must_use]
    pub fn contacts(&self) -> Vec<Peer> {
        self.context.peers()
    }

    /// The last periodic messages to peers.
    #[must_use]
    pub fn tick_reports(&self) -> TickReports {
        *lock(&self.context.tick_reports)
    }

    /// Why this node was never connected to a configured peer. Then it counts alone, and each peer may do so as well.
    #[must_use]
    pub fn isolation(&self) -> Option<Isolation> {
        self.context.isolation()
    }

    /// Number of rejected callers: without a valid certificate, of another mesh, too slow, or too many.
    #[must_use]
    pub fn callers_refused(&self) -> u64 {
        self.context.caller_limits.rejected()
    }

    /// Expiry of the active certificates.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        self.context.identity.certificates()
    }

    /// Reloads the certificate and the CA now, as happens every few seconds. Returns whether they changed.
    ///
    /// # Errors
    /// If the files are invalid; then nothing changes.
    pub fn reload_identity(&self) -> Result<bool, NodeIdentityError> {
        self.context.reload_identity()
    }

    /// Sets the fingerprint of the active rules, which peers compare: equal rules have equal fingerprints on all nodes.
    pub fn set_rules(&self, fingerprint: u32) {
        let now = self.context.clock.now();
        self.context.store.with(|node| node.reload(fingerprint, now));
    }

    /// Removes a peer that does not return from the next view, on an operator's request.
    ///
    /// # Errors
    /// If the peer is this node, sent a frame recently, or is unknown.
    pub fn forget_peer(&self, peer: &NodeId) -> Result<ForgetOutcome, ForgetError> {
        let now = self.context.clock.now();
        self.context.store.with(|node| node.forget_peer(peer, now))
    }

    /// Leaves the view and continues to serve as an observer, which asks the remaining nodes. Returns once its allowance
    /// was returned, or after `patience`; the result says whether it was.
    pub async fn withdraw(&self, patience: Duration) -> bool {
        self.context.store.with(Node::leave);
        let leaving = async {
            let mut ticks = every(TICK);
            while !self.context.store.with(|node| node.has_left(self.now())) {
                ticks.tick().await;
            }
        };
        let has_left = timeout(patience, leaving).await.is_ok();
        if !has_left && !patience.is_zero() {
            tracing::warn!("this node left the mesh before its peers agreed");
        }
        has_left
    }

    /// Leaves the view as [`Mesh::withdraw`] does, then closes all connections.
    pub async fn leave(&self, patience: Duration) {
        self.withdraw(patience).await;
        self.context.links.list().iter().for_each(|link| link.close());
        self.context.endpoint.close(VarInt::from_u32(0), b"");
        let _ = timeout(CLOSE_TIMEOUT, self.context.endpoint.wait_idle()).await;
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }
}

impl std::fmt::Debug for PeerStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerStore(..)")
    }
}

impl PeerStore {
    /// Inspects counters at their owners: what all nodes may still admit, and how it is distributed.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, StoreError};
    /// # use hivemind_mesh_net::PeerStore;
    /// /// What remains of one counter on all nodes.
    /// async fn left(store: &PeerStore, charge: Charge<'_>, context: Context) -> Result<Option<u64>, StoreError> {
    ///     let sights = store.look(&[charge], context).await?;
    ///     Ok(sights.first().map(|sight| sight.verdict.remaining))
    /// }
    /// ```
    ///
    /// # Errors
    /// If an owner is unreachable or did not answer; the result is unknown then.
    pub async fn look(&self, batch: &[Charge<'_>], context: Context) -> Result<Vec<Inspection>, StoreError> {
        self.0.look(batch, context).await
    }

    /// Applies charges, such as refunds, to counters at their owners.
    ///
    /// # Errors
    /// If an owner is unreachable or did not answer; the result is unknown then.
    pub async fn operate(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        self.0.operate(batch, context).await
    }
}

impl Store for PeerStore {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        self.0.decide(batch, context).await
    }

    #[inline]
    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        self.0.try_decide(batch, context)
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.forget(charge).await
    }
}

/// Binds TCP and UDP to the same port. A free port may be free for one of them only, so this may take several tries.
async fn listen(address: SocketAddr) -> io::Result<(TcpListener, std::net::UdpSocket)> {
    let mut tries = if address.port() == 0 { 16 } else { 1 };
    loop {
        tries -= 1;
        let listener = TcpListener::bind(address).await?;
        match std::net::UdpSocket::bind(listener.local_addr()?) {
            Ok(socket) => return Ok((listener, socket)),
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    }
}
