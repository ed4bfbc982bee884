//! Discovery results, and which peers are dead or forgotten by them.

use super::Peers;
use crate::view::Member;
use crate::view::NodeId;
use hivemind_core::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// The silence after which a peer without a view and without discovery is forgotten. Longer than the transit of
/// any frame, since its last generation is forgotten with it.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The same without a discovery that could name it.
const FORGOTTEN_UNNAMED: Duration = Duration::from_secs(600);
/// The most remembered names of discovery.
const MOST_NAMES: usize = 4_096;

impl Peers {
    pub(crate) fn discover(&mut self, names: impl IntoIterator<Item = NodeId>) {
        let names: BTreeSet<NodeId> = names.into_iter().take(MOST_NAMES).collect();
        let before = self.discovered.take().unwrap_or_default();
        self.withdrawn.extend(before);
        self.withdrawn.retain(|name| !names.contains(name));
        self.discovered = Some(names);
    }

    /// An operator states that a name does not come back.
    pub(crate) fn give_up(&mut self, name: NodeId) {
        self.given_up.insert(name);
    }

    /// Whether a generation is over: a later one was heard, or it is silent and discovery has withdrawn its
    /// name, or an operator has forgotten it. A name that discovery never knew is inconclusive: the list may be
    /// incomplete.
    pub(crate) fn is_dead(&self, member: &Member, now: Timestamp, after: Duration) -> bool {
        let peer = self.all.get(&member.id);
        if peer.is_some_and(|peer| peer.generation > member.generation) {
            return true;
        }
        let silent = peer.is_none_or(|peer| now.since(peer.heard) > after);
        silent && (self.withdrawn.contains(&member.id) || self.given_up.contains(&member.id))
    }

    /// Forgets peers without any state.
    pub(crate) fn forget(&mut self, now: Timestamp, in_a_view: impl Fn(&NodeId) -> bool) {
        let Self { all, discovered, withdrawn, given_up, .. } = self;
        let known = |id: &NodeId| discovered.as_ref().is_some_and(|names| names.contains(id));
        let after = if discovered.is_some() { FORGOTTEN } else { FORGOTTEN_UNNAMED };
        all.retain(|id, peer| now.since(peer.heard) <= after || known(id) || in_a_view(id));
        withdrawn.retain(|id| all.contains_key(id) || in_a_view(id));
        given_up.retain(|id| in_a_view(id));
    }

    /// Forgets silent names without a link.
    pub(crate) fn forget_silent(&mut self, stays: impl Fn(&NodeId) -> bool) {
        self.silent.retain(|id, _| stays(id));
    }

    /// Whether a name without frames may still answer: discovery knows it, or discovery is not used.
    pub(crate) fn may_answer(&self, id: &NodeId) -> bool {
        self.discovered.as_ref().is_none_or(|names| names.contains(id))
    }
}
