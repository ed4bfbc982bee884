//! All connections of a node, by the peer's name: one for each pair. Two nodes that call each
//! other at the same moment keep the connection that the one with the smaller name
//! began, on both sides the same.

use super::link::{Began, Link};
use crate::member::Member;
use crate::node::Lane;
use crate::owner::NodeId;
use crate::store::Carrier;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What became of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is the one to this peer from now on.
    Admitted,
    /// There is a better one: it is to be closed.
    Redundant,
    /// There are too many peers.
    Full,
}

/// All connections of a node.
#[derive(Debug)]
pub(super) struct Links {
    me: Member,
    most: usize,
    all: RwLock<BTreeMap<NodeId, Arc<Link>>>,
}

impl Links {
    pub(super) fn new(me: Member, most: usize) -> Self {
        Self { me, most, all: RwLock::default() }
    }

    /// Takes in a new connection, in the place of an older one of the same peer if it is better.
    pub(super) fn admit(&self, link: &Arc<Link>) -> Admission {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&link.peer.id);
        if known.is_none() && all.len() >= self.most {
            return Admission::Full;
        }
        if let Some(known) = known {
            let is_better = match known.peer.generation.cmp(&link.peer.generation) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Greater => false,
                // One that the peer began anew says that it has lost the other.
                std::cmp::Ordering::Equal => {
                    known.began == link.began || link.began == self.preferred(&link.peer.id)
                }
            };
            if !is_better {
                return Admission::Redundant;
            }
            known.close();
        }
        all.insert(link.peer.id.clone(), Arc::clone(link));
        Admission::Admitted
    }

    fn preferred(&self, peer: &NodeId) -> Began {
        if self.me.id < *peer { Began::Here } else { Began::There }
    }

    /// A connection has ended. Says whether the peer has no other.
    pub(super) fn remove(&self, link: &Arc<Link>) -> bool {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let is_last = all.get(&link.peer.id).is_some_and(|known| Arc::ptr_eq(known, link));
        if is_last {
            all.remove(&link.peer.id);
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

impl Carrier for Arc<Links> {
    fn carry(&self, to: &NodeId, lane: Lane, frame: Vec<u8>) {
        if let Some(link) = self.get(to) {
            link.send(lane, &frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::Transport;
    use super::*;
    use std::net::SocketAddr;

    fn link(peer: &str, generation: u64, began: Began) -> Arc<Link> {
        let peer = Member::new(NodeId::new(peer), generation);
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 1));
        Arc::new(Link::new(peer, anywhere, Transport::Tcp, began, None).0)
    }

    fn links(me: &str) -> Links {
        Links::new(Member::new(NodeId::new(me), 1), 2)
    }

    #[test]
    fn of_two_connections_of_a_pair_both_sides_keep_the_one_that_the_smaller_name_began() {
        for order in [[0, 1], [1, 0]] {
            let (a, b) = (links("a"), links("b"));
            let at_a = [link("b", 1, Began::Here), link("b", 1, Began::There)];
            let at_b = [link("a", 1, Began::There), link("a", 1, Began::Here)];
            for turn in order {
                a.admit(&at_a[turn]);
                b.admit(&at_b[1 - turn]);
            }
            assert_eq!(a.get(&NodeId::new("b")).unwrap().began, Began::Here);
            assert_eq!(b.get(&NodeId::new("a")).unwrap().began, Began::There);
        }
    }

    #[test]
    fn a_later_run_takes_the_place_of_an_earlier_one_and_never_the_other_way() {
        let a = links("a");
        assert_eq!(a.admit(&link("b", 5, Began::Here)), Admission::Admitted);
        assert_eq!(a.admit(&link("b", 6, Began::There)), Admission::Admitted);
        assert_eq!(a.admit(&link("b", 5, Began::Here)), Admission::Redundant);
    }

    #[test]
    fn there_are_never_more_peers_than_allowed() {
        let a = links("a");
        assert_eq!(a.admit(&link("b", 1, Began::Here)), Admission::Admitted);
        assert_eq!(a.admit(&link("c", 1, Began::Here)), Admission::Admitted);
        assert_eq!(a.admit(&link("d", 1, Began::Here)), Admission::Full);
        assert_eq!(a.admit(&link("c", 2, Began::Here)), Admission::Admitted);
    }

    #[test]
    fn a_connection_that_was_replaced_takes_nothing_away_when_it_ends() {
        let a = links("a");
        let (old, new) = (link("b", 1, Began::Here), link("b", 1, Began::Here));
        a.admit(&old);
        a.admit(&new);
        assert!(!a.remove(&old));
        assert!(a.get(&NodeId::new("b")).is_some());
        assert!(a.remove(&new));
    }
}
