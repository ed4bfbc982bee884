//! What this node hears of its peers: who spoke when, which run of them, how their clock
//! stands to ours, and what discovery says of them.

use crate::member::{Generation, Member};
use crate::owner::NodeId;
use crate::view::ViewId;
use hivemind_core::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One peer, as its last frames showed it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) generation: Generation,
    pub(crate) heard: Timestamp,
    pub(crate) head: Option<ViewId>,
    pub(crate) leaving: bool,
    /// When we last sent it anything, so that silence is broken in time.
    pub(crate) sent: Timestamp,
}

/// All peers this node has heard of.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    all: BTreeMap<NodeId, Peer>,
    staleness: Duration,
    most: usize,
    /// The names that discovery knows; none if there is no discovery that could say who is gone.
    discovered: Option<BTreeSet<NodeId>>,
}

impl Peers {
    pub(crate) fn new(staleness: Duration, most: usize) -> Self {
        Self { all: BTreeMap::new(), staleness, most, discovered: None }
    }

    /// A frame came from a run of a peer. Says no if it is from an earlier run than one that was heard.
    pub(crate) fn hear(
        &mut self,
        from: &Member,
        now: Timestamp,
        head: Option<ViewId>,
        leaving: bool,
    ) -> bool {
        if !self.all.contains_key(&from.id) {
            if self.all.len() >= self.most {
                return false;
            }
            let peer =
                Peer { generation: from.generation, heard: now, head, leaving, sent: Timestamp::EPOCH };
            self.all.insert(from.id.clone(), peer);
            return true;
        }
        let Some(peer) = self.all.get_mut(&from.id) else { return false };
        if from.generation < peer.generation {
            return false;
        }
        // A frame that was overtaken says nothing new about when it was heard.
        *peer = Peer { generation: from.generation, heard: peer.heard.max(now), head, leaving, ..*peer };
        true
    }

    pub(crate) fn get(&self, id: &NodeId) -> Option<&Peer> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &NodeId) -> Option<&mut Peer> {
        self.all.get_mut(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.all.iter()
    }

    pub(crate) fn discover(&mut self, names: impl IntoIterator<Item = NodeId>) {
        self.discovered = Some(names.into_iter().collect());
    }

    /// Whether this very run spoke lately.
    pub(crate) fn is_heard(&self, member: &Member, now: Timestamp) -> bool {
        self.all.get(&member.id).is_some_and(|peer| {
            peer.generation == member.generation && now.since(peer.heard) <= self.staleness
        })
    }

    /// The peers that spoke lately.
    pub(crate) fn heard(&self, now: Timestamp) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.all.iter().filter(move |(_, peer)| now.since(peer.heard) <= self.staleness)
    }

    /// The peers that could be in a view.
    pub(crate) fn joining(&self, now: Timestamp) -> impl Iterator<Item = (&NodeId, Generation)> {
        self.heard(now).filter(|(_, peer)| !peer.leaving).map(|(id, peer)| (id, peer.generation))
    }

    pub(crate) fn is_leaving(&self, member: &Member) -> bool {
        let peer = self.all.get(&member.id);
        peer.is_some_and(|peer| peer.leaving && peer.generation == member.generation)
    }

    /// Whether a run is over: a later one spoke, or it is silent and discovery no longer knows its name.
    pub(crate) fn is_dead(&self, member: &Member, now: Timestamp, after: Duration) -> bool {
        let peer = self.all.get(&member.id);
        if peer.is_some_and(|peer| peer.generation > member.generation) {
            return true;
        }
        let silent = peer.is_none_or(|peer| now.since(peer.heard) > after);
        let unknown = self.discovered.as_ref().is_some_and(|names| !names.contains(&member.id));
        silent && unknown
    }
}
