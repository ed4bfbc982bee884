//! Holdings: what each node may still spend of one counter without a request, as its owner knows it.

use crate::view::NodeId;
use std::collections::BTreeMap;

/// The most listed nodes: as many as a view has. With the longest names they fit into a frame.
pub(crate) const MOST_SHARES: usize = crate::view::View::MOST_MEMBERS;

/// What each node holds of one counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    pub(crate) each: BTreeMap<NodeId, u64>,
    /// The sum of unlisted nodes: a peer that invents names cannot make the list longer.
    pub(crate) others: u64,
    /// The most that may be held in addition: holdings from an earlier view that only their holders know.
    pub(crate) unaccounted: u64,
}

impl Shares {
    pub(crate) fn add(&mut self, node: &NodeId, held: u64) {
        let sum = self.each.entry(node.clone()).or_insert(0);
        *sum = sum.saturating_add(held);
    }

    /// What all of them hold.
    pub(crate) fn sum(&self) -> u64 {
        self.each.values().copied().fold(self.others, u64::saturating_add)
    }

    /// The same, limited to the nodes that hold most.
    pub(crate) fn truncated(mut self) -> Self {
        if self.each.len() > MOST_SHARES {
            let mut all: Vec<(NodeId, u64)> = std::mem::take(&mut self.each).into_iter().collect();
            all.sort_by(|(one, x), (other, y)| y.cmp(x).then_with(|| one.cmp(other)));
            let rest = all.split_off(MOST_SHARES);
            self.others = rest.iter().map(|(_, held)| *held).fold(self.others, u64::saturating_add);
            self.each = all.into_iter().collect();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when the first names in order are listed, whatever they hold.
    #[test]
    fn largest_holdings_are_listed_and_the_sum_is_kept() {
        let mut shares = Shares { others: 3, ..Shares::default() };
        for number in 0..200_u64 {
            shares.add(&NodeId::new(format!("node-{number:03}")), number);
            shares.add(&NodeId::new(format!("node-{number:03}")), number);
        }
        let sum = shares.sum();
        let truncated = shares.truncated();
        assert_eq!((truncated.each.len(), truncated.sum()), (MOST_SHARES, sum));
        assert_eq!(truncated.each.get(&NodeId::new("node-199")), Some(&398));
        assert_eq!(truncated.each.get(&NodeId::new("node-071")), None);
        assert_eq!(truncated.others, 3 + 2 * (0..72).sum::<u64>());
    }
}
