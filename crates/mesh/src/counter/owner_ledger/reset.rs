//! Reset of a counter: an operator's reset, or a closed connection. Known spending is forgotten. Members keep
//! what they hold and it stays counted; all totals go on, so no agreement is needed. Refunds are announced in
//! the same way: a member that had its whole limit would not spend them otherwise.

use super::OwnerLedger;
use crate::counter::recent_instant::RecentInstant;
use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Timestamp};

impl OwnerLedger {
    /// The clock was set back: actions done in what is now the future may be repeated.
    pub(crate) fn forget_times(&mut self, now: Timestamp) {
        self.cold.change(|cold| cold.recalled = None);
        let long_ago = RecentInstant::long_before(now);
        for account in &mut self.accounts {
            (account.sent, account.active) = (long_ago, long_ago);
        }
    }

    /// Resets the counter, except for what members hold.
    pub(crate) fn reset(&mut self, limit: &Limit, now: Timestamp) {
        self.state = None;
        let held = self.outstanding();
        // A bucket's held tokens occupy room in it.
        if held > 0 && !matches!(limit, Limit::TokenBucket(_)) {
            self.apply(limit, Action::Debit, held, now);
        }
        // Earlier spending and refusals are neither refunded nor shown any more.
        let (refused, given) = (self.all_refused(), self.all_given());
        let refundable = self.refundable(limit, false);
        self.cold.change(|cold| {
            cold.resets = cold.resets.saturating_add(1);
            cold.refused_before = refused;
            cold.refunded = cold.refunded.saturating_add(refundable);
            cold.given_done = given;
        });
        self.mark_all_dirty();
    }

    /// Announces a refund of `given`. No node alone admits more than the limit, whatever it is granted: a
    /// member that may already have admitted that much restarts its spent total, as after a reset. Its holding
    /// is unchanged, so no more than the refund can be spent.
    pub(crate) fn pass_on(&mut self, limit: &Limit, given: u64, decides: bool, now: Timestamp) {
        if decides || given == 0 {
            return; // Members without allowance have no total to restart.
        }
        let left = self.left(limit, now);
        let is_kept_from_it = match limit {
            // The state of a member's grant guard is not known here. If as much was available before, no
            // request was refused for it.
            Limit::TokenBucket(_) => left < given.saturating_mul(2),
            _ => self.most_by_one(left) > u64::from(limit.burst()),
        };
        if is_kept_from_it {
            self.cold.change(|cold| cold.resets = cold.resets.saturating_add(1));
            self.mark_all_dirty();
        }
    }
}
