//! Request bodies of key operations: bounded, and without unknown members.

use crate::descriptor::{RawEntry, RawKey};
use crate::reply::senseless;
use crate::time::millis;
use crate::whole::Whole;
use axum::response::Response;
use hivemind_core::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGrantFields {
    domain: String,
    entries: Vec<RawEntry>,
    extra: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBlockFields {
    domain: String,
    entries: Vec<RawEntry>,
    for_ms: Option<Whole>,
    until_ms: Option<Whole>,
}

#[derive(Deserialize)]
#[serde(from = "RawGrantFields")]
pub(super) struct RawGrant {
    pub(super) key: RawKey,
    extra: u64,
}

#[derive(Deserialize)]
#[serde(from = "RawBlockFields")]
pub(super) struct RawBlock {
    pub(super) key: RawKey,
    for_ms: Option<u64>,
    until_ms: Option<u64>,
}

impl From<RawGrantFields> for RawGrant {
    fn from(RawGrantFields { domain, entries, extra }: RawGrantFields) -> Self {
        Self { key: RawKey { domain, entries }, extra: extra.0 }
    }
}

impl From<RawBlockFields> for RawBlock {
    fn from(RawBlockFields { domain, entries, for_ms, until_ms }: RawBlockFields) -> Self {
        let [for_ms, until_ms] = [for_ms, until_ms].map(|number| number.map(|Whole(number)| number));
        Self { key: RawKey { domain, entries }, for_ms, until_ms }
    }
}

impl RawGrant {
    /// The number of hits to return.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    pub(super) fn extra(&self) -> Result<u64, Response> {
        match self.extra {
            0 => Err(senseless("`extra` must be at least 1.")),
            extra => Ok(extra),
        }
    }
}

impl RawBlock {
    /// The end of the block, in milliseconds.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    pub(super) fn until(&self, now: Timestamp) -> Result<Timestamp, Response> {
        match (self.for_ms, self.until_ms) {
            (Some(0), None) => Err(senseless("`for_ms` must be at least 1.")),
            (Some(span), None) => Ok(Timestamp::from_millis(millis(now).saturating_add(span))),
            (None, Some(until)) => Ok(Timestamp::from_millis(until)),
            _ => Err(senseless("Send either `for_ms` or `until_ms`.")),
        }
    }
}
