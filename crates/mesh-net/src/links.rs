//! All connections of a node, one per peer. When two nodes dial each other at the same time, both keep the connection
//! that the node with the smaller name dialed.

use super::link::{Initiator, Link, LinkPeer, Transport};
use super::lock;
use super::traffic::PeerTraffic;
use hivemind_mesh::Carrier;
use hivemind_mesh::Lane;
use hivemind_mesh::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Decision on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkAdmission {
    /// It is now the connection to this peer.
    Admitted,
    /// An existing connection is preferred; close this one.
    Redundant,
    /// A later generation of the peer is connected, which the peer may not know.
    Outdated,
    /// The maximum number of peers is connected.
    Full,
}

/// Maximum time between two simultaneous renewals of one connection.
const CROSSING: Duration = Duration::from_secs(5);

/// Connections of a node, by peer.
#[derive(Debug)]
pub(super) struct Links {
    name: NodeId,
    max_peers: usize,
    all: RwLock<BTreeMap<NodeId, Arc<Link>>>,
    /// Counters of all known peers that were ever connected.
    traffic: Mutex<BTreeMap<NodeId, Arc<PeerTraffic>>>,
}

impl Links {
    pub(super) fn new(name: NodeId, max_peers: usize) -> Self {
        Self { name, max_peers, all: RwLock::default(), traffic: Mutex::default() }
    }

    /// The counters of a peer, which outlive its connections.
    pub(super) fn traffic(&self, peer: &NodeId) -> Arc<PeerTraffic> {
        let mut traffic = lock(&self.traffic);
        Arc::clone(traffic.entry(peer.clone()).or_default())
    }

    /// Removes the counters of unknown peers.
    pub(super) fn retain_traffic(&self, is_known: impl Fn(&NodeId) -> bool) {
        let mut traffic = lock(&self.traffic);
        traffic.retain(|peer, _| is_known(peer));
    }

    /// Adds a new connection. It replaces an older one of the same peer if it is preferred.
    pub(super) fn admit(&self, link: &Arc<Link>) -> LinkAdmission {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&link.peer.member.id);
        if known.is_none() && all.len() >= self.max_peers {
            return LinkAdmission::Full;
        }
        if let Some(known) = known {
            let is_better = match known.peer.member.generation.cmp(&link.peer.member.generation) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Greater => return LinkAdmission::Outdated,
                std::cmp::Ordering::Equal if renews(&link.peer, &known.peer) => true,
                std::cmp::Ordering::Equal => self.is_better(&link.peer, &known.peer),
            };
            if !is_better {
                return LinkAdmission::Redundant;
            }
            known.close();
        }
        all.insert(link.peer.member.id.clone(), Arc::clone(link));
        LinkAdmission::Admitted
    }

    /// Whether the new of two connections to one generation of a peer is preferred; both sides agree on it.
    fn is_better(&self, new: &LinkPeer, old: &LinkPeer) -> bool {
        match (old.transport(), new.transport()) {
            // QUIC works again.
            (Transport::Tcp, Transport::Quic) => true,
            // A side that dials again has lost the previous connection.
            _ if old.initiator == new.initiator => true,
            (Transport::Quic, Transport::Tcp) => false,
            _ => new.initiator == self.preferred_initiator(&new.member.id),
        }
    }

    fn preferred_initiator(&self, peer: &NodeId) -> Initiator {
        if self.name < *peer { Initiator::Local } else { Initiator::Remote }
    }

    /// Removes a connection that has ended. Returns whether it was the current one of its peer.
    pub(super) fn remove(&self, link: &Arc<Link>) -> bool {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let is_last = all.get(&link.peer.member.id).is_some_and(|known| Arc::ptr_eq(known, link));
        if is_last {
            all.remove(&link.peer.member.id);
        }
        is_last
    }

    pub(super) fn get(&self, peer: &NodeId) -> Option<Arc<Link>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(peer).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<Link>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// Whether a connection renews another. Both sides may renew at the same time; then the usual preference applies.
fn renews(new: &LinkPeer, old: &LinkPeer) -> bool {
    new.renews && !(old.renews && new.since.since(old.since) < CROSSING)
}

impl Carrier for Links {
    fn carry(&self, to: &NodeId, lane: Lane, frame: Vec<u8>) {
        if let Some(link) = self.get(to) {
            link.send(lane, &frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_core::Timestamp;
    use hivemind_mesh::Member;
    use std::net::SocketAddr;

    fn link(peer: &str, generation: u64, initiator: Initiator) -> Arc<Link> {
        let member = Member::new(NodeId::new(peer), generation);
        let address = SocketAddr::from(([192, 0, 2, 1], 1));
        let peer = LinkPeer {
            member,
            address,
            initiator,
            renews: false,
            chain: Vec::new(),
            since: Timestamp::EPOCH,
            until: Timestamp::MAX,
            quic: None,
        };
        Arc::new(Link::new(peer, Arc::default()).0)
    }

    fn links(name: &str) -> Links {
        Links::new(NodeId::new(name), 2)
    }

    #[test]
    fn both_sides_keep_the_connection_of_the_smaller_name() {
        for order in [[0, 1], [1, 0]] {
            let (a, b) = (links("a"), links("b"));
            let at_a = [link("b", 1, Initiator::Local), link("b", 1, Initiator::Remote)];
            let at_b = [link("a", 1, Initiator::Remote), link("a", 1, Initiator::Local)];
            for turn in order {
                a.admit(&at_a[turn]);
                b.admit(&at_b[1 - turn]);
            }
            assert_eq!(a.get(&NodeId::new("b")).unwrap().peer.initiator, Initiator::Local);
            assert_eq!(b.get(&NodeId::new("a")).unwrap().peer.initiator, Initiator::Remote);
        }
    }

    fn renewing(peer: &str, initiator: Initiator, at_ms: u64) -> Arc<Link> {
        let member = Member::new(NodeId::new(peer), 1);
        let (address, since) = (SocketAddr::from(([192, 0, 2, 1], 1)), Timestamp::from_millis(at_ms));
        let (chain, until) = (Vec::new(), Timestamp::MAX);
        let peer = LinkPeer { member, address, initiator, renews: true, chain, since, until, quic: None };
        Arc::new(Link::new(peer, Arc::default()).0)
    }

    // Fails when each side takes the last of two simultaneous renewals, which closes both.
    #[test]
    fn both_sides_keep_the_same_of_two_renewals() {
        for order in [[0, 1], [1, 0]] {
            let (a, b) = (links("a"), links("b"));
            a.admit(&link("b", 1, Initiator::Remote));
            b.admit(&link("a", 1, Initiator::Local));
            let at_a = [renewing("b", Initiator::Local, 10_000), renewing("b", Initiator::Remote, 10_000)];
            let at_b = [renewing("a", Initiator::Remote, 10_000), renewing("a", Initiator::Local, 10_000)];
            for turn in order {
                a.admit(&at_a[turn]);
                b.admit(&at_b[1 - turn]);
            }
            assert_eq!(a.get(&NodeId::new("b")).unwrap().peer.initiator, Initiator::Local);
            assert_eq!(b.get(&NodeId::new("a")).unwrap().peer.initiator, Initiator::Remote);
            // The next renewal may come from the other side.
            assert_eq!(a.admit(&renewing("b", Initiator::Remote, 60_000)), LinkAdmission::Admitted);
            assert_eq!(b.admit(&renewing("a", Initiator::Local, 60_000)), LinkAdmission::Admitted);
        }
    }

    #[test]
    fn later_generation_replaces_an_earlier_one_only() {
        let a = links("a");
        assert_eq!(a.admit(&link("b", 5, Initiator::Local)), LinkAdmission::Admitted);
        assert_eq!(a.admit(&link("b", 6, Initiator::Remote)), LinkAdmission::Admitted);
        assert_eq!(a.admit(&link("b", 5, Initiator::Local)), LinkAdmission::Outdated);
    }

    #[test]
    fn number_of_peers_is_limited() {
        let a = links("a");
        assert_eq!(a.admit(&link("b", 1, Initiator::Local)), LinkAdmission::Admitted);
        assert_eq!(a.admit(&link("c", 1, Initiator::Local)), LinkAdmission::Admitted);
        assert_eq!(a.admit(&link("d", 1, Initiator::Local)), LinkAdmission::Full);
        assert_eq!(a.admit(&link("c", 2, Initiator::Local)), LinkAdmission::Admitted);
    }

    #[test]
    fn end_of_a_replaced_connection_removes_nothing() {
        let a = links("a");
        let (old, new) = (link("b", 1, Initiator::Local), link("b", 1, Initiator::Local));
        a.admit(&old);
        a.admit(&new);
        assert!(!a.remove(&old));
        assert!(a.get(&NodeId::new("b")).is_some());
        assert!(a.remove(&new));
    }
}
