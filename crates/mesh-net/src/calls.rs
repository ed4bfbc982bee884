//! Whom this node calls, and how: by datagrams first, and by TCP where they do not get through.

use super::greeting::{self, Refusal};
use super::hello::Hello;
use super::host::{Host, every};
use super::identity;
use super::link::{Began, Transport};
use super::lock;
use super::message::{self, Kind};
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

/// How often it is looked at whom to call.
const DIAL: Duration = Duration::from_millis(100);

impl Host {
    /// Calls whoever is known and not connected, for ever.
    pub(super) async fn dial_all(self: Arc<Self>) {
        let mut again = every(DIAL);
        let mut calls = JoinSet::new();
        loop {
            again.tick().await;
            while calls.try_join_next().is_some() {}
            let now = self.clock.now();
            // Those that are connected first: they lose a peer, where others do not win one yet.
            for link in self.links.list() {
                let party = &link.party;
                let Ok(place) = Arc::clone(&self.calls).try_acquire_owned() else { break };
                let mut dialer = lock(&self.dialer);
                if link.distrusted_for().is_some() && dialer.is_due(party.address, now) {
                    calls.spawn(Arc::clone(&self).call(party.address, true, place));
                } else if party.transport() == Transport::Tcp
                    && dialer.datagrams_are_due(party.address, party.since, now)
                {
                    calls.spawn(Arc::clone(&self).try_datagrams(party.address, place));
                }
            }
            let (targets, places) = (self.targets(), self.calls.available_permits());
            let due = lock(&self.dialer).due(targets, places, now);
            for address in due {
                match Arc::clone(&self.calls).try_acquire_owned() {
                    Ok(place) => drop(calls.spawn(Arc::clone(&self).call(address, false, place))),
                    Err(_) => {
                        self.call_failed(address);
                    }
                }
            }
        }
    }

    /// A call came to nothing. Says whether somebody else than multicast names the address.
    pub(super) fn call_failed(&self, address: SocketAddr) -> bool {
        let is_named = self.lookout.named().contains(&address)
            || lock(&self.roster).addresses().any(|known| known == address);
        lock(&self.dialer).failed(address, self.clock.now(), !is_named);
        is_named
    }

    /// Tries datagrams to a peer that is reached by TCP: a connection by them takes the other's place.
    async fn try_datagrams(self: Arc<Self>, address: SocketAddr, place: OwnedSemaphorePermit) {
        let reached = greeting::in_time(self.reach_by_quic(address, false)).await;
        drop(place);
        let now = self.clock.now();
        match reached {
            Ok(session) => {
                let name = session.theirs.member.id.clone();
                lock(&self.dialer).answered_by(address, name, now, false);
                lock(&self.dialer).reached_by(address, Transport::Quic);
                self.serve(session).await;
            }
            Err(_) => lock(&self.dialer).datagrams_failed(address, now),
        }
    }

    /// Addresses at which there may be a peer that is not connected, and whether only multicast names them.
    fn targets(&self) -> BTreeMap<SocketAddr, bool> {
        let announced = self.lookout.announced().into_iter().map(|address| (address, true));
        let mut targets: BTreeMap<SocketAddr, bool> = announced.collect();
        targets.extend(self.lookout.named().into_iter().map(|address| (address, false)));
        targets.extend(lock(&self.roster).addresses().map(|address| (address, false)));
        lock(&self.dialer).keep_only(|address| targets.contains_key(address));
        for link in self.links.list() {
            targets.remove(&link.party.address);
        }
        // A node may be known by other addresses than the one that it gives.
        let known = lock(&self.dialer);
        targets.retain(|address, _| {
            known.answered(*address).is_none_or(|(_, name)| self.links.get(&name).is_none())
        });
        targets
    }

    /// Calls an address, and serves the connection until it ends.
    async fn call(self: Arc<Self>, address: SocketAddr, renews: bool, place: OwnedSemaphorePermit) {
        let called = self.reach(address, renews).await;
        drop(place);
        let now = self.clock.now();
        match called {
            Ok(session) => {
                let name = session.theirs.member.id.clone();
                lock(&self.dialer).answered_by(address, name, now, false);
                lock(&self.dialer).reached_by(address, session.transport());
                self.serve(session).await;
            }
            Err(Refusal::Itself) => lock(&self.dialer).answered_by(address, self.name.clone(), now, true),
            Err(refusal) => self.call_was_refused(address, &refusal),
        }
    }

    fn call_was_refused(&self, address: SocketAddr, refusal: &Refusal) {
        let is_named = self.call_failed(address);
        if let Refusal::SameName(other) = refusal {
            self.hear_of_namesake(other.generation);
        }
        // Anybody on the local network can announce addresses without end: those are not worth a line each.
        if lock(&self.dialer).failed_because(address, &refusal.to_string()) && is_named {
            let remedy = refusal.remedy();
            tracing::warn!(%address, %refusal, remedy, "a peer cannot be reached: it is called again and again");
        } else {
            tracing::debug!(%address, %refusal, "a peer cannot be reached");
        }
    }

    async fn reach(&self, address: SocketAddr, renews: bool) -> Result<Session, Refusal> {
        let by_quic = greeting::in_time(self.reach_by_quic(address, renews));
        tokio::pin!(by_quic);
        let head_start = lock(&self.dialer).head_start(address);
        match timeout(head_start, &mut by_quic).await {
            Ok(Err(Refusal::Lost(_))) => return greeting::in_time(self.reach_by_tcp(address, renews)).await,
            Ok(ended) => return ended,
            Err(_) => {}
        }
        let by_tcp = greeting::in_time(self.reach_by_tcp(address, renews));
        tokio::pin!(by_tcp);
        // Whichever comes first, and the other one where that fails: a call that has ended is not waited for again.
        tokio::select! {
            met = &mut by_quic => match met {
                Ok(session) => Ok(session),
                Err(refusal) => by_tcp.await.map_err(|by_tcp| refusal.or_by_tcp(by_tcp)),
            },
            met = &mut by_tcp => match met {
                Ok(session) => Ok(session),
                Err(by_tcp) => by_quic.await.map_err(|refusal| refusal.or_by_tcp(by_tcp)),
            },
        }
    }

    async fn reach_by_quic(&self, address: SocketAddr, renews: bool) -> Result<Session, Refusal> {
        let connection = quic::dial(&self.endpoint, address).await?;
        let mut streams = quic::open(&connection).await?;
        let (reads, writes) = &mut streams.main;
        let chain = quic::chain(&connection);
        let expected = self.expected(address).filter(|hello| {
            chain.first().is_some_and(|certificate| identity::is_for(certificate, &hello.member.id))
        });
        let is_greeted = expected.is_none();
        let theirs = match expected {
            // A connection to this very peer broke: what it says is heard when it comes.
            Some(theirs) => {
                message::write(writes, Kind::Hello, &self.hello(renews).write()).await?;
                theirs
            }
            None => greeting::call((reads, writes), &self.hello(renews), &chain).await?,
        };
        let (asks_in, mut asks_out) = quic::open(&connection).await?.main;
        // A stream is there for the other side once something was said on it.
        message::write(&mut asks_out, Kind::Ask, &[]).await?;
        streams.asks = Some((asks_in, asks_out));
        let (remote, quic) = (address, Some(connection));
        Ok(Session { theirs, streams, began: Began::Here, renews, remote, chain, quic, is_greeted })
    }

    /// Whom this node expects at an address: the peer that answered there last, if no call has failed since.
    fn expected(&self, address: SocketAddr) -> Option<Hello> {
        let name = lock(&self.dialer).expected(address)?;
        let roster = lock(&self.roster);
        let (_, contact) = roster.iter().find(|(known, _)| **known == name)?;
        let (address, port) = (Some(contact.address.ip()), contact.address.port());
        let member = Member { id: name, generation: contact.generation };
        Some(Hello { cluster: self.cluster.clone(), member, address, port, renews: false })
    }

    async fn reach_by_tcp(&self, address: SocketAddr, renews: bool) -> Result<Session, Refusal> {
        let tcp::Connected { mut streams, chain } = tcp::dial(Arc::clone(&self.tcp_client), address).await?;
        let (reads, writes) = &mut streams.main;
        let theirs = greeting::call((reads, writes), &self.hello(renews), &chain).await?;
        Ok(Session {
            theirs,
            streams,
            began: Began::Here,
            renews,
            remote: address,
            chain,
            quic: None,
            is_greeted: true,
        })
    }
}
