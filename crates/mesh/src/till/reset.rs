//! An operator reset a counter, or its connection was closed: what is known to be spent is spent no more. What members
//! hold stays with them and stays counted, and all totals go on, so nobody has to agree on anything.

use super::Till;
use crate::lately::Lately;
use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Timestamp};

impl Till {
    /// The clock was set back: whatever was done in what is now the future may be done again.
    pub(crate) fn forget_times(&mut self, now: Timestamp) {
        self.aside.change(|aside| aside.recalled = None);
        let long_ago = Lately::long_before(now);
        for account in &mut self.accounts {
            (account.told, account.active) = (long_ago, long_ago);
        }
    }

    /// The counter begins anew, but for what members hold.
    pub(crate) fn reset(&mut self, limit: &Limit, now: Timestamp) {
        self.state = None;
        let held = self.outstanding();
        // A bucket's tokens that are held take up room in it.
        if held > 0 && !matches!(limit, Limit::TokenBucket(_)) {
            self.apply(limit, Action::Debit, held, now);
        }
        // What was spent and refused until now is neither given back nor seen any more.
        let (refused, given) = (self.all_refused(), self.all_given());
        let refundable = self.refundable(limit, false);
        self.aside.change(|aside| {
            aside.resets = aside.resets.saturating_add(1);
            aside.refused_before = refused;
            aside.refunded = aside.refunded.saturating_add(refundable);
            aside.given_done = given;
        });
        self.spread_news();
    }
}
