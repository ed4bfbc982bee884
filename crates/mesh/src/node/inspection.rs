//! Inspection results of one counter, for operators.

use crate::frame::holdings::Shares;
use crate::view::NodeId;
use hivemind_core::store::Verdict;
use std::collections::BTreeMap;

/// The inspection of one counter.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, Parts};
/// use hivemind_core::{Limit, Period, Timestamp};
/// use hivemind_mesh::{NodeDecision, MeshOptions, testing::mesh_nodes};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let limit = Limit::fixed_window(2, Period::MINUTE);
/// let looked_at = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
/// let mut nodes = mesh_nodes(2, &MeshOptions::default(), now);
/// for node in &mut nodes {
///     // Its owner answers immediately, and the other node asks it.
///     if let Some(NodeDecision::Now(inspection)) = node.look(&looked_at, Context::at(now)) {
///         assert_eq!(inspection.verdict.remaining, 2);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// What all nodes together may still admit, as far as the owner knows.
    pub verdict: Verdict,
    /// How much each node holds; none where the counter is not shared, or each node uses its own state.
    pub holding: Option<Holding>,
}

/// How much of a counter each node holds.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, Parts};
/// use hivemind_core::{Limit, Period, Timestamp};
/// use hivemind_mesh::{NodeDecision, MeshOptions, testing::mesh_nodes};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let limit = Limit::fixed_window(2, Period::MINUTE);
/// let looked_at = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
/// let mut nodes = mesh_nodes(2, &MeshOptions::default(), now);
/// for node in &mut nodes {
///     // Its owner answers immediately, and the other node asks it.
///     if let Some(NodeDecision::Now(inspection)) = node.look(&looked_at, Context::at(now)) {
///         let holding = inspection.holding.expect("it is shared");
///         assert!(holding.is_owner && holding.owner == node.member().id);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holding {
    /// The owner of the counter.
    pub owner: NodeId,
    /// Whether that is this node.
    pub is_owner: bool,
    /// What may be spent here without a request to the owner.
    pub here: u64,
    /// What each node, including this one, may spend so. An owner of an earlier version does not report it;
    /// then the remainder is the owner's own part.
    pub each: Option<BTreeMap<NodeId, u64>>,
    /// What further nodes hold that are not listed, because there are too many.
    pub others: u64,
    /// The most that may be held in addition: holdings from an earlier view that only their holders know.
    pub unaccounted: u64,
}

impl Inspection {
    /// For a counter that only this node keeps.
    pub(super) fn local(verdict: Verdict) -> Self {
        Self { verdict, holding: None }
    }
}

impl Holding {
    /// The owner's holdings, computed here or received.
    pub(super) fn reported(owner: NodeId, me: &NodeId, shares: Shares) -> Self {
        let Shares { each, others, unaccounted } = shares;
        let (is_owner, here) = (owner == *me, each.get(me).copied().unwrap_or(0));
        Self { owner, is_owner, here, each: Some(each), others, unaccounted }
    }

    /// For a counter whose owner does not report holdings.
    pub(super) fn unreported(owner: NodeId, here: u64) -> Self {
        Self { owner, is_owner: false, here, each: None, others: 0, unaccounted: 0 }
    }
}
