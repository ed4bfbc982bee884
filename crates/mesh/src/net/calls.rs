//! Whom this node calls, and how: by datagrams first, and by TCP where they do not get through.

use super::greeting::{self, Refusal};
use super::host::{Host, every};
use super::link::Began;
use super::lock;
use super::message::{self, Kind};
use super::quic;
use super::session::Session;
use super::tcp;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How often it is looked at whom to call.
const DIAL: Duration = Duration::from_millis(100);
/// How long datagrams have before TCP is tried as well.
const HEAD_START: Duration = Duration::from_millis(700);

impl Host {
    /// Calls whoever is known and not connected, for ever.
    pub(super) async fn dial_all(self: Arc<Self>) {
        let mut again = every(DIAL);
        let mut calls = JoinSet::new();
        loop {
            again.tick().await;
            while calls.try_join_next().is_some() {}
            let now = self.clock.now();
            for address in self.targets() {
                if lock(&self.dialer).is_due(address, now) {
                    calls.spawn(Arc::clone(&self).call(address));
                }
            }
        }
    }

    /// Addresses at which there may be a peer that is not connected.
    fn targets(&self) -> BTreeSet<SocketAddr> {
        let mut targets = self.lookout.addresses();
        targets.extend(lock(&self.roster).iter().map(|(_, contact)| contact.address));
        lock(&self.dialer).keep_only(|address| targets.contains(address));
        for link in self.links.list() {
            targets.remove(&link.party.address);
        }
        targets
    }

    /// Calls an address, and serves the connection until it ends.
    async fn call(self: Arc<Self>, address: SocketAddr) {
        let called = self.reach(address).await;
        let now = self.clock.now();
        match &called {
            Ok(_) => lock(&self.dialer).succeeded(address, now),
            Err(Refusal::Itself) => lock(&self.dialer).is_itself(address, now),
            Err(_) => lock(&self.dialer).failed(address, now),
        }
        match called {
            Ok(session) => self.serve(session).await,
            Err(Refusal::Itself) => {}
            Err(refusal @ (Refusal::OtherCluster { .. } | Refusal::OtherName(_))) => {
                tracing::warn!(%address, %refusal, "what answers there is no peer");
            }
            Err(refusal) => tracing::debug!(%address, %refusal, "a peer cannot be reached"),
        }
    }

    async fn reach(&self, address: SocketAddr) -> Result<Session, Refusal> {
        let by_quic = greeting::in_time(self.reach_by_quic(address));
        tokio::pin!(by_quic);
        match timeout(HEAD_START, &mut by_quic).await {
            Ok(Err(Refusal::Lost(_))) => return greeting::in_time(self.reach_by_tcp(address)).await,
            Ok(ended) => return ended,
            Err(_) => {}
        }
        let by_tcp = greeting::in_time(self.reach_by_tcp(address));
        tokio::pin!(by_tcp);
        tokio::select! {
            Ok(session) = &mut by_quic => Ok(session),
            session = &mut by_tcp => match session {
                Ok(session) => Ok(session),
                Err(_) => by_quic.await,
            },
        }
    }

    async fn reach_by_quic(&self, address: SocketAddr) -> Result<Session, Refusal> {
        let connection = quic::dial(&self.endpoint, address).await?;
        let mut streams = quic::open(&connection).await?;
        let (reads, writes) = &mut streams.main;
        let chain = quic::chain(&connection);
        let theirs = greeting::call((reads, writes), &self.hello(), &chain).await?;
        let (asks_in, mut asks_out) = quic::open(&connection).await?.main;
        // A stream is there for the other side once something was said on it.
        message::write(&mut asks_out, Kind::Ask, &[]).await?;
        streams.asks = Some((asks_in, asks_out));
        Ok(Session { theirs, streams, began: Began::Here, remote: address, chain, quic: Some(connection) })
    }

    async fn reach_by_tcp(&self, address: SocketAddr) -> Result<Session, Refusal> {
        let tcp::Connected { mut streams, chain } = tcp::dial(Arc::clone(&self.tcp_client), address).await?;
        let (reads, writes) = &mut streams.main;
        let theirs = greeting::call((reads, writes), &self.hello(), &chain).await?;
        Ok(Session { theirs, streams, began: Began::Here, remote: address, chain, quic: None })
    }
}
