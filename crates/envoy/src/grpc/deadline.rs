//! Deadline of a call, from the header `grpc-timeout`.

use http::{HeaderMap, HeaderName};
use std::time::Duration;

pub(super) const HEADER: HeaderName = HeaderName::from_static("grpc-timeout");

/// The timeout in the header, if it has the protocol's format: at most eight digits and a unit. Anything else means
/// no deadline.
pub(super) fn call_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(HEADER)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 60 * 60),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::call_timeout;
    use http::{HeaderMap, HeaderValue};
    use std::time::Duration;

    #[test]
    fn grpc_timeout_parses_up_to_eight_digits_and_a_unit() {
        for (text, expected) in [
            ("20m", Some(Duration::from_millis(20))),
            ("1S", Some(Duration::from_secs(1))),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("5u", Some(Duration::from_micros(5))),
            ("7n", Some(Duration::from_nanos(7))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("m", None),
            ("20", None),
            ("20s", None),
            ("-1S", None),
            ("+1S", None),
            ("1.5S", None),
            ("123456789n", None),
            ("1\u{e9}", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_bytes(text.as_bytes()).unwrap());
            assert_eq!(call_timeout(&headers), expected, "{text:?}");
        }
        assert_eq!(call_timeout(&HeaderMap::new()), None);
    }
}
