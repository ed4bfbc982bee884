//! Whole numbers in a body.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::num::NonZeroU32;

/// A whole number, also where it is written as `372.0`: to JSON that is the same.
#[derive(Deserialize)]
#[serde(try_from = "serde_json::Number")]
pub(super) struct Whole(pub(super) u64);

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

impl TryFrom<Whole> for NonZeroU32 {
    type Error = String;

    fn try_from(Whole(number): Whole) -> Result<Self, Self::Error> {
        let few = u32::try_from(number).ok().and_then(Self::new);
        few.ok_or_else(|| format!("a number from 1 to {}, and not {number}", u32::MAX))
    }
}

/// Of a field that may be left out.
pub(super) fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
    let whole = Option::<Whole>::deserialize(deserializer)?;
    whole.map(NonZeroU32::try_from).transpose().map_err(D::Error::custom)
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
