//! Rates on the command line, such as 10/s.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

/// A number of requests per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateArg {
    pub(super) requests: NonZeroU32,
    pub(super) window: Duration,
}

impl FromStr for RateArg {
    type Err = String;

    /// Parses `10/s`, `600/m`, `5/h`, `100/d`; nginx's `10r/s` is accepted too.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write it as 10/s, 600/m, 5/h or 100/d".to_owned();
        let (requests, unit) = text.split_once('/').ok_or_else(wrong)?;
        let requests = requests.strip_suffix('r').unwrap_or(requests);
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            "d" => 24 * 60 * 60,
            _ => return Err(wrong()),
        };
        let requests = requests.parse().map_err(|_| wrong())?;
        Ok(Self { requests, window: Duration::from_secs(seconds) })
    }
}

#[cfg(test)]
mod tests {
    use super::RateArg;

    #[test]
    fn rate_parses_as_number_and_unit() {
        for (text, expected) in [
            ("10/s", Some((10, 1))),
            ("600/m", Some((600, 60))),
            ("5/h", Some((5, 3_600))),
            ("1r/d", Some((1, 86_400))),
            ("0/s", None),
            ("10", None),
            ("10/", None),
            ("-1/s", None),
            ("1.5/s", None),
            ("10/x", None),
            ("4294967296/s", None),
        ] {
            let rate = text.parse().ok().map(|rate: RateArg| (rate.requests.get(), rate.window.as_secs()));
            assert_eq!(rate, expected, "{text}");
        }
    }
}
