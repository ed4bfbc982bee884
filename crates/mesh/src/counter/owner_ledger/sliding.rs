//! Sliding windows in the ledger. Each weighs the previous one, which may still be spent from: a slow clock
//! is in it while a fast one has opened the next. Later counts are carried over when the counter is opened
//! next.

use super::OwnerLedger;
use hivemind_core::algorithm::{Action, State};
use hivemind_core::{Limit, Timestamp};

impl OwnerLedger {
    /// Starts the window after `last`, which it weighs.
    pub(crate) fn follow(&mut self, last: &Self, tag: u64) {
        self.state = last.state;
        self.carried = last.counted_in(tag);
    }

    /// Starts the window after an unknown one: as if that had been full.
    pub(crate) fn follow_a_full_one(&mut self, limit: &Limit, start: Timestamp) {
        self.apply(limit, Action::Debit, u64::from(limit.requests()), start);
        self.carried = u32::MAX;
    }

    /// What it has counted in the window with this number.
    fn counted_in(&self, tag: u64) -> u32 {
        let (window, counts) = self.state.map_or((0, 0), State::bits);
        if window == tag { u32::try_from(counts & u64::from(u32::MAX)).unwrap_or(u32::MAX) } else { 0 }
    }

    /// Adds what the previous window has counted since to its weight in this one (number `tag`).
    pub(crate) fn weigh(&mut self, last: &Self, tag: u64) {
        let counted = tag.checked_sub(1).map_or(0, |before| last.counted_in(before));
        let more = counted.saturating_sub(self.carried);
        let was_weighed = !(self.inherited && self.carried == 0);
        self.carried = self.carried.max(counted);
        if more == 0 || !was_weighed {
            return; // What a ledger from another view lacks is already weighed in it.
        }
        let (window, counts) = self.state.map_or((tag, 0), State::bits);
        if window == tag {
            let previous = (counts >> 32).saturating_add(u64::from(more)).min(u64::from(u32::MAX));
            self.state = Some(State::from_bits(window, previous << 32 | counts & u64::from(u32::MAX)));
        }
    }
}
