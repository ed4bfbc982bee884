//! What all may still spend of a counter, for an operator who looks at it.

use super::Till;
use crate::owner::NodeId;
use crate::shares::Shares;
use hivemind_core::store::Verdict;
use hivemind_core::{Limit, Timestamp};

impl Till {
    /// What all may still spend together, and what of that each may spend by itself, the owner among them. What members
    /// spent since they last spoke is not known yet. Refused hits that are counted do not lower it: nobody is
    /// refused for them while there are rights.
    pub(crate) fn survey(&self, limit: &Limit, owner: &NodeId, now: Timestamp) -> (Verdict, Shares) {
        let verdict = self.peek(limit, 0, now).verdict;
        let mut shares = Shares { unaccounted: self.aside.get().missing, ..Shares::default() };
        shares.add(owner, verdict.available);
        self.lent(owner, |peer, held| shares.add(peer, held));
        // After a reload to less, members may hold more than there is.
        let all = shares.sum().min(u64::from(limit.burst()));
        (Verdict { available: all, remaining: all, ..verdict }, shares.told())
    }
}
