//! Outbound connections: dials peers that are not connected, over QUIC first and over TCP where QUIC fails.

use super::context::{NodeContext, every};
use super::handshake::{self, HandshakeFailure, Hello};
use super::identity;
use super::link::{Initiator, Transport};
use super::lock;
use super::message::{self, MessageKind};
use super::quic;
use super::session::Session;
use super::tcp;
use hivemind_mesh::Member;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Interval of checks for due dials.
const DIAL_INTERVAL: Duration = Duration::from_millis(100);

impl NodeContext {
    /// Dials known peers that are not connected, until shutdown.
    pub(super) async fn run_dialer(self: Arc<Self>) {
        let mut ticks = every(DIAL_INTERVAL);
        let mut dials = JoinSet::new();
        loop {
            ticks.tick().await;
            while dials.try_join_next().is_some() {}
            let now = self.clock.now();
            // Renewals come first: without one a connected peer is lost, and a new peer can wait.
            for link in self.links.list() {
                let peer = &link.peer;
                let Ok(permit) = Arc::clone(&self.dial_permits).try_acquire_owned() else { break };
                let mut schedule = lock(&self.dial_schedule);
                if link.distrusted_for().is_some() && schedule.start_dial(peer.address, now) {
                    dials.spawn(Arc::clone(&self).dial(peer.address, true, permit));
                } else if peer.transport() == Transport::Tcp
                    && schedule.start_quic_retry(peer.address, peer.since, now)
                {
                    dials.spawn(Arc::clone(&self).upgrade_to_quic(peer.address, permit));
                }
            }
            let (targets, permits) = (self.dial_targets(), self.dial_permits.available_permits());
            let due = lock(&self.dial_schedule).start_dials(targets, permits, now);
            for address in due {
                match Arc::clone(&self.dial_permits).try_acquire_owned() {
                    Ok(permit) => drop(dials.spawn(Arc::clone(&self).dial(address, false, permit))),
                    Err(_) => {
                        self.record_dial_failure(address);
                    }
                }
            }
        }
    }

    /// Records a failed dial. Returns whether a source other than multicast names the address.
    pub(super) fn record_dial_failure(&self, address: SocketAddr) -> bool {
        let is_named = self.lookups.named().contains(&address)
            || lock(&self.peer_table).addresses().any(|known| known == address);
        lock(&self.dial_schedule).record_failure(address, self.clock.now(), !is_named);
        is_named
    }

    /// Dials a peer that is connected over TCP. A QUIC connection replaces the TCP connection.
    async fn upgrade_to_quic(self: Arc<Self>, address: SocketAddr, permit: OwnedSemaphorePermit) {
        let result = handshake::with_timeout(self.connect_quic(address, false)).await;
        drop(permit);
        let now = self.clock.now();
        match result {
            Ok(session) => {
                let name = session.theirs.member.id.clone();
                lock(&self.dial_schedule).record_answer(address, name, now, false);
                lock(&self.dial_schedule).record_transport(address, Transport::Quic);
                self.serve(session).await;
            }
            Err(_) => lock(&self.dial_schedule).record_quic_failure(address, now),
        }
    }

    /// Addresses of peers that are not connected, and whether they are known by multicast only.
    fn dial_targets(&self) -> BTreeMap<SocketAddr, bool> {
        let announced = self.lookups.announced().into_iter().map(|address| (address, true));
        let mut targets: BTreeMap<SocketAddr, bool> = announced.collect();
        targets.extend(self.lookups.named().into_iter().map(|address| (address, false)));
        targets.extend(lock(&self.peer_table).addresses().map(|address| (address, false)));
        lock(&self.dial_schedule).retain(|address| targets.contains_key(address));
        for link in self.links.list() {
            targets.remove(&link.peer.address);
        }
        // A connected node may answer at other addresses than the one it advertises.
        let schedule = lock(&self.dial_schedule);
        targets.retain(|address, _| {
            schedule.last_answer(*address).is_none_or(|(_, name)| self.links.get(&name).is_none())
        });
        targets
    }

    /// Dials an address and serves the connection until it ends.
    async fn dial(self: Arc<Self>, address: SocketAddr, renews: bool, permit: OwnedSemaphorePermit) {
        let result = self.connect(address, renews).await;
        drop(permit);
        let now = self.clock.now();
        match result {
            Ok(session) => {
                let name = session.theirs.member.id.clone();
                lock(&self.dial_schedule).record_answer(address, name, now, false);
                lock(&self.dial_schedule).record_transport(address, session.transport());
                self.serve(session).await;
            }
            Err(HandshakeFailure::SelfConnection) => {
                lock(&self.dial_schedule).record_answer(address, self.name.clone(), now, true);
            }
            Err(refusal) => self.handle_dial_failure(address, &refusal),
        }
    }

    fn handle_dial_failure(&self, address: SocketAddr, refusal: &HandshakeFailure) {
        let is_named = self.record_dial_failure(address);
        if let HandshakeFailure::DuplicateName(other) = refusal {
            self.handle_namesake(other.generation);
        }
        // Any host on the local network can announce any number of addresses; those are not worth a warning each.
        if lock(&self.dial_schedule).record_reason(address, &refusal.to_string()) && is_named {
            let remedy = refusal.remedy();
            tracing::warn!(%address, %refusal, remedy, "peer unreachable; retrying");
        } else {
            tracing::debug!(%address, %refusal, "peer unreachable");
        }
    }

    async fn connect(&self, address: SocketAddr, renews: bool) -> Result<Session, HandshakeFailure> {
        let quic = handshake::with_timeout(self.connect_quic(address, renews));
        tokio::pin!(quic);
        let head_start = lock(&self.dial_schedule).head_start(address);
        match timeout(head_start, &mut quic).await {
            Ok(Err(HandshakeFailure::Io(_))) => {
                return handshake::with_timeout(self.connect_tcp(address, renews)).await;
            }
            Ok(result) => return result,
            Err(_) => {}
        }
        let tcp = handshake::with_timeout(self.connect_tcp(address, renews));
        tokio::pin!(tcp);
        // The first success wins. A completed future is not polled again.
        tokio::select! {
            result = &mut quic => match result {
                Ok(session) => Ok(session),
                Err(refusal) => tcp.await.map_err(|over_tcp| refusal.or_over_tcp(over_tcp)),
            },
            result = &mut tcp => match result {
                Ok(session) => Ok(session),
                Err(over_tcp) => quic.await.map_err(|refusal| refusal.or_over_tcp(over_tcp)),
            },
        }
    }

    async fn connect_quic(&self, address: SocketAddr, renews: bool) -> Result<Session, HandshakeFailure> {
        let connection = quic::dial(&self.endpoint, address).await?;
        let mut streams = quic::open(&connection).await?;
        let (reads, writes) = &mut streams.main;
        let chain = quic::chain(&connection);
        let expected = self.expected_hello(address).filter(|hello| {
            chain.first().is_some_and(|certificate| identity::is_for(certificate, &hello.member.id))
        });
        let has_hello = expected.is_none();
        let theirs = match expected {
            // Reconnects to a known peer: frames do not wait for its hello.
            Some(theirs) => {
                message::write(writes, MessageKind::Hello, &self.hello(renews).write()).await?;
                theirs
            }
            None => handshake::initiate((reads, writes), &self.hello(renews), &chain).await?,
        };
        let (asks_in, mut asks_out) = quic::open(&connection).await?.main;
        // The peer learns of a stream with its first bytes.
        message::write(&mut asks_out, MessageKind::Ask, &[]).await?;
        streams.asks = Some((asks_in, asks_out));
        let (initiator, remote, quic) = (Initiator::Local, address, Some(connection));
        Ok(Session { theirs, streams, initiator, renews, remote, chain, quic, has_hello })
    }

    /// The expected hello of the peer that answered last at an address, if no dial has failed since.
    fn expected_hello(&self, address: SocketAddr) -> Option<Hello> {
        let name = lock(&self.dial_schedule).expected_peer(address)?;
        let peer_table = lock(&self.peer_table);
        let (_, contact) = peer_table.iter().find(|(known, _)| **known == name)?;
        let (address, port) = (Some(contact.address.ip()), contact.address.port());
        let member = Member { id: name, generation: contact.generation };
        Some(Hello { cluster: self.cluster.clone(), member, address, port, renews: false })
    }

    async fn connect_tcp(&self, address: SocketAddr, renews: bool) -> Result<Session, HandshakeFailure> {
        let connection = tcp::dial(Arc::clone(&self.tcp_client), address).await?;
        let tcp::TcpConnection { mut streams, chain } = connection;
        let (reads, writes) = &mut streams.main;
        let theirs = handshake::initiate((reads, writes), &self.hello(renews), &chain).await?;
        let (initiator, remote) = (Initiator::Local, address);
        Ok(Session { theirs, streams, initiator, renews, remote, chain, quic: None, has_hello: true })
    }
}
