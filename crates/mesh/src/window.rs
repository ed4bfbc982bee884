//! Window numbers.

use hivemind_core::{Limit, Timestamp};
use std::time::Duration;

/// The number of the window of `limit` at `time`; 0 for a bucket, which has none.
#[must_use]
pub fn tag_at(limit: &Limit, time: Timestamp) -> u64 {
    match limit {
        Limit::TokenBucket(_) => 0,
        _ => time.as_nanos() / period_nanos(limit),
    }
}

/// Whether unused shares of a window pass to other members when their holders leave. Shorter windows end before
/// that is worth its messages; a sliding window also weighs counts that only the leaver knew.
pub(crate) fn is_left_to_others(limit: &Limit) -> bool {
    matches!(limit, Limit::FixedWindow(_)) && limit.period().length() >= LONG
}

/// From this length on a window is long.
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn period_nanos(limit: &Limit) -> u64 {
    limit.period().nanos()
}
