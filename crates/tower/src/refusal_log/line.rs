//! Text of a log line.
//!
//! Client input is percent-encoded, so it cannot end its field or start another line, and every percent sign in a
//! field was written by the encoder: decoded once, a field is exactly what was sent, unless it ends in `<cut>`.

use super::sampler::{LeftOutLines, LogSubject};
use super::{Key, Refusal};
use hivemind_core::Timestamp;
use std::fmt::Write;

const MAX_HOST_LEN: usize = 255;
const MAX_PATH_LEN: usize = 1_024;
/// Marks a field that was too long. Its brackets are always encoded in client input.
const CUT: &str = "<cut>";

/// The line with a timestamp, for the file.
pub(super) fn with_time(at: Timestamp, message: &str) -> String {
    let mut line = String::with_capacity(message.len() + 26);
    push_time(&mut line, at);
    line.push(' ');
    line.push_str(message);
    line.push('\n');
    line
}

/// The line that fail2ban parses, without the timestamp.
pub(super) fn refusal(refusal: &Refusal<'_>) -> String {
    let mut line = String::with_capacity(
        96 + refusal.host.len().min(MAX_HOST_LEN) + refusal.path.len().min(MAX_PATH_LEN),
    );
    line.push_str("RATE_LIMIT client_ip=");
    push_client(&mut line, refusal.address);
    line.push_str(" host=");
    push_encoded(&mut line, refusal.host, MAX_HOST_LEN);
    line.push_str(" path=");
    push_encoded(&mut line, refusal.path, MAX_PATH_LEN);
    line.push_str(" status=429");
    line
}

/// The number of left-out lines. fail2ban does not parse it, because it has another keyword.
pub(super) fn left_out(left_out: &LeftOutLines) -> String {
    let mut line = String::from("RATE_LIMIT_LEFT_OUT client_ip=");
    match left_out.subject {
        LogSubject::Client(client) => push_client(&mut line, client),
        LogSubject::All => line.push('*'),
    }
    // Writing to a string cannot fail.
    let _ = write!(line, " lines={} since=", left_out.lines);
    push_time(&mut line, left_out.since);
    line
}

fn push_client(line: &mut String, client: Key) {
    let _ = match client {
        Some(address) => write!(line, "{address}"),
        None => line.write_str("unknown"),
    };
}

fn push_encoded(line: &mut String, text: &str, max_len: usize) {
    let end = line.len() + max_len;
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b'[' | b']');
        if line.len() + if is_plain { 1 } else { 3 } > end {
            line.push_str(CUT);
            return;
        }
        let _ = if is_plain { line.write_char(char::from(byte)) } else { write!(line, "%{byte:02X}") };
    }
}

/// RFC 3339 in UTC with milliseconds.
fn push_time(line: &mut String, at: Timestamp) {
    let millis = at.as_nanos() / 1_000_000;
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = civil(days);
    let (seconds, millis) = (of_day / 1_000, of_day % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let _ = write!(line, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z");
}

/// The date of a day since 1970, by Hinnant's `civil_from_days`. Its years begin in March, so that the leap day
/// is the last day.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn line(address: Option<&str>, host: &str, path: &str) -> String {
        let address = address.map(|text| text.parse().unwrap());
        refusal(&Refusal { address, host, path, at: Timestamp::EPOCH })
    }

    #[test]
    fn refusal_line_has_the_documented_format() {
        let message = line(Some("203.0.113.50"), "example.org", "/login");
        let expected = "2026-11-15T19:00:00.123Z RATE_LIMIT client_ip=203.0.113.50 host=example.org path=/login status=429\n";
        assert_eq!(with_time(at(1_794_769_200_123), &message), expected);
        let message = line(Some("2001:db8::1"), "[2001:db8::2]:8080", "/");
        assert_eq!(message, "RATE_LIMIT client_ip=2001:db8::/64 host=[2001:db8::2]:8080 path=/ status=429");
        assert_eq!(line(None, "", "/"), "RATE_LIMIT client_ip=unknown host= path=/ status=429");
    }

    #[test]
    fn left_out_line_has_its_own_keyword() {
        let client = LogSubject::Client(Some("203.0.113.50".parse().unwrap()));
        for (subject, name) in [(client, "203.0.113.50"), (LogSubject::All, "*")] {
            let line = left_out(&LeftOutLines { subject, lines: 7, since: at(951_782_400_000) });
            let expected =
                format!("RATE_LIMIT_LEFT_OUT client_ip={name} lines=7 since=2000-02-29T00:00:00.000Z");
            assert_eq!(line, expected);
        }
    }

    /// From `date -u -d @N`.
    #[test]
    fn timestamps_are_correct_around_leap_days_and_centuries() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00"),
            (68_255_999, "1972-02-29T23:59:59"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_709_251_199, "2024-02-29T23:59:59"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            let mut text = String::new();
            push_time(&mut text, at(seconds * 1_000));
            assert_eq!(text, format!("{date}.000Z"));
        }
    }

    /// Texts of characters that could end a field or a line.
    fn hostile() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ =%\"'\\\\\r\n\t/a<>\u{0}\u{7f}\u{85}\u{2028}é]{0,40}",
            "(/x status=429\n2026-11-15T19:00:00.123Z RATE_LIMIT client_ip=198.51.100.1 host=){1,30}",
            "[%A]{1000,1100}",
            "(%20|%3D|%0A| |<cut>){0,20}",
        ]
    }

    fn decoded(field: &str) -> Vec<u8> {
        let mut bytes = field.bytes();
        let mut decoded = Vec::new();
        while let Some(byte) = bytes.next() {
            decoded.push(if byte == b'%' {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            } else {
                byte
            });
        }
        decoded
    }

    proptest! {
        /// Fails when any of space, `=`, `%`, line feed and the brackets of `<cut>` is not encoded, and without
        /// the bound.
        #[test]
        fn hostile_text_stays_in_its_field_and_can_be_decoded(host in hostile(), path in hostile()) {
            let line = line(Some("203.0.113.50"), &host, &path);
            prop_assert!(line.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
            prop_assert!(line.len() < 1_400, "{} bytes", line.len());
            let fields: Vec<_> = line.split(' ').collect();
            prop_assert_eq!(fields.len(), 5);
            for (field, name, sent, max_len) in
                [(fields[2], "host=", &host, MAX_HOST_LEN), (fields[3], "path=", &path, MAX_PATH_LEN)]
            {
                let value = field.strip_prefix(name).unwrap();
                prop_assert!(!value.contains('='));
                if let Some(begun) = value.strip_suffix(CUT) {
                    prop_assert!(sent.as_bytes().starts_with(&decoded(begun)));
                    prop_assert!((max_len - 2..=max_len).contains(&begun.len()), "cut too early");
                } else {
                    prop_assert_eq!(decoded(value), sent.as_bytes());
                }
            }
        }
    }
}
