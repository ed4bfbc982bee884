//! Integers in request bodies.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::num::NonZeroU32;

/// An integer, also when written as `372.0`, which is the same number in JSON.
#[derive(Deserialize)]
#[serde(try_from = "serde_json::Number")]
pub(super) struct Whole(pub(super) u64);

impl TryFrom<serde_json::Number> for Whole {
    type Error = &'static str;

    fn try_from(number: serde_json::Number) -> Result<Self, Self::Error> {
        /// Up to here a float represents every integer.
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
            "the number is too large; write it in digits, at most 18446744073709551615"
        } else {
            "must be a whole number of at least 0"
        })
    }
}

impl TryFrom<Whole> for NonZeroU32 {
    type Error = String;

    fn try_from(Whole(number): Whole) -> Result<Self, Self::Error> {
        let few = u32::try_from(number).ok().and_then(Self::new);
        few.ok_or_else(|| format!("must be a number from 1 to {}, not {number}", u32::MAX))
    }
}

/// Deserializes an optional field.
pub(super) fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
    let whole = Option::<Whole>::deserialize(deserializer)?;
    whole.map(NonZeroU32::try_from).transpose().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::Whole;

    // Fails when all errors have the same text.
    #[test]
    fn too_large_and_invalid_numbers_have_different_errors() {
        let read = |text: &str| serde_json::from_str::<Whole>(text).map(|Whole(number)| number);
        for (text, number) in [("0", 0), ("372.0", 372), ("18446744073709551615", u64::MAX)] {
            assert_eq!(read(text).unwrap(), number);
        }
        for (text, expected) in [
            ("18446744073709551616", "too large"),
            ("1e17", "too large"),
            ("-1", "at least 0"),
            ("1.5", "whole number"),
            ("-18446744073709551616", "at least 0"),
        ] {
            let error = read(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
