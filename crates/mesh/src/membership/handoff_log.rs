//! Handoff state of this generation: what former owners sent about buckets that moved here with a view. They
//! list the buckets that were not full, and the time since which they know all others. Bounded: one entry for
//! each member of the previous view, for the remembered views.

use crate::view::NodeId;
use crate::view::ViewId;
use hivemind_core::Timestamp;
use std::collections::BTreeMap;

/// The handoffs of all former owners.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandoffLog(BTreeMap<(ViewId, NodeId), HandoffReceipt>);

/// The handoff of one former owner with one view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandoffReceipt {
    /// The time since which it knows all its buckets: buckets that it does not list have earned at least since
    /// then.
    pub(crate) since: Timestamp,
    /// How many it lists, and how many of them were received.
    pub(crate) count: u32,
    pub(crate) taken: u32,
    pub(crate) stage: HandoffStage,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandoffStage {
    /// More is expected.
    Coming,
    /// All was received.
    Whole,
    /// It contradicts itself, or there was no room: it is ignored.
    Void,
}

impl HandoffLog {
    /// The time since which a former owner knows what it does not list, once all that it lists was received.
    pub(crate) fn since(&self, view: ViewId, from: &NodeId) -> Option<Timestamp> {
        let receipt = self.0.get(&(view, from.clone()))?;
        (receipt.stage == HandoffStage::Whole).then_some(receipt.since)
    }

    /// The handoff of a former owner for a view so far. The first version counts.
    pub(crate) fn of(&mut self, view: ViewId, from: &NodeId, new: HandoffReceipt) -> &mut HandoffReceipt {
        self.0.entry((view, from.clone())).or_insert(new)
    }

    /// Forgets handoffs of unknown views.
    pub(crate) fn keep(&mut self, is_known: impl Fn(ViewId) -> bool) {
        self.0.retain(|(view, _), _| is_known(*view));
    }
}
