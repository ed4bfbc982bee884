//! Counts of fallback decisions by policy, with throttled warnings.

use super::OnError;
use hivemind_core::Timestamp;
use hivemind_core::store::StoreError;
use hivemind_telemetry::Fallbacks;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval of warnings during an outage.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Outage {
    open: AtomicU64,
    closed: AtomicU64,
    local: AtomicU64,
    start: AtomicU64,
    /// Number of requests since the last warning.
    unlogged: AtomicU64,
    warned_at: AtomicU64,
}

impl Outage {
    pub(super) fn fallbacks(&self) -> Fallbacks {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Fallbacks {
            open: read(&self.open),
            closed: read(&self.closed),
            local: read(&self.local),
            start: read(&self.start),
        }
    }

    pub(super) fn count_before_start(&self, charges: usize) {
        self.start.fetch_add(charges as u64, Ordering::Relaxed);
    }

    pub(super) fn count(&self, policy: OnError, charges: usize) {
        let counter = match policy {
            OnError::Open => &self.open,
            OnError::Closed => &self.closed,
            OnError::Local => &self.local,
        };
        counter.fetch_add(charges as u64, Ordering::Relaxed);
    }

    /// Logs a warning for this request, unless the interval has not passed.
    pub(super) fn warn(&self, error: &StoreError, now: Timestamp) {
        if let Some(requests) = self.unlogged_at(now) {
            let were = if requests == 1 { "request was" } else { "requests were" };
            tracing::warn!(
                requests,
                "{error}; {requests} {were} decided by `on_error` since the last warning"
            );
        }
    }

    /// Counts one more request. Returns the number to log if the interval has passed.
    fn unlogged_at(&self, now: Timestamp) -> Option<u64> {
        self.unlogged.fetch_add(1, Ordering::Relaxed);
        let warned_at = self.warned_at.load(Ordering::Relaxed);
        // Absolute difference: after the clock was set back, logging must not pause until it has caught up.
        let apart = Duration::from_nanos(now.as_nanos().abs_diff(warned_at));
        let is_due = apart >= WARNING_INTERVAL;
        // Of several threads only one logs.
        let order = Ordering::Relaxed;
        let warns =
            is_due && self.warned_at.compare_exchange(warned_at, now.as_nanos(), order, order).is_ok();
        warns.then(|| self.unlogged.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::Outage;
    use hivemind_core::Timestamp;

    // Seen failing on: `now >= warned_at + WARNING_INTERVAL`, which logs nothing after the clock was set back.
    #[test]
    fn outage_is_logged_every_ten_seconds_with_request_count() {
        let outage = Outage::default();
        for (at_s, expected) in [
            (100, Some(1)),
            (100, None),
            (105, None),
            (109, None),
            (110, Some(4)),
            (111, None),
            (50, Some(2)),
            (59, None),
            (60, Some(2)),
        ] {
            assert_eq!(outage.unlogged_at(Timestamp::from_millis(at_s * 1_000)), expected, "at {at_s} s");
        }
    }
}
