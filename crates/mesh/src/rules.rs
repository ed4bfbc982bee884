//! Which rules this node and its peers go by, each told as one number. Nodes reload one after
//! the other, and two that split a window by two limits would share out more than either. So
//! who is not known to go by the same rules as a counter's owner begins a window with nothing
//! and asks; and an owner that has just reloaded reckons with shares of the limit before, until
//! everybody must have heard of it.

use crate::owner::NodeId;
use hivemind_core::{Limit, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after a reload a peer that can be heard may not know of it: a few heartbeats.
const UNHEARD: Duration = Duration::from_millis(1_500);

/// How far ahead of its start an owner may have opened a window, and clocks may differ.
const AHEAD: Duration = Duration::from_secs(1);

/// The rules of this node and of its peers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    here: u32,
    /// Of each peer: its rules, and when it was first heard to go by them after others.
    there: BTreeMap<NodeId, (u32, Timestamp)>,
    reloaded: Option<Timestamp>,
}

impl Rules {
    /// This node goes by other rules from now on.
    pub(crate) fn reload(&mut self, fingerprint: u32, now: Timestamp) {
        if fingerprint != self.here {
            (self.here, self.reloaded) = (fingerprint, Some(now));
        }
    }

    pub(crate) fn here(&self) -> u32 {
        self.here
    }

    /// A frame of a peer says by which rules it goes.
    pub(crate) fn hear(&mut self, peer: &NodeId, fingerprint: u32, now: Timestamp) {
        match self.there.get_mut(peer) {
            Some((known, _)) if *known == fingerprint => {}
            Some(known) => *known = (fingerprint, now),
            None => drop(self.there.insert(peer.clone(), (fingerprint, Timestamp::EPOCH))),
        }
    }

    /// Whether a peer goes by the same rules, as its last frame said.
    pub(crate) fn agree(&self, peer: &NodeId) -> bool {
        self.there.get(peer).is_none_or(|(there, _)| *there == self.here)
    }

    /// Whether a peer went by the same rules well before a window that starts at `start`, as far as was heard.
    /// A window that runs when rules change was shared out by the old ones. One that was never heard, in a mesh
    /// that never reloaded, is taken for an equal.
    pub(crate) fn agreed_before(&self, peer: &NodeId, start: Timestamp) -> bool {
        let (there, heard) = self.there.get(peer).copied().unwrap_or((self.here, Timestamp::EPOCH));
        let since = self.reloaded.map_or(heard, |reloaded| reloaded.max(heard));
        there == self.here && (since == Timestamp::EPOCH || since.saturating_add(AHEAD) < start)
    }

    /// The limit by which members may have begun a window that begins now: that of before, shortly after a reload.
    pub(crate) fn may_still_hold(&self, before: Option<&Limit>, now: Timestamp) -> Option<Limit> {
        before.copied().filter(|_| self.reloaded.is_some_and(|at| now.since(at) < UNHEARD))
    }
}
