//! Time limit of a simulation: the caller waits for it, and the request path lacks a core meanwhile.

use hivemind_core::{Clock, MonotonicClock, Timestamp};
use hivemind_engine::rule_files::Cancellation;
use std::time::Duration;

/// Requests between two reads of the clock.
const LOOK_EVERY: u64 = 256;

/// The time limit of one simulation.
pub(super) struct TimeLimit {
    within: Duration,
    ends: Timestamp,
    seen: u64,
    /// Set when the caller disconnects, and at the time limit.
    cancellation: Cancellation,
}

impl TimeLimit {
    pub(super) fn new(within: Duration, cancellation: Cancellation) -> Self {
        Self { within, ends: MonotonicClock.now().saturating_add(within), seen: 0, cancellation }
    }

    pub(super) fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    pub(super) fn is_over(&self) -> bool {
        self.cancellation.is_set() || MonotonicClock.now() >= self.ends
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
