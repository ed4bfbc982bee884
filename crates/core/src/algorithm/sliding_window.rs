//! The sliding window algorithm: the current window's count plus the share of the
//! previous window's count that a window ending now still covers. Two counters instead
//! of a log of requests: constant memory, and an estimate that assumes evenly spread
//! requests in the previous window. Invariant: an admission never raises the estimate
//! above the limit, and no aligned window admits more than the limit.

use super::{CurrentCounter, State, clamped, window_at};
use crate::limit::Window;
use crate::time::Timestamp;
use crate::verdict::Cost;

/// The counts of the current and the previous window at one moment.
pub(super) struct WindowCounts<'a> {
    limit: &'a Window,
    now: Timestamp,
    window: u64,
    /// When this window begins, in nanoseconds.
    start: u64,
    previous: u32,
    current: u32,
    /// The previous window's share of the estimate, in whole requests, rounded up.
    carried: u64,
}

impl<'a> WindowCounts<'a> {
    #[inline]
    pub(super) fn at(limit: &'a Window, state: Option<State>, now: Timestamp) -> Self {
        let window = window_at(state.map(|state| state.since), limit.nanos(), now);
        let (previous, current) = match state {
            Some(state) if state.since >= window => state.halves(),
            Some(state) if state.since.checked_add(1) == Some(window) => (state.halves().1, 0),
            _ => (0, 0),
        };
        let start = window.saturating_mul(limit.nanos());
        Self { limit, now, window, start, previous, current, carried: 0 }.weighed()
    }

    /// When this window ends, or the one after it.
    #[inline]
    fn end(&self) -> u64 {
        self.start.saturating_add(self.limit.nanos())
    }

    #[inline]
    fn next_end(&self) -> u64 {
        self.end().saturating_add(self.limit.nanos())
    }

    #[inline]
    fn weighed(self) -> Self {
        if self.previous == 0 {
            return Self { carried: 0, ..self };
        }
        let period = self.limit.nanos();
        // A clock that stepped back into an earlier window counts as the start of this one.
        let covered = self.end().saturating_sub(self.now.as_nanos()).min(period);
        if self.current >= self.limit.requests() {
            // This window's count leaves no room: only whether the share is above zero matters.
            return Self { carried: u64::from(covered > 0), ..self };
        }
        let carried = match u64::from(self.previous).checked_mul(covered) {
            Some(weight) => weight.div_ceil(period),
            None => clamped((u128::from(self.previous) * u128::from(covered)).div_ceil(u128::from(period))),
        };
        Self { carried, ..self }
    }

    /// The unused budget if the limit were `requests`.
    fn room(&self, requests: u64) -> u64 {
        requests.saturating_sub(u64::from(self.current) + self.carried)
    }

    /// How far into a window, in nanoseconds, its predecessor's `count` has decayed to `room`.
    #[inline]
    fn faded_after(&self, count: u32, room: u64) -> u64 {
        let (period, count) = (self.limit.nanos(), u64::from(count.max(1)));
        let still_covered = match room.checked_mul(period) {
            Some(weight) => weight / count,
            None => clamped(u128::from(room) * u128::from(period) / u128::from(count)),
        };
        period.saturating_sub(still_covered)
    }

    /// When neither window counts any longer.
    #[inline]
    fn forgotten_at(&self) -> u64 {
        match (self.previous, self.current) {
            // Not before its window begins: without the state, a clock that stepped back would select another window.
            (0, 0) => self.start,
            (_, 0) => self.end(),
            _ => self.next_end(),
        }
    }
}

impl CurrentCounter for WindowCounts<'_> {
    #[inline]
    fn fits(&self, cost: Cost) -> bool {
        // Rounding up changes no decision: whole requests are compared with whole requests.
        let used = (u64::from(self.current) + self.carried).saturating_add(cost.get());
        used <= u64::from(self.limit.requests())
    }

    #[inline]
    fn take(&mut self, cost: Cost) {
        self.current = self.current.saturating_add(u32::try_from(cost.get()).unwrap_or(u32::MAX));
    }

    fn give_back(&mut self, cost: Cost) {
        let cost = u32::try_from(cost.get()).unwrap_or(u32::MAX);
        // The part that this window did not count was counted in the previous one.
        let previous = self.previous.saturating_sub(cost.saturating_sub(self.current));
        let current = self.current.saturating_sub(cost);
        *self = Self { previous, current, ..*self }.weighed();
    }

    /// Counts to one past the limit at most: enough for a peek to find it exceeded, and the
    /// wait does not grow however many requests a client repeats.
    #[inline]
    fn count_refused(&mut self, cost: Cost) {
        if self.current > self.limit.requests() {
            return; // The usual case for a client that keeps sending requests.
        }
        let over = u64::from(self.limit.requests()) + 1;
        self.take(Cost::new(cost.get().min(self.room(over))));
    }

    #[inline]
    fn remaining(&self) -> u64 {
        self.room(u64::from(self.limit.requests()))
    }

    #[inline]
    fn reset_nanos(&self) -> u64 {
        match (self.previous, self.current) {
            (0, 0) => 0,
            _ => self.forgotten_at().saturating_sub(self.now.as_nanos()),
        }
    }

    #[inline]
    fn wait_nanos(&self, cost: Cost, _: u64) -> Option<u64> {
        let room = u64::from(self.limit.requests()).checked_sub(cost.get())?;
        let fits_at = match room.checked_sub(u64::from(self.current)) {
            // The previous window's count decays far enough before this window ends.
            Some(room) => self.start.saturating_add(self.faded_after(self.previous, room)),
            // This window's own count is too high: it has to become the previous one's, and decay.
            None => self.end().saturating_add(self.faded_after(self.current, room)),
        };
        Some(fits_at.saturating_sub(self.now.as_nanos()))
    }

    #[inline]
    fn blank_at(&self, _: u64) -> Timestamp {
        Timestamp::from_nanos(self.forgotten_at())
    }

    #[inline]
    fn state(&self) -> State {
        State::from_halves(self.window, self.previous, self.current)
    }
}
