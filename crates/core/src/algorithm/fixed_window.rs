//! The fixed window: a count that starts anew at each multiple of the period
//! since the Unix epoch, as the reference rate limit service has it. The window's
//! number is part of the state, so a count of an old window can never be read as
//! one of this. Invariant: no window admits more than its limit.

use super::{Counter, State, window_at};
use crate::limit::Window;
use crate::time::Timestamp;
use crate::verdict::Cost;

/// What one window has counted by now.
pub(super) struct Count<'a> {
    limit: &'a Window,
    now: Timestamp,
    window: u64,
    /// When the window begins, and when it is over.
    start: Timestamp,
    end: Timestamp,
    counted: u64,
}

impl<'a> Count<'a> {
    #[inline]
    pub(super) fn at(limit: &'a Window, state: Option<State>, now: Timestamp) -> Self {
        let window = window_at(state.map(|state| state.since), limit.nanos(), now);
        // An older window is over. A newer one is a clock set back: its count comes along.
        let counted = state.filter(|state| state.since >= window).map_or(0, |state| state.count);
        let start = window.saturating_mul(limit.nanos());
        let (start, end) =
            (Timestamp::from_nanos(start), Timestamp::from_nanos(start.saturating_add(limit.nanos())));
        Self { limit, now, window, start, end, counted }
    }
}

impl Counter for Count<'_> {
    #[inline]
    fn fits(&self, cost: Cost) -> bool {
        self.counted.saturating_add(cost.get()) <= u64::from(self.limit.requests())
    }

    #[inline]
    fn take(&mut self, cost: Cost) {
        self.counted = self.counted.saturating_add(cost.get());
    }

    fn give_back(&mut self, cost: Cost) {
        self.counted = self.counted.saturating_sub(cost.get());
    }

    #[inline]
    fn count_refused(&mut self, cost: Cost) {
        self.take(cost);
    }

    #[inline]
    fn remaining(&self) -> u64 {
        u64::from(self.limit.requests()).saturating_sub(self.counted)
    }

    #[inline]
    fn reset_nanos(&self) -> u64 {
        self.end.as_nanos().saturating_sub(self.now.as_nanos())
    }

    #[inline]
    fn wait_nanos(&self, cost: Cost, reset_nanos: u64) -> Option<u64> {
        (cost.get() <= u64::from(self.limit.requests())).then_some(reset_nanos)
    }

    #[inline]
    fn blank_at(&self, _: u64) -> Timestamp {
        // Not before its window begins: a clock that stepped back would find itself in another without it.
        if self.counted == 0 { self.start } else { self.end }
    }

    #[inline]
    fn state(&self) -> State {
        State { since: self.window, count: self.counted }
    }
}
