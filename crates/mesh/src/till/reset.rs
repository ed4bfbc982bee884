//! An operator reset a counter, or its connection was closed: what is known to be spent is spent no more. What members
//! hold stays with them and stays counted, and all totals go on, so nobody has to agree on anything. What was given back is
//! passed on by the same word: a member that had its whole limit would not spend it otherwise.

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

    /// So much was given back, by whoever it was. No node admits more than the limit by itself, whatever it is granted: one that
    /// may have had that much already is told to reckon anew, as after a reset. What it holds stays as it is, so nothing more
    /// than what was given back can be spent.
    pub(crate) fn pass_on(&mut self, limit: &Limit, given: u64, decides: bool, now: Timestamp) {
        if decides || given == 0 {
            return; // Who has nothing of its own reckons nothing.
        }
        let left = self.left(limit, now);
        let is_kept_from_it = match limit {
            // What a member believes of a bucket is not known here. Where as much was there before, nobody was refused for it.
            Limit::TokenBucket(_) => left < given.saturating_mul(2),
            _ => self.most_by_one(left) > u64::from(limit.burst()),
        };
        if is_kept_from_it {
            self.aside.change(|aside| aside.resets = aside.resets.saturating_add(1));
            self.spread_news();
        }
    }
}
