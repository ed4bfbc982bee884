//! Windows by their numbers.

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

/// Whether the parts of a window that nobody has touched go to others when members leave. Shorter ones are whole again before that
/// is worth its messages; a sliding one also weighs what only the one who left knew.
pub(crate) fn is_left_to_others(limit: &Limit) -> bool {
    matches!(limit, Limit::FixedWindow(_)) && limit.period().length() >= LONG
}

/// From how long on a window is long.
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn period_nanos(limit: &Limit) -> u64 {
    limit.period().nanos()
}
