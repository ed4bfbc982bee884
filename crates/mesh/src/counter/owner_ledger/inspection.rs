//! Inspection: what all nodes may still spend of a counter, for an operator.

use super::OwnerLedger;
use crate::frame::holdings::Shares;
use crate::view::NodeId;
use hivemind_core::store::Verdict;
use hivemind_core::{Limit, Timestamp};

impl OwnerLedger {
    /// What all nodes may still spend together, and what each may spend by itself, including the owner.
    /// Members' spending since their last update is unknown. Counted refusals do not lower it: no request is
    /// refused for them while there is allowance.
    pub(crate) fn inspect(&self, limit: &Limit, owner: &NodeId, now: Timestamp) -> (Verdict, Shares) {
        let verdict = self.peek(limit, 0, now).verdict;
        let mut shares = Shares { unaccounted: self.cold.get().missing, ..Shares::default() };
        shares.add(owner, verdict.available);
        self.for_each_holding(owner, |peer, held| shares.add(peer, held));
        // After a reload to a lower limit, members may hold more than the limit.
        let all = shares.sum().min(u64::from(limit.burst()));
        (Verdict { available: all, remaining: all, ..verdict }, shares.truncated())
    }
}
