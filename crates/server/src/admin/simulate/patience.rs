//! How long a simulation may take. Whoever asks waits for it, and whoever decides lacks a core meanwhile.

use hivemind_core::{Clock, MonotonicClock, Timestamp};
use std::time::Duration;

/// So many requests between two looks at the clock.
const LOOK_EVERY: u64 = 256;

/// Ends what takes too long.
pub(super) struct Patience {
    within: Duration,
    ends: Timestamp,
    seen: u64,
}

impl Patience {
    pub(super) fn new(within: Duration) -> Self {
        Self { within, ends: MonotonicClock.now().saturating_add(within), seen: 0 }
    }

    pub(super) fn is_over(&self) -> bool {
        MonotonicClock.now() >= self.ends
    }

    /// The same after one more request; mostly without a look at the clock.
    pub(super) fn is_over_after_one_more(&mut self) -> bool {
        self.seen += 1;
        self.seen.is_multiple_of(LOOK_EVERY) && self.is_over()
    }

    pub(super) fn told(&self) -> String {
        format!("Ended after {} s: later requests are left out.", self.within.as_secs())
    }
}
