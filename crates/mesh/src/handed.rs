//! What former owners told this run of the buckets that came to it with a view: those that were not full, one after the
//! other, and since when all others are accounted for. Bounded: one entry for each member of the view before, of the
//! views that are remembered.

use crate::owner::NodeId;
use crate::view::ViewId;
use hivemind_core::Timestamp;
use std::collections::BTreeMap;

/// What all former owners have told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handed(BTreeMap<(ViewId, NodeId), Told>);

/// What one of them has told of one view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Since when it accounts for all buckets that it had: those that it does not name have earned at least since then.
    pub(crate) since: Timestamp,
    /// How many it names, and how many of them have come.
    pub(crate) count: u32,
    pub(crate) taken: u32,
    pub(crate) stage: Stage,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is more to come.
    Coming,
    /// All has come.
    Whole,
    /// It contradicts itself, or there was no room: it is not listened to.
    Void,
}

impl Handed {
    /// Since when a former owner accounts for what it does not name, if all that it names has come.
    pub(crate) fn since(&self, view: ViewId, from: &NodeId) -> Option<Timestamp> {
        let told = self.0.get(&(view, from.clone()))?;
        (told.stage == Stage::Whole).then_some(told.since)
    }

    /// What a former owner has told of a view so far. What it says first stands.
    pub(crate) fn of(&mut self, view: ViewId, from: &NodeId, new: Told) -> &mut Told {
        self.0.entry((view, from.clone())).or_insert(new)
    }

    /// Forgets what was told of other views than these.
    pub(crate) fn keep(&mut self, is_known: impl Fn(ViewId) -> bool) {
        self.0.retain(|(view, _), _| is_known(*view));
    }
}
