//! Time limit of a simulation: the caller waits for it, and the request path lacks a core meanwhile.

use hivemind_core::{Clock, MonotonicClock, Timestamp};
use std::time::Duration;

/// Requests between two reads of the clock.
const LOOK_EVERY: u64 = 256;

/// The time limit of one simulation.
pub(super) struct TimeLimit {
    within: Duration,
    ends: Timestamp,
    seen: u64,
}

impl TimeLimit {
    pub(super) fn new(within: Duration) -> Self {
        Self { within, ends: MonotonicClock.now().saturating_add(within), seen: 0 }
    }

    pub(super) fn is_over(&self) -> bool {
        MonotonicClock.now() >= self.ends
    }

    /// Counts one more request and returns whether the time is over; reads the clock only now and then.
    pub(super) fn count_request(&mut self) -> bool {
        self.seen += 1;
        self.seen.is_multiple_of(LOOK_EVERY) && self.is_over()
    }

    pub(super) fn note(&self) -> String {
        format!("Stopped after {} s: later requests are omitted.", self.within.as_secs())
    }
}
