//! Which rules this node and its peers go by, each told as one number. Nodes reload one after
//! the other, and two that split a window by two limits would share out more than either. So
//! who is not known to go by the same rules as a counter's owner begins a window with nothing
//! and asks; and an owner that has reloaded reckons with shares of the limit before, in windows
//! that began before everybody had answered a frame of its new rules.

use crate::owner::NodeId;
use hivemind_core::{Limit, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long after a reload a request may come that was under way before it, with the limit of then.
const UNDER_WAY: Duration = Duration::from_millis(1_500);

/// How far ahead of its start an owner may have opened a window, and clocks may differ.
const AHEAD: Duration = Duration::from_secs(1);

/// The rules of this node and of its peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    here: u32,
    there: BTreeMap<NodeId, There>,
    reloaded: Option<Timestamp>,
}

/// The rules of a peer.
#[derive(Clone, Copy, Debug)]
struct There {
    fingerprint: u32,
    /// When it was first heard to go by them after others.
    since: Timestamp,
    /// When it was first heard to know of this node's last reload.
    knows: Option<Timestamp>,
}

impl Rules {
    /// This node goes by other rules from now on.
    pub(crate) fn reload(&mut self, fingerprint: u32, now: Timestamp) {
        if fingerprint != self.here {
            (self.here, self.reloaded) = (fingerprint, Some(now));
            self.there.values_mut().for_each(|there| there.knows = None);
        }
    }

    /// The clock was set back: moments are made as much earlier.
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

    /// A frame of a peer says by which rules it goes.
    pub(crate) fn hear(&mut self, peer: &NodeId, fingerprint: u32, now: Timestamp) {
        let first = There { fingerprint, since: Timestamp::EPOCH, knows: None };
        match self.there.get_mut(peer) {
            Some(known) if known.fingerprint == fingerprint => {}
            Some(known) => (known.fingerprint, known.since) = (fingerprint, now),
            None => drop(self.there.insert(peer.clone(), first)),
        }
    }

    /// A peer has heard a frame that this node sent at that time, in microseconds.
    pub(crate) fn answered(&mut self, peer: &NodeId, sent_us: u64, now: Timestamp) {
        let since_then = self.reloaded.is_some_and(|at| sent_us > at.as_nanos() / 1_000);
        if let Some(there) = self.there.get_mut(peer).filter(|there| since_then && there.knows.is_none()) {
            there.knows = Some(now);
        }
    }

    /// Forgets peers that nothing is left of.
    pub(crate) fn forget(&mut self, stays: impl Fn(&NodeId) -> bool) {
        self.there.retain(|peer, _| stays(peer));
    }

    /// Whether a request may still bring the limit of before the last reload.
    pub(crate) fn are_fresh(&self, now: Timestamp) -> bool {
        self.reloaded.is_some_and(|at| now.since(at) < UNDER_WAY)
    }

    /// Whether a peer goes by the same rules, as its last frame said.
    pub(crate) fn agree(&self, peer: &NodeId) -> bool {
        self.there.get(peer).is_none_or(|there| there.fingerprint == self.here)
    }

    /// Whether a peer went by the same rules well before a window that starts at `start`, as far as was heard.
    /// A window that runs when rules change was shared out by the old ones. One that was never heard, in a mesh
    /// that never reloaded, is taken for an equal.
    pub(crate) fn agreed_before(&self, peer: &NodeId, start: Timestamp) -> bool {
        let known = self.there.get(peer).map(|there| (there.fingerprint, there.since));
        let (there, heard) = known.unwrap_or((self.here, Timestamp::EPOCH));
        let since = self.reloaded.map_or(heard, |reloaded| reloaded.max(heard));
        there == self.here && (since == Timestamp::EPOCH || since.saturating_add(AHEAD) < start)
    }

    /// The limit by which some of these members may have begun a window that starts at `start`: that of before the
    /// last reload, unless all of them knew of it well before.
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
