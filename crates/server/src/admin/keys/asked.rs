//! What is asked of a key, as it comes: bounded, and with nothing in it that is not known.

use crate::admin::descriptor::{RawEntry, RawKey};
use crate::admin::reply::senseless;
use crate::admin::time::millis;
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

/// A whole number, also where it is written as `372.0`: to JSON that is the same.
#[derive(Deserialize)]
#[serde(try_from = "serde_json::Number")]
struct Whole(u64);

impl TryFrom<serde_json::Number> for Whole {
    type Error = &'static str;

    fn try_from(number: serde_json::Number) -> Result<Self, Self::Error> {
        /// As far as a fraction tells every whole number.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and within bounds"
        )]
        let whole =
            |number: f64| (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64);
        let whole = number.as_u64().or_else(|| number.as_f64().and_then(whole));
        let is_only_too_large =
            number.as_f64().is_some_and(|number| number >= EXACT && number.fract() == 0.0);
        whole.map(Self).ok_or(if is_only_too_large {
            "the number is too large; write it in digits, 18446744073709551615 at most"
        } else {
            "a number is whole, and not less than 0"
        })
    }
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
    /// How much is to be given back.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    pub(super) fn extra(&self) -> Result<u64, Response> {
        match self.extra {
            0 => Err(senseless("`extra` is at least 1.")),
            extra => Ok(extra),
        }
    }
}

impl RawBlock {
    /// Until when, to the millisecond.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    pub(super) fn until(&self, now: Timestamp) -> Result<Timestamp, Response> {
        match (self.for_ms, self.until_ms) {
            (Some(0), None) => Err(senseless("`for_ms` is at least 1.")),
            (Some(span), None) => Ok(Timestamp::from_millis(millis(now).saturating_add(span))),
            (None, Some(until)) => Ok(Timestamp::from_millis(until)),
            _ => Err(senseless("Send `for_ms` or `until_ms`, and not both.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Whole;

    // Seen failing on: one text for all of them.
    #[test]
    fn a_number_that_is_only_too_large_is_told_so() {
        let read = |text: &str| serde_json::from_str::<Whole>(text).map(|Whole(number)| number);
        for (text, number) in [("0", 0), ("372.0", 372), ("18446744073709551615", u64::MAX)] {
            assert_eq!(read(text).unwrap(), number);
        }
        for (text, told) in [
            ("18446744073709551616", "too large"),
            ("1e17", "too large"),
            ("-1", "not less than 0"),
            ("1.5", "is whole"),
            ("-18446744073709551616", "not less than 0"),
        ] {
            let error = read(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
