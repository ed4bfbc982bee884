//! What an operator is told of one counter.

use crate::owner::NodeId;
use crate::shares::Shares;
use hivemind_core::store::Verdict;
use std::collections::BTreeMap;

/// What an operator is told of one counter.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, Parts};
/// use hivemind_core::{Limit, Period, Timestamp};
/// use hivemind_mesh::{Decided, MeshOptions, testing::seated};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let limit = Limit::fixed_window(2, Period::MINUTE);
/// let looked_at = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
/// let mut nodes = seated(2, &MeshOptions::default(), now);
/// for node in &mut nodes {
///     // Its owner says so at once, and the other asks it.
///     if let Some(Decided::Now(sight)) = node.look(&looked_at, Context::at(now)) {
///         assert_eq!(sight.verdict.remaining, 2);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sight {
    /// What is left of it: what all nodes together may still admit, as far as its owner knows.
    pub verdict: Verdict,
    /// Who has what of that; none where the counter is not shared, or each node goes by what it knows.
    pub holding: Option<Holding>,
}

/// Who has what of one counter.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, Parts};
/// use hivemind_core::{Limit, Period, Timestamp};
/// use hivemind_mesh::{Decided, MeshOptions, testing::seated};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let limit = Limit::fixed_window(2, Period::MINUTE);
/// let looked_at = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
/// let mut nodes = seated(2, &MeshOptions::default(), now);
/// for node in &mut nodes {
///     // Its owner says so at once, and the other asks it.
///     if let Some(Decided::Now(sight)) = node.look(&looked_at, Context::at(now)) {
///         let holding = sight.holding.expect("it is shared");
///         assert!(holding.is_owner && holding.owner == node.member().id);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holding {
    /// Who keeps the counter.
    pub owner: NodeId,
    /// Whether that is this node.
    pub is_owner: bool,
    /// What may be spent here without a word to anybody.
    pub here: u64,
    /// What each node may spend so, this one included. An owner of an earlier version does not say; then what is left is
    /// the owner's own part.
    pub each: Option<BTreeMap<NodeId, u64>>,
    /// What nodes hold that are not named, since there are too many.
    pub others: u64,
    /// What may be held beside, at most: it was brought along from an earlier view, and only who has it knows.
    pub unaccounted: u64,
}

impl Sight {
    /// Of a counter of this node's alone.
    pub(super) fn alone(verdict: Verdict) -> Self {
        Self { verdict, holding: None }
    }
}

impl Holding {
    /// As the owner has it, or told it.
    pub(super) fn told(owner: NodeId, me: &NodeId, shares: Shares) -> Self {
        let Shares { each, others, unaccounted } = shares;
        let (is_owner, here) = (owner == *me, each.get(me).copied().unwrap_or(0));
        Self { owner, is_owner, here, each: Some(each), others, unaccounted }
    }

    /// Of a counter whose owner does not say who holds what.
    pub(super) fn untold(owner: NodeId, here: u64) -> Self {
        Self { owner, is_owner: false, here, each: None, others: 0, unaccounted: 0 }
    }
}
