//! Rule versions of this node and its peers, one fingerprint each. Nodes reload one after the other, and two
//! nodes that split a window by different limits would together admit more than either. A member that is not
//! known to use the same rules as a counter's owner therefore begins a window with nothing and asks for grants.
//! An owner that has reloaded assumes the previous limit's shares in windows that began before every member
//! acknowledged a frame with the new rules.

use crate::view::NodeId;
use hivemind_core::{Limit, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after a reload a request may still carry the previous limit.
const UNDER_WAY: Duration = Duration::from_millis(1_500);

/// How long before its start an owner may have opened a window, and how far clocks may differ.
const AHEAD: Duration = Duration::from_secs(1);

/// The rule fingerprints of this node and of its peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleVersions {
    here: u32,
    there: BTreeMap<NodeId, PeerRules>,
    reloaded: Option<Timestamp>,
}

/// The rules of a peer.
#[derive(Clone, Copy, Debug)]
struct PeerRules {
    fingerprint: u32,
    /// When a frame first carried this fingerprint after another one.
    since: Timestamp,
    /// When it first acknowledged this node's last reload.
    knows: Option<Timestamp>,
}

impl RuleVersions {
    /// This node uses other rules from now on.
    pub(crate) fn reload(&mut self, fingerprint: u32, now: Timestamp) {
        if fingerprint != self.here {
            (self.here, self.reloaded) = (fingerprint, Some(now));
            self.there.values_mut().for_each(|there| there.knows = None);
        }
    }

    /// The clock was set back: shifts all times back.
    pub(crate) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        self.reloaded.iter_mut().for_each(&earlier);
        for there in self.there.values_mut() {
            earlier(&mut there.since);
            there.knows.iter_mut().for_each(&earlier);
        }
    }

    pub(crate) fn here(&self) -> u32 {
        self.here
    }

    /// A frame of a peer carries the fingerprint of its rules.
    pub(crate) fn hear(&mut self, peer: &NodeId, fingerprint: u32, now: Timestamp) {
        let first = PeerRules { fingerprint, since: Timestamp::EPOCH, knows: None };
        match self.there.get_mut(peer) {
            Some(known) if known.fingerprint == fingerprint => {}
            Some(known) => (known.fingerprint, known.since) = (fingerprint, now),
            None => drop(self.there.insert(peer.clone(), first)),
        }
    }

    /// A peer acknowledged a frame that this node sent at `sent_us` (microseconds).
    pub(crate) fn answered(&mut self, peer: &NodeId, sent_us: u64, now: Timestamp) {
        let since_then = self.reloaded.is_some_and(|at| sent_us > at.as_nanos() / 1_000);
        if let Some(there) = self.there.get_mut(peer).filter(|there| since_then && there.knows.is_none()) {
            there.knows = Some(now);
        }
    }

    /// Forgets removed peers.
    pub(crate) fn forget(&mut self, stays: impl Fn(&NodeId) -> bool) {
        self.there.retain(|peer, _| stays(peer));
    }

    /// Whether a request may still carry the limit from before the last reload.
    pub(crate) fn are_fresh(&self, now: Timestamp) -> bool {
        self.reloaded.is_some_and(|at| now.since(at) < UNDER_WAY)
    }

    /// Whether a peer's last frame carried the same rules.
    pub(crate) fn agree(&self, peer: &NodeId) -> bool {
        self.there.get(peer).is_none_or(|there| there.fingerprint == self.here)
    }

    /// Whether a peer used the same rules well before a window that starts at `start`, as far as is known. A
    /// window that is running when rules change was split by the old rules. A peer without frames yet, in a
    /// mesh that never reloaded, counts as equal.
    pub(crate) fn agreed_before(&self, peer: &NodeId, start: Timestamp) -> bool {
        let known = self.there.get(peer).map(|there| (there.fingerprint, there.since));
        let (there, heard) = known.unwrap_or((self.here, Timestamp::EPOCH));
        let since = self.reloaded.map_or(heard, |reloaded| reloaded.max(heard));
        there == self.here && (since == Timestamp::EPOCH || since.saturating_add(AHEAD) < start)
    }

    /// The limit by which some of the members may have begun a window that starts at `start`: the one from
    /// before the last reload, unless all of them acknowledged the reload well before.
    pub(crate) fn may_still_hold<'a>(
        &self,
        before: Option<&Limit>,
        mut members: impl Iterator<Item = &'a NodeId>,
        start: Timestamp,
    ) -> Option<Limit> {
        let is_before = |at: Timestamp| at.saturating_add(AHEAD) < start;
        let knew = |peer: &NodeId| self.there.get(peer).and_then(|there| there.knows).is_some_and(is_before);
        let is_past = self.reloaded.is_none_or(is_before) && members.all(knew);
        before.copied().filter(|_| self.reloaded.is_some() && !is_past)
    }
}
