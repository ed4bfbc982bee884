//! Times and durations in API responses, in milliseconds.

use hivemind_core::{Period, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

/// Milliseconds since the Unix epoch.
pub(super) const fn millis(moment: Timestamp) -> u64 {
    moment.as_nanos() / 1_000_000
}

/// A duration, rounded up: after that time it has passed.
pub(super) fn span_ms(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A period; a whole number unless it has a fraction of a millisecond.
pub(super) fn period_ms(period: Period) -> Value {
    let nanos = period.nanos();
    if nanos.is_multiple_of(1_000_000) {
        return json!(nanos / 1_000_000);
    }
    json!(period.length().as_secs_f64() * 1_000.0)
}
