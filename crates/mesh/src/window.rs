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

/// The end of a window; for a bucket, the time of its next token.
pub(crate) fn ends_at(limit: &Limit, tag: u64, now: Timestamp) -> Timestamp {
    match limit {
        Limit::TokenBucket(_) => now.saturating_add(limit.period().length() / limit.requests().max(1)),
        _ => Timestamp::from_nanos(tag.saturating_add(1).saturating_mul(period_nanos(limit))),
    }
}
