//! The product's own engine, with the recorded time for its clock.

use super::recorded::Recorded;
use hivemind_core::store::{Op, StoreOptions};
use hivemind_core::{Cost, Descriptor, Limiter, LimiterOptions, ManualClock, Rules, StartError, Timestamp};
use std::time::Duration;

/// Recorded time between two sweeps.
const SWEEP_EVERY_MS: u64 = 60_000;

/// What became of a recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) allow: bool,
    pub(crate) remaining: Option<u64>,
    pub(crate) retry_after_ms: Option<u64>,
}

/// Decides recorded requests.
pub(crate) struct Engine {
    limiter: Limiter<ManualClock>,
    clock: ManualClock,
    swept_at_ms: u64,
}

impl Engine {
    pub(crate) fn new(rules: Rules, max_keys: usize) -> Result<Self, StartError> {
        let clock = ManualClock::default();
        let store = StoreOptions { max_keys, ..StoreOptions::default() };
        let options = LimiterOptions { store, ..LimiterOptions::default() };
        let limiter = Limiter::with_clock(rules, clock.clone(), options)?;
        limiter.close(); // Sweeps follow the recorded time, not the machine's.
        Ok(Self { limiter, clock, swept_at_ms: 0 })
    }

    pub(crate) fn decide(&mut self, recorded: &Recorded<'_>) -> Taken {
        self.clock.set(Timestamp::from_millis(recorded.t_ms));
        if recorded.t_ms.abs_diff(self.swept_at_ms) >= SWEEP_EVERY_MS {
            self.limiter.sweep();
            self.swept_at_ms = recorded.t_ms;
        }
        let entries: Vec<(&str, &str)> =
            recorded.entries.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
        let cost = Cost::new(recorded.hits);
        let descriptor = Descriptor { cost, op: Op::Spend, ..Descriptor::new(&entries) };
        let decision = self.limiter.check(&recorded.domain, &[descriptor]);
        Taken {
            allow: decision.is_allowed(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(whole_millis),
        }
    }

    /// Decisions that had to share a bucket for want of room.
    pub(crate) fn overflowed(&self) -> u64 {
        self.limiter.occupancy().overflowed
    }
}

/// Rounded up: a millisecond earlier would be refused.
fn whole_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
