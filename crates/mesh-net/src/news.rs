//! What becomes of peers and of certificates, told once each time it changes.

use super::host::{Host, every};
use super::identity::{Certificates, IdentityError};
use super::link::Transport;
use super::peer::{Peer, PeerState};
use hivemind_core::Timestamp;
use hivemind_mesh::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often peers are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How often the files of the certificate and the CA are read: a rotation is in force that much later.
const REREAD: Duration = Duration::from_secs(5);

/// How long a peer has to show a certificate of the new CA.
const GRACE: Duration = Duration::from_secs(10);

/// A peer as it was when it was last told of.
#[derive(Clone, Copy, Debug)]
struct Seen {
    state: PeerState,
    generation: u64,
    transport: Option<Transport>,
}

/// What became of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Came,
    Back,
    NewRun,
    Suspect,
    Dead,
    Quarantined,
    Switched(Transport),
    Gone,
}

/// Every peer that has ever been there, as it was when it was last told of.
#[derive(Debug, Default)]
pub(super) struct News(BTreeMap<NodeId, Seen>);

impl News {
    /// What has changed since the last time.
    fn notice(&mut self, peers: &[Peer]) -> Vec<(NodeId, Change)> {
        let mut changes = Vec::new();
        for peer in peers {
            let now = Seen { state: peer.state, generation: peer.generation, transport: peer.transport };
            let Some(before) = self.0.get_mut(&peer.name) else {
                // A name that nobody has reached yet is no peer yet.
                if peer.state != PeerState::Dead && peer.transport.is_some() {
                    changes.push((peer.name.clone(), Change::Came));
                    // That datagrams never got through is worth a word, too.
                    let is_by_tcp = peer.transport == Some(Transport::Tcp);
                    changes.extend(is_by_tcp.then(|| (peer.name.clone(), Change::Switched(Transport::Tcp))));
                    self.0.insert(peer.name.clone(), now);
                }
                continue;
            };
            let became = if now.generation > before.generation {
                Some(Change::NewRun)
            } else if now.state == before.state {
                None
            } else {
                Some(match now.state {
                    PeerState::Alive => Change::Back,
                    PeerState::Suspect => Change::Suspect,
                    PeerState::Dead => Change::Dead,
                    PeerState::Quarantined => Change::Quarantined,
                })
            };
            changes.extend(became.map(|change| (peer.name.clone(), change)));
            let switched = now.transport.filter(|now| before.transport.is_some_and(|before| before != *now));
            changes.extend(switched.map(|to| (peer.name.clone(), Change::Switched(to))));
            *before = Seen { transport: now.transport.or(before.transport), ..now };
        }
        let gone: Vec<NodeId> =
            self.0.keys().filter(|name| !peers.iter().any(|peer| peer.name == **name)).cloned().collect();
        for name in gone {
            self.0.remove(&name);
            changes.push((name, Change::Gone));
        }
        changes
    }
}

fn tell(change: Change, name: &NodeId, peer: Option<&Peer>) {
    let Some(peer) = peer else {
        return tracing::info!(peer = %name, "a peer is gone");
    };
    let (address, generation) = (peer.address, peer.generation);
    let transport = peer.transport.map_or("none", Transport::as_str);
    match change {
        Change::Came => tracing::info!(peer = %name, %address, generation, transport, "a peer came"),
        Change::Back => tracing::info!(peer = %name, %address, transport, "a peer is back"),
        Change::NewRun => {
            tracing::info!(peer = %name, %address, generation, transport, "a peer has started anew");
        }
        Change::Suspect => tracing::warn!(peer = %name, %address, transport, "a peer is silent"),
        Change::Dead => {
            tracing::warn!(peer = %name, %address, "a peer counts as dead: it is called again and again");
        }
        Change::Quarantined => tracing::warn!(
            peer = %name, %address, clock_offset_us = peer.clock_offset_us.unwrap_or(0),
            "a peer's clock is so far off that it has no part in short windows: set it"
        ),
        Change::Switched(Transport::Tcp) => tracing::warn!(
            peer = %name, %address,
            "a peer is reached by TCP: datagrams do not get through, see that UDP is open at its mesh port"
        ),
        Change::Switched(Transport::Quic) => {
            tracing::info!(peer = %name, %address, "a peer is reached by QUIC again");
        }
        Change::Gone => {}
    }
}

impl Host {
    /// Tells what becomes of peers.
    pub(super) async fn watch_peers(self: Arc<Self>) {
        let (mut look, mut news) = (every(LOOK), News::default());
        loop {
            look.tick().await;
            let peers = self.peers();
            for (name, change) in news.notice(&peers) {
                tell(change, &name, peers.iter().find(|peer| peer.name == name));
            }
        }
    }

    /// Puts new certificates in force, and warns of the end of old ones.
    pub(super) async fn watch_certificates(self: Arc<Self>) {
        let (mut reread, mut warned, mut failed) = (every(REREAD), [None; 2], 0_u32);
        loop {
            reread.tick().await;
            failed = match self.reload_identity() {
                Ok(_) => 0,
                Err(error) => {
                    // Files that are being replaced do not fit together for a moment.
                    if failed == 1 {
                        tracing::warn!(%error, "the certificates of the mesh cannot be read anew: the last ones stay in force");
                    }
                    failed.saturating_add(1)
                }
            };
            for link in self.links.list() {
                if self.clock.now() > link.party.until {
                    link.distrust();
                }
                if link.distrusted_for().is_some_and(|span| span >= GRACE) {
                    let peer = &link.party.member.id;
                    tracing::warn!(
                        %peer,
                        "a peer has only a certificate that has expired, or one of a CA that is believed no longer"
                    );
                    link.close();
                }
            }
            warned = warn_of_ends(&self.identity.certificates(), self.clock.now(), warned);
        }
    }

    /// Reads the certificate and the CA again. Connections stay as they are. Those that were made with a CA that is
    /// believed no longer, or with a certificate that has expired since, are made anew, and then end; if a peer has no other certificate, it ends without.
    pub(super) fn reload_identity(&self) -> Result<bool, IdentityError> {
        let reloaded = self.identity.reload()?;
        if reloaded.own || reloaded.ca {
            tracing::info!(certificate = reloaded.own, ca = reloaded.ca, "the mesh goes by new certificates");
        }
        if reloaded.ca {
            for link in self.links.list() {
                if !self.identity.believes(&link.party.chain, link.party.since) {
                    link.distrust();
                }
            }
        }
        Ok(reloaded.own || reloaded.ca)
    }
}

/// Warns of the end of the certificate and of the CA, each day once; says of how many days it was told.
fn warn_of_ends(certificates: &Certificates, now: Timestamp, warned: [Option<u64>; 2]) -> [Option<u64>; 2] {
    let [own, ca] = due(certificates, now);
    if let Some(days_left) = own.filter(|_| own != warned[0]) {
        let remedy = "make a new one by `hivemind certs node`; it is taken from its file without a restart";
        tracing::warn!(days_left, remedy, "this node's certificate of the mesh expires soon");
    }
    if let Some(days_left) = ca.filter(|_| ca != warned[1]) {
        let remedy = "make a new one by `hivemind certs ca`, and put both into every file of `mesh.tls.ca` before any \
                      certificate of the new one is in force";
        tracing::warn!(
            days_left,
            remedy,
            "the CA of the mesh expires soon, and no certificate of it is good for longer"
        );
    }
    [own, ca]
}

/// In how many days the certificate ends, and the CA, if that is to be told.
fn due(certificates: &Certificates, now: Timestamp) -> [Option<u64>; 2] {
    let Certificates { own_until, ca_until, renew_from, renew_ca_from } = *certificates;
    [(renew_from, own_until), (renew_ca_from, ca_until)]
        .map(|(from, until)| (now >= from).then(|| until.since(now).as_secs() / 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, generation: u64, state: PeerState, transport: Option<Transport>) -> Peer {
        Peer {
            name: NodeId::new(name),
            address: ([192, 0, 2, 1], 1).into(),
            generation,
            state,
            is_member: true,
            transport,
            round_trip: None,
            clock_offset_us: None,
            silence: None,
            rights_held: 0,
            bytes_in: 0,
            bytes_out: 0,
            frames_in: 0,
            frames_out: 0,
            frames_lost: 0,
            connections: 1,
        }
    }

    // Seen failing on: changes told at every look; names that were never reached told as peers; a transport that is
    // forgotten when a connection is lost.
    #[test]
    fn every_change_of_a_peer_is_told_once() {
        use PeerState::{Alive, Dead, Quarantined, Suspect};
        let (quic, tcp) = (Some(Transport::Quic), Some(Transport::Tcp));
        let mut news = News::default();
        for (look, expected) in [
            (peer("b", 1, Dead, None), vec![]),
            (peer("b", 1, Alive, quic), vec![Change::Came]),
            (peer("b", 1, Alive, quic), vec![]),
            (peer("b", 1, Suspect, None), vec![Change::Suspect]),
            (peer("b", 1, Dead, None), vec![Change::Dead]),
            (peer("b", 1, Dead, None), vec![]),
            (peer("b", 1, Alive, quic), vec![Change::Back]),
            (peer("b", 1, Alive, tcp), vec![Change::Switched(Transport::Tcp)]),
            (peer("b", 1, Suspect, None), vec![Change::Suspect]),
            (peer("b", 1, Alive, quic), vec![Change::Back, Change::Switched(Transport::Quic)]),
            (peer("b", 1, Alive, tcp), vec![Change::Switched(Transport::Tcp)]),
            (peer("b", 1, Quarantined, tcp), vec![Change::Quarantined]),
            (peer("b", 2, Alive, quic), vec![Change::NewRun, Change::Switched(Transport::Quic)]),
        ] {
            let told: Vec<_> = news.notice(&[look]).into_iter().map(|(_, change)| change).collect();
            assert_eq!(told, expected);
        }
        assert_eq!(news.notice(&[]), [(NodeId::new("b"), Change::Gone)]);
        assert_eq!(news.notice(&[]), []);
        // Against: a word only where a way changes.
        let never_by_datagrams = news.notice(&[peer("b", 3, Alive, tcp)]);
        let b = NodeId::new("b");
        assert_eq!(never_by_datagrams, [(b.clone(), Change::Came), (b, Change::Switched(Transport::Tcp))]);
    }

    #[test]
    fn a_certificate_and_the_ca_are_warned_of_from_their_last_third_on_and_when_they_have_expired() {
        let day = |day: u64| Timestamp::from_millis(day * 86_400_000);
        let (own_until, renew_from) = (day(90), day(76));
        let (ca_until, renew_ca_from) = (day(95), day(81));
        let certificates = Certificates { own_until, ca_until, renew_from, renew_ca_from };
        for (at, own, ca) in [
            (0, None, None),
            (75, None, None),
            (76, Some(14), None),
            (81, Some(9), Some(14)),
            (90, Some(0), Some(5)),
            (99, Some(0), Some(0)),
        ] {
            assert_eq!(due(&certificates, day(at)), [own, ca], "on day {at}");
        }
    }
}
