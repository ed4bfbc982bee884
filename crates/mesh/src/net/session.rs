//! A connection on which both sides have said who they are, from its first frame to its last.

use super::hello::Hello;
use super::host::Host;
use super::link::{Began, Link, Party, Streams};
use super::links::Admission;
use super::lock;
use super::message::Kind;
use crate::member::Member;
use quinn::{Connection, VarInt};
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;

/// A connection on which both sides have said who they are.
pub(super) struct Session {
    pub(super) theirs: Hello,
    pub(super) streams: Streams,
    pub(super) began: Began,
    pub(super) remote: SocketAddr,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) quic: Option<Connection>,
}

impl Host {
    /// Serves a connection until it ends, unless there is a better one to the same peer.
    pub(super) async fn serve(&self, session: Session) {
        let Session { theirs, streams, began, remote, chain, quic } = session;
        let now = self.clock.now();
        let address = theirs.reachable_at(remote);
        let member = theirs.member;
        let party = Party { member: member.clone(), address, began, chain, since: now, quic: quic.clone() };
        let transport = party.transport();
        let (link, queues) = Link::new(party, self.links.traffic(&member.id));
        let link = Arc::new(link);
        match self.links.admit(&link) {
            Admission::Admitted => {}
            Admission::Redundant => return close(quic.as_ref()),
            Admission::Full => {
                tracing::warn!(
                    peer = %member.id, %address,
                    "there are more peers than `mesh.max_peers`: this one is left out"
                );
                return close(quic.as_ref());
            }
        }
        lock(&self.roster).learn(&member, address, now);
        self.store.with(|node| node.meet(member.id.clone()));
        tracing::debug!(peer = %member.id, %address, %transport, "a connection to a peer has begun");
        link.send_roster(&lock(&self.roster).write(now));
        let ended = link.run(streams, queues, |kind, body| self.hear(&member, kind, body)).await;
        close(quic.as_ref());
        if self.links.remove(&link) {
            let why = ended.err().map(|error| error.to_string()).unwrap_or_default();
            tracing::debug!(peer = %member.id, %address, why, "the connection to a peer has ended");
            if self.store.with(|node| node.is_leaving(&member.id)) {
                lock(&self.roster).depart(&member);
                tracing::info!(peer = %member.id, %address, "a peer has left");
            }
        }
    }

    fn hear(&self, peer: &Member, kind: Kind, body: &[u8]) {
        let now = self.clock.now();
        match kind {
            Kind::Ask | Kind::Sync if body.is_empty() => {}
            Kind::Ask | Kind::Sync => self.store.on_frame(now, &peer.id, body),
            Kind::Roster => {
                if lock(&self.roster).read(body, now).is_err() {
                    tracing::debug!(peer = %peer.id, "a roster cannot be read");
                }
            }
            Kind::Hello => {}
        }
    }
}

pub(super) fn close(quic: Option<&Connection>) {
    if let Some(connection) = quic {
        connection.close(VarInt::from_u32(0), b"");
    }
}
