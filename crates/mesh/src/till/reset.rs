//! An operator reset a counter, or its connection was closed: what is known to be spent is spent no more. What members
//! hold stays with them and stays counted, and all totals go on, so nobody has to agree on anything.

use super::Till;
use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Timestamp};

impl Till {
    /// The counter begins anew, but for what members hold.
    pub(crate) fn reset(&mut self, limit: &Limit, now: Timestamp) {
        self.state = None;
        self.resets = self.resets.saturating_add(1);
        let held = self.held().saturating_add(self.missing);
        // A bucket's tokens that are held take up room in it.
        if held > 0 && !matches!(limit, Limit::TokenBucket(_)) {
            self.apply(limit, Action::Debit, held, now);
        }
        // What was spent and refused until now is neither given back nor seen any more.
        let there = self.accounts.iter().map(|account| account.heard.refused);
        self.refused_before = there.fold(self.refused, u64::saturating_add);
        self.refunded = self.refunded.saturating_add(self.refundable(limit, false));
        self.given_done =
            self.accounts.iter().map(|account| account.heard.given).fold(0, u64::saturating_add);
        self.spread_news();
    }
}
