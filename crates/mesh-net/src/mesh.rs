//! A node that runs: its sockets, its connections, and the ticks of its state machine.

use super::dialer::{Dialer, MOST_CALLS};
use super::door::Door;
use super::host::{Host, TICK, every};
use super::identity::{Certificates, Identity, IdentityError};
use super::links::Links;
use super::lock;
use super::lookout::{self, Lookout};
use super::peer::Peer;
use super::quic;
use super::roster::Roster;
use super::round::Rounds;
use super::settings::{MeshSettings, StartError};
use super::unmet::Unmet;
use hivemind_core::store::{Charge, Context, Store, StoreError, Verdicts};
use hivemind_core::{Clock, Timestamp};
use hivemind_mesh::MeshStore;
use hivemind_mesh::NodeId;
use hivemind_mesh::bulletin::Board;
use hivemind_mesh::{GivenUp, Node, NotGivenUp, Sight, Standing};
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

/// How long the last words of a node have.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A node that runs, until it is dropped.
///
/// ```
/// use hivemind_core::SystemClock;
/// use hivemind_mesh_net::{Mesh, MeshSettings, StartError};
/// use std::{sync::Arc, time::Duration};
///
/// async fn serve(settings: MeshSettings) -> Result<(), StartError> {
///     let mesh = Mesh::start(settings, Arc::new(SystemClock)).await?;
///     let store = mesh.store(); // For a limiter: `RateLimiter::builder(limits).store(Arc::new(store), seed)`.
///     mesh.leave(Duration::from_secs(5)).await; // What it held goes back to the others.
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Mesh {
    host: Arc<Host>,
    tasks: Mutex<JoinSet<()>>,
    address: SocketAddr,
}

/// The counters that peers share, as a store.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Op, Store, StoreError};
/// use hivemind_mesh_net::PeerStore;
///
/// /// What is left of a counter, as its owner has it.
/// async fn left(store: &PeerStore, charge: Charge<'_>, context: Context) -> Result<Option<u64>, StoreError> {
///     let look = Charge { op: Op::Peek, ..charge };
///     Ok(store.operate(&[look], context).await?.each().first().map(|verdict| verdict.remaining))
/// }
/// ```
#[derive(Clone)]
pub struct PeerStore(Arc<MeshStore<Arc<Links>>>);

impl Mesh {
    /// Starts a node. It finds its peers by itself from here on.
    ///
    /// # Errors
    /// If it cannot listen, or has no certificate that its peers would believe.
    pub async fn start(settings: MeshSettings, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let now = clock.now();
        let MeshSettings { name, cluster, bind, discovery, max_peers, options, .. } = settings;
        let identity = Identity::load(settings.tls, name.clone(), Arc::clone(&clock))?;
        let unbound = |cause| StartError::Bind { address: bind, cause };
        let (listener, socket) = listen(bind).await.map_err(unbound)?;
        let address = socket.local_addr().map_err(unbound)?;
        let mut node = Node::new(name.clone(), now.as_nanos(), options.clone(), now);
        if discovery.is_empty() {
            node.found(now);
        } else if discovery.has_names() {
            node.seek_from(now.saturating_add(lookout::PATIENT_FOR));
        }
        let board = Arc::new(Board::by_mesh_clock(&node));
        let links = Arc::new(Links::new(name.clone(), max_peers));
        let advertise = settings.advertise.or_else(|| Some(address.ip()).filter(|ip| !ip.is_unspecified()));
        let host = Arc::new(Host {
            endpoint: quic::endpoint(socket, &identity)?,
            tcp_server: Arc::new(identity.server()?),
            tcp_client: Arc::new(identity.client()?),
            identity,
            cluster,
            advertised: (advertise, settings.advertise_port.unwrap_or(address.port())),
            options,
            roster: Mutex::new(Roster::new(name.clone(), max_peers)),
            board,
            dialer: Mutex::new(Dialer::new(now.as_nanos())),
            lookout: Lookout::new(discovery),
            store: Arc::new(MeshStore::new(node, Arc::clone(&links))),
            links,
            name,
            clock,
            door: Door::default(),
            rounds: Mutex::default(),
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
            has_met: AtomicBool::new(false),
            namesake: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&host).tick());
        tasks.spawn(Arc::clone(&host).accept_quic());
        tasks.spawn(Arc::clone(&host).accept_tcp(listener));
        tasks.spawn(Arc::clone(&host).look_out());
        if host.lookout.discovery.mdns {
            tasks.spawn(Arc::clone(&host).announce());
        }
        tasks.spawn(Arc::clone(&host).dial_all());
        tasks.spawn(Arc::clone(&host).spread_roster());
        tasks.spawn(Arc::clone(&host).watch_peers());
        tasks.spawn(Arc::clone(&host).watch_certificates());
        Ok(Self { host, tasks: Mutex::new(tasks), address })
    }

    /// The counters that it shares.
    #[must_use]
    pub fn store(&self) -> PeerStore {
        PeerStore(Arc::clone(&self.host.store))
    }

    /// The notes that all its nodes have.
    #[must_use]
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.host.board)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it may serve: it is in the view, or a guest of one.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.host.store.with(|node| node.is_ready())
    }

    /// How the mesh stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let now = self.host.clock.now();
        self.host.store.with(|node| node.standing(now))
    }

    /// Whether peers agree that this node's clock is off.
    #[must_use]
    pub fn is_clock_off(&self) -> bool {
        let now = self.host.clock.now();
        self.host.store.with(|node| node.is_outlier(node.mesh_time(now)))
    }

    /// Every peer that this node knows of, in the order of their names, without itself.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let mut peers = self.host.peers();
        let held = self.host.store.rights_held(self.host.clock.now());
        for peer in &mut peers {
            peer.rights_held = held.get(&peer.name).copied().unwrap_or(0);
        }
        peers
    }

    /// The same without what they hold, for which every counter would be looked at.
    #[must_use]
    pub fn contacts(&self) -> Vec<Peer> {
        self.host.peers()
    }

    /// The last rounds in which peers were told anything.
    #[must_use]
    pub fn rounds(&self) -> Rounds {
        *lock(&self.host.rounds)
    }

    /// That none of the peers which the configuration names was ever met, and why: then this node counts alone,
    /// and so may each of them.
    #[must_use]
    pub fn unmet(&self) -> Option<Unmet> {
        self.host.unmet()
    }

    /// Callers that were refused: without a certificate, with one of another CA, of another mesh, too slow, or too many.
    #[must_use]
    pub fn callers_refused(&self) -> u64 {
        self.host.door.refused()
    }

    /// Until when the certificates are good.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        self.host.identity.certificates()
    }

    /// Reads the certificate and the CA again; says whether they are others. It is done every few seconds anyway.
    ///
    /// # Errors
    /// If the files cannot be used; then everything stays as it was.
    pub fn reload_identity(&self) -> Result<bool, IdentityError> {
        self.host.reload_identity()
    }

    /// This node goes by other rules from now on, or by these from the start: equal rules have equal
    /// fingerprints on all nodes.
    pub fn rules_loaded(&self, fingerprint: u32) {
        let now = self.host.clock.now();
        self.host.store.with(|node| node.reload(fingerprint, now));
    }

    /// An operator says that a peer does not come back: the next view is without it.
    ///
    /// # Errors
    /// If that cannot be: it is this node, it was heard lately, or nobody has that name.
    pub fn give_up(&self, peer: &NodeId) -> Result<GivenUp, NotGivenUp> {
        let now = self.host.clock.now();
        self.host.store.with(|node| node.give_up_peer(peer, now))
    }

    /// Leaves, and serves on: the next view is without this node. Returns once what it held is given back, or
    /// when `patience` is over; says which. From then on it is a guest of those who stay, and asks them.
    pub async fn withdraw(&self, patience: Duration) -> bool {
        self.host.store.with(Node::leave);
        let gone = async {
            let mut ticks = every(TICK);
            while !self.host.store.with(|node| node.has_left(self.now())) {
                ticks.tick().await;
            }
        };
        let has_left = timeout(patience, gone).await.is_ok();
        if !has_left && !patience.is_zero() {
            tracing::warn!("this node leaves the mesh before its peers have agreed to it");
        }
        has_left
    }

    /// Leaves: as [`Mesh::withdraw`], and then its connections end.
    pub async fn leave(&self, patience: Duration) {
        self.withdraw(patience).await;
        self.host.links.list().iter().for_each(|link| link.close());
        self.host.endpoint.close(VarInt::from_u32(0), b"");
        let _ = timeout(LAST_WORDS, self.host.endpoint.wait_idle()).await;
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
    }

    fn now(&self) -> Timestamp {
        self.host.clock.now()
    }
}

impl std::fmt::Debug for PeerStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PeerStore(..)")
    }
}

impl PeerStore {
    /// Looks at counters as their owners have them: what all nodes may still admit, and who holds how much of that.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, StoreError};
    /// # use hivemind_mesh_net::PeerStore;
    /// /// What is left of one counter, at all nodes together.
    /// async fn left(store: &PeerStore, charge: Charge<'_>, context: Context) -> Result<Option<u64>, StoreError> {
    ///     let sights = store.look(&[charge], context).await?;
    ///     Ok(sights.first().map(|sight| sight.verdict.remaining))
    /// }
    /// ```
    ///
    /// # Errors
    /// If an owner cannot be asked, or has not answered: nobody knows then.
    pub async fn look(&self, batch: &[Charge<'_>], context: Context) -> Result<Vec<Sight>, StoreError> {
        self.0.look(batch, context).await
    }

    /// Gives back to counters as their owners have them.
    ///
    /// # Errors
    /// If an owner cannot be asked, or has not answered: nobody knows then.
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

/// One port for both kinds of sockets: a free one may be free for the one kind only.
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
