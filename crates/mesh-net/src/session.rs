//! Session: a connection to a peer from the handshake until it closes.

use super::context::NodeContext;
use super::handshake;
use super::handshake::Hello;
use super::identity;
use super::link::{Initiator, Link, LinkPeer, Streams, Transport};
use super::links::LinkAdmission;
use super::lock;
use super::message::{self, MessageKind};
use hivemind_core::{Clock, MonotonicClock};
use quinn::{Connection, VarInt};
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

/// A connection that ends earlier counts as a failed dial.
const SHORT_LIVED: Duration = Duration::from_millis(200);

/// How long a rejected peer has to read the reason.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection after the handshake.
pub(super) struct Session {
    pub(super) theirs: Hello,
    pub(super) streams: Streams,
    pub(super) initiator: Initiator,
    pub(super) renews: bool,
    pub(super) remote: SocketAddr,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) quic: Option<Connection>,
    /// Whether its hello has arrived. A reconnection does not wait for it, if the certificate is for the expected name.
    pub(super) has_hello: bool,
}

impl Session {
    pub(super) fn transport(&self) -> Transport {
        if self.quic.is_some() { Transport::Quic } else { Transport::Tcp }
    }
}

impl NodeContext {
    /// Serves a connection until it ends, unless another connection to the peer is preferred.
    pub(super) async fn serve(&self, session: Session) {
        let Session { theirs, streams, initiator, renews, remote, chain, quic, has_hello } = session;
        let (now, began_at) = (self.clock.now(), MonotonicClock.now());
        let address = theirs.address_from(remote);
        let member = theirs.member;
        let until = identity::valid_until(&chain);
        let (since, of_quic) = (now, quic.clone());
        let peer = LinkPeer {
            member: member.clone(),
            address,
            initiator,
            renews,
            chain,
            since,
            until,
            quic: of_quic,
        };
        let transport = peer.transport();
        let (link, queues) = Link::new(peer, self.links.traffic(&member.id));
        let link = Arc::new(link);
        match self.links.admit(&link) {
            LinkAdmission::Admitted => {}
            LinkAdmission::Redundant => return close(quic.as_ref()),
            LinkAdmission::Outdated => return self.report_later_generation(streams, quic.as_ref()).await,
            LinkAdmission::Full => {
                self.caller_limits.record_rejection();
                if initiator == Initiator::Local {
                    self.record_dial_failure(remote);
                }
                if self.caller_limits.record_reason(address.ip(), format!("{} exceeds the limit", member.id))
                {
                    tracing::warn!(
                        peer = %member.id, %address,
                        "peer rejected: `mesh.max_peers` peers are connected; raise `mesh.max_peers`"
                    );
                }
                return close(quic.as_ref());
            }
        }
        self.has_connected.store(true, Relaxed);
        lock(&self.peer_table).record_connection(&member, address, now);
        self.store.with(|node| node.meet(member.id.clone()));
        tracing::debug!(peer = %member.id, %address, %transport, "connection to a peer opened");
        if has_hello {
            link.send_gossip(&self.initial_gossip(now));
        }
        let has_hello = AtomicBool::new(has_hello);
        let handle_message = |kind, body: &[u8]| {
            if has_hello.load(Relaxed) {
                self.handle_message(&link, kind, body);
            } else if kind == MessageKind::Hello {
                match handshake::verify_hello(&self.hello(false), body, &link.peer.chain) {
                    Ok(theirs) if theirs.member == member => {
                        has_hello.store(true, Relaxed);
                        link.send_gossip(&self.initial_gossip(self.clock.now()));
                    }
                    // Another generation, whose hello the next dial waits for, or a node of another mesh.
                    _ => link.close(),
                }
            }
        };
        let result = link.run(streams, queues, handle_message).await;
        close(quic.as_ref());
        // A peer that accepts and closes immediately is not dialed again immediately.
        let is_short_lived = MonotonicClock.now().since(began_at) < SHORT_LIVED;
        if initiator == Initiator::Local && (is_short_lived || !has_hello.into_inner()) {
            self.record_dial_failure(remote);
        }
        if self.links.remove(&link) {
            let why = result.err().map(|error| error.to_string()).unwrap_or_default();
            tracing::debug!(peer = %member.id, %address, why, "connection to a peer closed");
            if self.store.with(|node| node.is_leaving(&member.id)) {
                lock(&self.peer_table).record_departure(&member);
                tracing::info!(peer = %member.id, %address, "peer left");
            }
        }
    }

    /// Sends the peer table to an outdated process, so that it learns of the later generation of its name. Without it,
    /// it would found a mesh of its own.
    async fn report_later_generation(&self, mut streams: Streams, quic: Option<&Connection>) {
        let table = lock(&self.peer_table).write(self.clock.now());
        let sending = async {
            let (reads, writes) = &mut streams.main;
            message::write(writes, MessageKind::Gossip, &table).await?;
            writes.shutdown().await?;
            // The peer closes the connection after reading; its messages are ignored.
            tokio::io::copy(reads, &mut tokio::io::sink()).await
        };
        let _ = timeout(CLOSE_TIMEOUT, sending).await;
        close(quic);
    }

    fn handle_message(&self, link: &Link, kind: MessageKind, body: &[u8]) {
        let (peer, now) = (&link.peer.member, self.clock.now());
        match kind {
            MessageKind::Ask | MessageKind::Sync if body.is_empty() => {}
            MessageKind::Ask | MessageKind::Sync => self.store.on_frame(now, &peer.id, body),
            MessageKind::Gossip => {
                let update = lock(&self.peer_table).read(body, now);
                let Ok(update) = update else {
                    return tracing::debug!(peer = %peer.id, "peer table cannot be decoded");
                };
                update.own_generation.into_iter().for_each(|generation| self.handle_namesake(generation));
                let (_, map) = body.split_at_checked(body.len() - update.trailing).unwrap_or_default();
                self.apply_map_message(link, map, now);
            }
            MessageKind::Hello => {}
        }
    }
}

pub(super) fn close(quic: Option<&Connection>) {
    if let Some(connection) = quic {
        connection.close(VarInt::from_u32(0), b"");
    }
}
