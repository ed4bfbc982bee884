//! Windows by their numbers.

use hivemind_core::{Limit, Timestamp};

/// The number of the window of `limit` at `time`; 0 for a bucket, which has none.
pub(crate) fn tag_at(limit: &Limit, time: Timestamp) -> u64 {
    match limit {
        Limit::TokenBucket(_) => 0,
        _ => time.as_nanos() / period_nanos(limit),
    }
}

pub(crate) fn period_nanos(limit: &Limit) -> u64 {
    limit.period().nanos()
}
