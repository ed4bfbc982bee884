//! A connection on which both sides have said who they are, from its first frame to its last.

use super::greeting;
use super::hello::Hello;
use super::host::Host;
use super::identity;
use super::link::{Began, Link, Party, Streams, Transport};
use super::links::Admission;
use super::lock;
use super::message::{self, Kind};
use hivemind_core::{Clock, MonotonicClock};
use quinn::{Connection, VarInt};
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

/// A connection that ends so soon was none.
const SHORT: Duration = Duration::from_millis(200);

/// How long somebody has to hear why it is shown out.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A connection on which both sides have said who they are.
pub(super) struct Session {
    pub(super) theirs: Hello,
    pub(super) streams: Streams,
    pub(super) began: Began,
    pub(super) renews: bool,
    pub(super) remote: SocketAddr,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) quic: Option<Connection>,
    /// Whether it has said its name. Where a connection to a peer broke, the next one does not wait for that: its
    /// certificate is for the name that is expected there.
    pub(super) is_greeted: bool,
}

impl Session {
    pub(super) fn transport(&self) -> Transport {
        if self.quic.is_some() { Transport::Quic } else { Transport::Tcp }
    }
}

impl Host {
    /// Serves a connection until it ends, unless there is a better one to the same peer.
    pub(super) async fn serve(&self, session: Session) {
        let Session { theirs, streams, began, renews, remote, chain, quic, is_greeted } = session;
        let (now, began_at) = (self.clock.now(), MonotonicClock.now());
        let address = theirs.reachable_at(remote);
        let member = theirs.member;
        let until = identity::good_until(&chain);
        let (since, of_quic) = (now, quic.clone());
        let party =
            Party { member: member.clone(), address, began, renews, chain, since, until, quic: of_quic };
        let transport = party.transport();
        let (link, queues) = Link::new(party, self.links.traffic(&member.id));
        let link = Arc::new(link);
        match self.links.admit(&link) {
            Admission::Admitted => {}
            Admission::Redundant => return close(quic.as_ref()),
            Admission::Outdated => return self.tell_of_later_run(streams, quic.as_ref()).await,
            Admission::Full => {
                self.door.refuse();
                if began == Began::Here {
                    self.call_failed(remote);
                }
                if self.door.tells(address.ip(), format!("{} is one too many", member.id)) {
                    tracing::warn!(
                        peer = %member.id, %address,
                        "there are more peers than `mesh.max_peers`: this one is left out"
                    );
                }
                return close(quic.as_ref());
            }
        }
        self.has_met.store(true, Relaxed);
        lock(&self.roster).learn(&member, address, now);
        self.store.with(|node| node.meet(member.id.clone()));
        tracing::debug!(peer = %member.id, %address, %transport, "a connection to a peer has begun");
        if is_greeted {
            link.send_roster(&self.first_words(now));
        }
        let is_greeted = AtomicBool::new(is_greeted);
        let hear = |kind, body: &[u8]| {
            if is_greeted.load(Relaxed) {
                self.hear(&link, kind, body);
            } else if kind == Kind::Hello {
                match greeting::heard(&self.hello(false), body, &link.party.chain) {
                    Ok(theirs) if theirs.member == member => {
                        is_greeted.store(true, Relaxed);
                        link.send_roster(&self.first_words(self.clock.now()));
                    }
                    // Another run of it, which is greeted by the next call, or somebody of another mesh.
                    _ => link.close(),
                }
            }
        };
        let ended = link.run(streams, queues, hear).await;
        close(quic.as_ref());
        // Whoever lets this node in and shows it out at once is not called again at once.
        let was_short = MonotonicClock.now().since(began_at) < SHORT;
        if began == Began::Here && (was_short || !is_greeted.into_inner()) {
            self.call_failed(remote);
        }
        if self.links.remove(&link) {
            let why = ended.err().map(|error| error.to_string()).unwrap_or_default();
            tracing::debug!(peer = %member.id, %address, why, "the connection to a peer has ended");
            if self.store.with(|node| node.is_leaving(&member.id)) {
                lock(&self.roster).depart(&member);
                tracing::info!(peer = %member.id, %address, "a peer has left");
            }
        }
    }

    /// Tells a run that a later one of its name is connected, which the roster has: it would hear nothing of that
    /// otherwise, and found a mesh of its own.
    async fn tell_of_later_run(&self, mut streams: Streams, quic: Option<&Connection>) {
        let roster = lock(&self.roster).write(self.clock.now());
        let telling = async {
            let (reads, writes) = &mut streams.main;
            message::write(writes, Kind::Roster, &roster).await?;
            writes.shutdown().await?;
            // It hangs up once it has heard; what it says is passed over.
            tokio::io::copy(reads, &mut tokio::io::sink()).await
        };
        let _ = timeout(LAST_WORD, telling).await;
        close(quic);
    }

    fn hear(&self, link: &Link, kind: Kind, body: &[u8]) {
        let (peer, now) = (&link.party.member, self.clock.now());
        match kind {
            Kind::Ask | Kind::Sync if body.is_empty() => {}
            Kind::Ask | Kind::Sync => self.store.on_frame(now, &peer.id, body),
            Kind::Roster => {
                let told = lock(&self.roster).read(body, now);
                let Ok(told) = told else {
                    return tracing::debug!(peer = %peer.id, "a roster cannot be read");
                };
                told.own_run.into_iter().for_each(|run| self.hear_of_namesake(run));
                let (_, beside) = body.split_at_checked(body.len() - told.beside).unwrap_or_default();
                self.hear_notes(link, beside, now);
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
