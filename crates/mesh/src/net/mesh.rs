//! A node that runs: its sockets, its connections, and the ticks of its state machine.

use super::dialer::Dialer;
use super::discovery::{self, Discovery};
use super::greeting::{self, Refusal};
use super::hello::Hello;
use super::identity::{Identity, IdentityError, TlsFiles};
use super::link::{Began, Link, Streams, Transport};
use super::links::{Admission, Links};
use super::message::{self, Kind};
use super::quic::{self, EndpointError};
use super::roster::Roster;
use super::tcp;
use crate::member::Member;
use crate::node::{Node, Standing};
use crate::options::MeshOptions;
use crate::owner::NodeId;
use crate::store::MeshStore;
use hivemind_core::{Clock, Timestamp};
use quinn::{Connection, Endpoint, VarInt};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// How often the state machine is told the time.
const TICK: Duration = Duration::from_millis(5);
/// How often it is looked at whom to call.
const DIAL: Duration = Duration::from_millis(100);
/// How often peers are told who else there is.
const ROSTER: Duration = Duration::from_secs(1);
/// How long datagrams have before TCP is tried as well.
const HEAD_START: Duration = Duration::from_millis(700);
/// Handshakes of strangers that may be under way at one time.
const HANDSHAKES: usize = 128;

/// What a node of the mesh is told.
#[derive(Clone, Debug)]
pub struct MeshSettings {
    /// Its name, for which its certificate is.
    pub name: NodeId,
    /// The name of the mesh; peers of others are not spoken to.
    pub cluster: String,
    /// Where it listens, for datagrams and for TCP.
    pub bind: SocketAddr,
    /// The address at which peers can call it; none is the one that they see it call from.
    pub advertise: Option<IpAddr>,
    /// `host:port` of peers; each is looked up again and again, and may stand for many.
    pub peers: Vec<String>,
    /// The most peers.
    pub max_peers: usize,
    /// Its certificate and the CA.
    pub tls: TlsFiles,
    /// How limits are shared.
    pub options: MeshOptions,
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

/// One peer, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Its name.
    pub name: NodeId,
    /// Where it can be called.
    pub address: SocketAddr,
    /// The number of its run.
    pub generation: u64,
    /// How it is reached; none while it is not.
    pub transport: Option<Transport>,
    /// How long a packet takes there and back, where that is known.
    pub round_trip: Option<Duration>,
    /// Bytes from it and to it over this connection.
    pub bytes: (u64, u64),
    /// Frames that found the queue to it full.
    pub lost: u64,
}

/// A node that runs.
#[derive(Debug)]
pub struct Mesh {
    inner: Arc<Inner>,
    tasks: JoinSet<()>,
    address: SocketAddr,
}

struct Inner {
    me: Member,
    hello: Hello,
    identity: Arc<Identity>,
    endpoint: Endpoint,
    links: Arc<Links>,
    roster: Mutex<Roster>,
    dialer: Mutex<Dialer>,
    discovery: Discovery,
    discovered: Mutex<BTreeSet<SocketAddr>>,
    store: Arc<MeshStore<Arc<Links>>>,
    clock: Arc<dyn Clock>,
    handshakes: Arc<Semaphore>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Mesh {
    /// Starts a node. It finds its peers by itself from here on.
    ///
    /// # Errors
    /// If it cannot listen, or has no certificate that its peers would believe.
    pub async fn start(settings: MeshSettings, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let now = clock.now();
        let identity = Arc::new(Identity::load(settings.tls, settings.name.clone(), unix(now))?);
        let unbound = |cause| StartError::Bind { address: settings.bind, cause };
        let (listener, socket) = listen(settings.bind).await.map_err(unbound)?;
        let address = socket.local_addr().map_err(unbound)?;
        let endpoint = quic::endpoint(socket, &identity)?;
        let me = Member::new(settings.name.clone(), now.as_nanos());
        let mut node = Node::new(settings.name.clone(), now.as_nanos(), settings.options, now);
        if settings.peers.is_empty() {
            node.found(now);
        }
        let links = Arc::new(Links::new(me.clone(), settings.max_peers));
        let advertise = settings.advertise.or_else(|| Some(address.ip()).filter(|ip| !ip.is_unspecified()));
        let hello =
            Hello { cluster: settings.cluster, member: me.clone(), address: advertise, port: address.port() };
        let inner = Arc::new(Inner {
            hello,
            endpoint,
            roster: Mutex::new(Roster::new(settings.name, settings.max_peers)),
            dialer: Mutex::new(Dialer::new(me.generation.0)),
            discovery: Discovery { names: settings.peers },
            discovered: Mutex::default(),
            store: Arc::new(MeshStore::new(node, Arc::clone(&links))),
            links,
            me,
            clock,
            handshakes: Arc::new(Semaphore::new(HANDSHAKES)),
            identity,
        });
        let server = Arc::new(inner.identity.server()?);
        let client = Arc::new(inner.identity.client()?);
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&inner).tick());
        tasks.spawn(Arc::clone(&inner).accept_quic());
        tasks.spawn(Arc::clone(&inner).accept_tcp(listener, server));
        tasks.spawn(Arc::clone(&inner).look_up());
        tasks.spawn(Arc::clone(&inner).dial_all(client));
        tasks.spawn(Arc::clone(&inner).spread_roster());
        Ok(Self { inner, tasks, address })
    }

    /// The counters that it shares.
    #[must_use]
    pub fn store(&self) -> Arc<impl hivemind_core::store::Store + use<>> {
        Arc::clone(&self.inner.store)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it may serve: it is in the view, or a guest of one.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.inner.store.with(|node| node.is_ready())
    }

    /// How the mesh stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let now = self.inner.clock.now();
        self.inner.store.with(|node| node.standing(now))
    }

    /// Every peer that this node knows of.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let roster = self.inner.roster.lock().unwrap_or_else(PoisonError::into_inner);
        roster
            .iter()
            .map(|(name, contact)| {
                let link = self.inner.links.get(name);
                let bytes = |link: &Arc<Link>| (link.bytes_in.load(Relaxed), link.bytes_out.load(Relaxed));
                Peer {
                    name: name.clone(),
                    address: contact.address,
                    generation: contact.generation.0,
                    transport: link.as_ref().map(|link| link.transport),
                    round_trip: link.as_ref().and_then(|link| link.quic.as_ref()).map(Connection::rtt),
                    bytes: link.as_ref().map_or((0, 0), bytes),
                    lost: link.as_ref().map_or(0, |link| link.lost.load(Relaxed)),
                }
            })
            .collect()
    }

    /// Reads the certificate and the CA again. Connections stay as they are.
    ///
    /// # Errors
    /// As [`Identity::load`]; then everything stays as it was.
    pub fn reload_identity(&self) -> Result<bool, IdentityError> {
        self.inner.identity.reload(unix(self.inner.clock.now()))
    }

    /// Leaves: the next view is without this node. Returns once what it held is given back, or when
    /// `patience` is over.
    pub async fn leave(mut self, patience: Duration) {
        self.inner.store.with(Node::leave);
        let clock = Arc::clone(&self.inner.clock);
        let store = Arc::clone(&self.inner.store);
        let gone = async {
            let mut ticks = interval(TICK);
            while !store.with(|node| node.has_left(clock.now())) {
                ticks.tick().await;
            }
        };
        let _ = tokio::time::timeout(patience, gone).await;
        self.inner.links.list().iter().for_each(|link| link.close());
        self.inner.endpoint.close(VarInt::from_u32(0), b"");
        self.tasks.shutdown().await;
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

fn unix(now: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_nanos(now.as_nanos()))
}

impl Inner {
    async fn tick(self: Arc<Self>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.store.on_tick(self.clock.now());
        }
    }

    async fn accept_quic(self: Arc<Self>) {
        let mut connections = JoinSet::new();
        while let Some(incoming) = self.endpoint.accept().await {
            while connections.try_join_next().is_some() {}
            // An address that was made up never answers: ask for an answer before anything is done for it.
            if !incoming.remote_address_validated() {
                let _ = incoming.retry();
                continue;
            }
            let Ok(permit) = Arc::clone(&self.handshakes).try_acquire_owned() else {
                incoming.refuse();
                continue;
            };
            let inner = Arc::clone(&self);
            connections.spawn(async move {
                let remote = incoming.remote_address();
                let taken = async {
                    let connecting = incoming.accept().map_err(io::Error::other)?;
                    let shaken = tokio::time::timeout(greeting::PATIENCE, connecting).await;
                    let connection =
                        shaken.map_err(|_| Refusal::Late(greeting::PATIENCE))?.map_err(io::Error::other)?;
                    let streams = quic::accept(&connection).await?;
                    inner.take(streams, quic::certificate(&connection), remote, Some(connection)).await
                };
                let taken = taken.await;
                drop(permit);
                inner.serve(taken, remote).await;
            });
        }
    }

    async fn accept_tcp(self: Arc<Self>, listener: TcpListener, config: Arc<rustls::ServerConfig>) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((stream, remote)) = listener.accept().await else {
                // No descriptors: others will be free again.
                tokio::task::yield_now().await;
                continue;
            };
            let Ok(permit) = Arc::clone(&self.handshakes).try_acquire_owned() else { continue };
            let (inner, config) = (Arc::clone(&self), Arc::clone(&config));
            connections.spawn(async move {
                let taken = async {
                    let connected = tcp::accept(config, stream).await?;
                    inner.take(connected.streams, connected.certificate, remote, None).await
                };
                let taken = taken.await;
                drop(permit);
                inner.serve(taken, remote).await;
            });
        }
    }

    /// Hears out whoever called.
    async fn take(
        &self,
        mut streams: Streams,
        certificate: Option<CertificateDer<'static>>,
        remote: SocketAddr,
        quic: Option<Connection>,
    ) -> Result<(Hello, Streams, Began, SocketAddr, Option<Connection>), Refusal> {
        let (reads, writes) = &mut streams.main;
        let theirs = greeting::answer((reads, writes), &self.hello, certificate.as_ref()).await?;
        if let Some(connection) = &quic {
            streams.asks = Some(quic::accept(connection).await?.main);
        }
        Ok((theirs, streams, Began::There, remote, quic))
    }

    /// Serves a connection until it ends.
    async fn serve(
        &self,
        taken: Result<(Hello, Streams, Began, SocketAddr, Option<Connection>), Refusal>,
        remote: SocketAddr,
    ) {
        let (theirs, streams, began, remote, quic) = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                tracing::debug!(%remote, %refusal, "a caller is no peer");
                return;
            }
        };
        self.run(theirs, streams, began, remote, quic).await;
    }

    async fn run(
        &self,
        theirs: Hello,
        streams: Streams,
        began: Began,
        remote: SocketAddr,
        quic: Option<Connection>,
    ) {
        let address = theirs.reachable_at(remote);
        let transport = if quic.is_some() { Transport::Quic } else { Transport::Tcp };
        let peer = theirs.member;
        let (link, queues) = Link::new(peer.clone(), address, transport, began, quic.clone());
        let link = Arc::new(link);
        match self.links.admit(&link) {
            Admission::Admitted => {}
            Admission::Redundant => return close(quic.as_ref()),
            Admission::Full => {
                tracing::warn!(peer = %peer.id, "there are more peers than `mesh.max_peers`: this one is left out");
                return close(quic.as_ref());
            }
        }
        let now = self.clock.now();
        self.roster.lock().unwrap_or_else(PoisonError::into_inner).learn(&peer, address, now);
        self.store.with(|node| node.meet(peer.id.clone()));
        tracing::info!(peer = %peer.id, %address, ?transport, "a peer is connected");
        link.send_roster(&self.roster.lock().unwrap_or_else(PoisonError::into_inner).write(now));
        let ended = link.run(streams, queues, |kind, body| self.hear(&peer, kind, body)).await;
        close(quic.as_ref());
        if self.links.remove(&link) {
            let why = ended.err().map(|error| error.to_string()).unwrap_or_default();
            tracing::info!(peer = %peer.id, %address, why, "the connection to a peer has ended");
        }
    }

    fn hear(&self, peer: &Member, kind: Kind, body: &[u8]) {
        let now = self.clock.now();
        match kind {
            Kind::Ask | Kind::Sync if body.is_empty() => {}
            Kind::Ask | Kind::Sync => self.store.on_frame(now, &peer.id, body),
            Kind::Roster => {
                let mut roster = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
                if roster.read(body, now).is_err() {
                    tracing::debug!(peer = %peer.id, "a roster cannot be read");
                }
            }
            Kind::Hello => {}
        }
    }

    async fn look_up(self: Arc<Self>) {
        let mut again = interval(discovery::AGAIN);
        loop {
            again.tick().await;
            let (found, is_whole) = self.discovery.look_up().await;
            let mut discovered = self.discovered.lock().unwrap_or_else(PoisonError::into_inner);
            // What could not be looked up is not gone.
            if is_whole {
                *discovered = found;
            } else {
                discovered.extend(found);
            }
        }
    }

    async fn spread_roster(self: Arc<Self>) {
        let mut again = interval(ROSTER);
        loop {
            again.tick().await;
            let now = self.clock.now();
            let (links, told) = {
                let mut roster = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
                let links = self.links.list();
                for link in &links {
                    roster.learn(&link.peer, link.address, now);
                }
                roster.forget_old(now);
                (links, roster.write(now))
            };
            links.iter().for_each(|link| link.send_roster(&told));
        }
    }

    async fn dial_all(self: Arc<Self>, config: Arc<rustls::ClientConfig>) {
        let mut again = interval(DIAL);
        let mut calls = JoinSet::new();
        loop {
            again.tick().await;
            while calls.try_join_next().is_some() {}
            let now = self.clock.now();
            for address in self.targets() {
                let mut dialer = self.dialer.lock().unwrap_or_else(PoisonError::into_inner);
                if dialer.is_due(address, now) {
                    calls.spawn(Arc::clone(&self).call(address, Arc::clone(&config)));
                }
            }
        }
    }

    /// Addresses at which there may be a peer that is not connected.
    fn targets(&self) -> BTreeSet<SocketAddr> {
        let mut targets = self.discovered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let roster = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
        targets.extend(roster.iter().map(|(_, contact)| contact.address));
        self.dialer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keep_only(|address| targets.contains(address));
        for link in self.links.list() {
            targets.remove(&link.address);
        }
        targets
    }

    /// Calls an address, by datagrams first, and serves the connection until it ends.
    async fn call(self: Arc<Self>, address: SocketAddr, config: Arc<rustls::ClientConfig>) {
        let called = self.reach(address, config).await;
        let now = self.clock.now();
        {
            let mut dialer = self.dialer.lock().unwrap_or_else(PoisonError::into_inner);
            match &called {
                Ok(_) => dialer.succeeded(address, now),
                Err(Refusal::Itself) => dialer.is_itself(address, now),
                Err(_) => dialer.failed(address, now),
            }
        }
        match called {
            Ok((theirs, streams, quic)) => {
                self.run(theirs, streams, Began::Here, address, quic).await;
            }
            Err(Refusal::Itself) => {}
            Err(refusal @ (Refusal::OtherCluster { .. } | Refusal::OtherName(_))) => {
                tracing::warn!(%address, %refusal, "what answers there is no peer");
            }
            Err(refusal) => tracing::debug!(%address, %refusal, "a peer cannot be reached"),
        }
    }

    async fn reach(
        &self,
        address: SocketAddr,
        config: Arc<rustls::ClientConfig>,
    ) -> Result<(Hello, Streams, Option<Connection>), Refusal> {
        let by_quic = async {
            let connection = quic::dial(&self.endpoint, address).await?;
            let mut streams = quic::open(&connection).await?;
            let (reads, writes) = &mut streams.main;
            let certificate = quic::certificate(&connection);
            let theirs = greeting::call((reads, writes), &self.hello, certificate.as_ref()).await?;
            let (asks_in, mut asks_out) = quic::open(&connection).await?.main;
            // A stream is there for the other side once something was said on it.
            message::write(&mut asks_out, Kind::Ask, &[]).await?;
            streams.asks = Some((asks_in, asks_out));
            Ok((theirs, streams, Some(connection)))
        };
        let by_tcp = async {
            let connected = tcp::dial(config, address).await?;
            let mut streams = connected.streams;
            let (reads, writes) = &mut streams.main;
            let theirs = greeting::call((reads, writes), &self.hello, connected.certificate.as_ref()).await?;
            Ok((theirs, streams, None))
        };
        tokio::pin!(by_quic);
        match tokio::time::timeout(HEAD_START, &mut by_quic).await {
            Ok(Err(Refusal::Lost(_))) => return by_tcp.await,
            Ok(ended) => return ended,
            Err(_) => {}
        }
        tokio::pin!(by_tcp);
        tokio::select! {
            Ok(quic) = &mut by_quic => Ok(quic),
            tcp = &mut by_tcp => match tcp {
                Ok(tcp) => Ok(tcp),
                Err(_) => by_quic.await,
            },
        }
    }
}

fn close(quic: Option<&Connection>) {
    if let Some(connection) = quic {
        connection.close(VarInt::from_u32(0), b"");
    }
}
