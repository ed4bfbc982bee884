//! Log throttle: an event that may occur thousands of times in a second is logged once a minute.

use hivemind_core::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BETWEEN: Duration = Duration::from_secs(60);

/// The time of the next log line, and the number of events since the last one.
#[derive(Debug, Default)]
pub struct LogThrottle {
    next: AtomicU64,
    since: AtomicU64,
}

impl LogThrottle {
    pub const fn new() -> Self {
        Self { next: AtomicU64::new(0), since: AtomicU64::new(0) }
    }

    /// Records an event. Returns the number of events since the last line if a line is due.
    pub fn record(&self, now: Timestamp) -> Option<u64> {
        self.since.fetch_add(1, Ordering::Relaxed);
        let (next, order) = (self.next.load(Ordering::Relaxed), Ordering::Relaxed);
        let after = now.saturating_add(BETWEEN).as_nanos();
        let is_due = next <= now.as_nanos() && self.next.compare_exchange(next, after, order, order).is_ok();
        is_due.then(|| self.since.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when each event is logged, or only the first one ever.
    #[test]
    fn frequent_event_is_logged_first_and_then_once_per_minute() {
        let log_throttle = LogThrottle::new();
        for (second, logged) in
            [(1, Some(1)), (1, None), (30, None), (60, None), (61, Some(4)), (62, None), (300, Some(2))]
        {
            assert_eq!(log_throttle.record(Timestamp::from_millis(second * 1_000)), logged, "at {second} s");
        }
    }
}
