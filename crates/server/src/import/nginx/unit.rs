//! Sizes and times of nginx, converted to our notation.

use std::time::Duration;

/// `10m`, `512k`, `1g` or bytes.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 1 << 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 1 << 20),
        b'g' | b'G' => (text.get(..text.len() - 1)?, 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A size in its largest whole unit.
pub(super) fn shown_bytes(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes}B")
}

/// `60`, `60s`, `500ms`, `1h 30m`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (Duration::ZERO, text.trim());
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits)?;
        let unit_end = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end)?;
        let millis: u64 = match unit {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(Duration::from_millis(number.parse::<u64>().ok()?.checked_mul(millis)?))?;
        rest = after.trim_start();
    }
    Some(total)
}

/// A time in its largest whole unit.
pub(super) fn shown_time(time: Duration) -> String {
    let millis = time.as_millis();
    for (unit, factor) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if millis >= factor && millis.is_multiple_of(factor) {
            return format!("{}{unit}", millis / factor);
        }
    }
    format!("{millis}ms")
}

#[cfg(test)]
mod tests {
    use super::{bytes, shown_bytes, shown_time, time};

    #[test]
    fn nginx_sizes_and_times_are_converted() {
        for (text, shown) in
            [("10m", "10MiB"), ("1k", "1KiB"), ("1536k", "1536KiB"), ("2G", "2GiB"), ("7", "7B")]
        {
            assert_eq!(bytes(text).map(shown_bytes).as_deref(), Some(shown));
        }
        for (text, shown) in [
            ("60", "1m"),
            ("90s", "90s"),
            ("500ms", "500ms"),
            ("1h 30m", "90m"),
            ("1h30m", "90m"),
            ("1d", "24h"),
        ] {
            assert_eq!(time(text).map(shown_time).as_deref(), Some(shown), "{text}");
        }
        for text in ["", "x", "10x", "-1", "99999999999999999999"] {
            assert_eq!((bytes(text), time(text)), (None, None), "{text}");
        }
    }
}
