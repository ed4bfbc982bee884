//! Who has what of one counter, for an operator who looks at it.

use super::Node;
use crate::owner::NodeId;
use crate::page::Side;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::collections::BTreeMap;

/// Who has what of one counter, as far as a node can say.
///
/// ```
/// use hivemind_core::{Limit, Period, Timestamp, store::Key};
/// use hivemind_mesh::{MeshOptions, sim::seated};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let limit = Limit::fixed_window(2, Period::MINUTE);
/// let mut nodes = seated(3, &MeshOptions::default(), now);
/// let holding = nodes.iter_mut().filter_map(|node| node.holding(Key::from_bits(7, 11), &limit, now));
/// assert_eq!(holding.filter(|holding| holding.is_owner).count(), 1); // All agree on who that is.
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
    /// What each node may spend, this one included; only its owner knows that.
    pub each: Option<BTreeMap<NodeId, u64>>,
}

impl Node {
    /// Who has what of one counter; none where this node knows no view.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Timestamp, store::Key};
    /// # use hivemind_mesh::{MeshOptions, Node, NodeId};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
    /// assert_eq!(node.holding(Key::from_bits(7, 11), &limit, now), None); // It looks for a mesh.
    /// # Ok::<(), hivemind_mesh::UnusableName>(())
    /// ```
    pub fn holding(&mut self, key: Key, limit: &Limit, now: Timestamp) -> Option<Holding> {
        let now = self.mesh_time(now);
        let Self { shelf, council, options, .. } = self;
        let tag = shelf.tag(council, options, (key, limit), now);
        let me = council.me.id.clone();
        let current = council.current(now)?.owner(key)?.id.clone();
        let mut book = shelf.books.get_mut(&key);
        let Some(page) = book.as_mut().and_then(|book| book.page(tag)) else {
            // Nobody has asked here for it yet.
            let is_owner = current == me;
            return Some(Holding { owner: current, is_owner, here: 0, each: is_owner.then(BTreeMap::new) });
        };
        let owner = page.view.owner(key).map_or(current, |owner| owner.id.clone());
        let moment = page.moment_of(limit, options, now);
        let is_owner = matches!(page.side, Side::Till(_));
        let (here, each) = match &page.side {
            Side::Purse(purse) => (u64::try_from(purse.spendable(limit)).unwrap_or(0), None),
            Side::Till(till) => {
                let here = till.left(limit, moment);
                let mut each = BTreeMap::from([(me.clone(), here)]);
                till.lent(&me, |peer, lent| {
                    let sum = each.entry(peer.clone()).or_insert(0);
                    *sum = sum.saturating_add(lent);
                });
                (here, Some(each))
            }
        };
        Some(Holding { owner, is_owner, here, each })
    }
}
