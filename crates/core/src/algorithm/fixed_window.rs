//! The fixed window algorithm: a count that restarts at each multiple of the period
//! since the Unix epoch, like the reference rate limit service. The window's number is
//! part of the state, so an old window's count cannot be read as the current one.
//! Invariant: no window admits more than its limit.

use super::{CurrentCounter, State, window_at};
use crate::limit::Window;
use crate::time::Timestamp;
use crate::verdict::Cost;

/// The count of one window at one moment.
pub(super) struct WindowCount<'a> {
    limit: &'a Window,
    now: Timestamp,
    window: u64,
    /// When the window begins and ends.
    start: Timestamp,
    end: Timestamp,
    counted: u64,
}

impl<'a> WindowCount<'a> {
    #[inline]
    pub(super) fn at(limit: &'a Window, state: Option<State>, now: Timestamp) -> Self {
        let window = window_at(state.map(|state| state.since), limit.nanos(), now);
        // An older window has ended. A newer one means that the clock was set back: its count is kept.
        let counted = state.filter(|state| state.since >= window).map_or(0, |state| state.count);
        let start = window.saturating_mul(limit.nanos());
        let (start, end) =
            (Timestamp::from_nanos(start), Timestamp::from_nanos(start.saturating_add(limit.nanos())));
        Self { limit, now, window, start, end, counted }
    }
}

impl CurrentCounter for WindowCount<'_> {
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
        // Not before its window begins: without the state, a clock that stepped back would select another window.
        if self.counted == 0 { self.start } else { self.end }
    }

    #[inline]
    fn state(&self) -> State {
        State { since: self.window, count: self.counted }
    }
}
