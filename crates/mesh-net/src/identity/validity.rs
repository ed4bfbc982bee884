//! Validity period of an X.509 certificate. rustls checks it but does not expose it, so this module reads the one field
//! from DER and skips those before it.

use hivemind_core::Timestamp;
use std::time::Duration;

/// Maximum time before expiry at which renewal starts.
const NOTICE: Duration = Duration::from_secs(14 * 86_400);

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, which holds the version.
const VERSION: u8 = 0xa0;

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Validity {
    /// Reads the validity of a certificate in DER.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let certificate = element(certificate, SEQUENCE)?.0;
        let mut fields = element(certificate, SEQUENCE)?.0;
        if fields.first() == Some(&VERSION) {
            fields = element(fields, VERSION)?.1;
        }
        // Skips serial number, signature algorithm and issuer.
        for _ in 0..3 {
            fields = element(fields, *fields.first()?)?.1;
        }
        let (from, until) = time(element(fields, SEQUENCE)?.0)?;
        Some(Self { from, until: time(until)?.0 })
    }

    /// When to renew it: two weeks before expiry, or after two thirds of a shorter period.
    pub(super) fn renew_from(&self) -> Timestamp {
        let notice = (self.until.since(self.from) / 3).min(NOTICE);
        Timestamp::EPOCH.saturating_add(self.until.since(Timestamp::EPOCH.saturating_add(notice)))
    }
}

/// The content of the first element, if it has this tag, and the bytes after it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&short, mut rest) = rest.split_first()?;
    let mut length = usize::from(short);
    if short >= 0x80 {
        let (digits, after) = rest.split_at_checked(usize::from(short & 0x7f))?;
        if digits.len() > 4 {
            return None;
        }
        length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    (found == tag).then_some((content, after))
}

/// The time in the first element, and the bytes after it.
fn time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let tag = *bytes.first()?;
    let (text, rest) = element(bytes, tag)?;
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |from: usize, to: usize| digits.get(from..to)?.parse::<i64>().ok();
    let (year, at) = match (tag, digits.len()) {
        // Two digits mean a year from 1950 to 2049.
        (UTC_TIME, 12) => (number(0, 2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        (GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
        _ => return None,
    };
    let part = |place: usize| number(at + 2 * place, at + 2 * place + 2);
    let days = days_to(year, part(0)?, part(1)?);
    let seconds = days * 86_400 + part(2)? * 3_600 + part(3)? * 60 + part(4)?;
    let seconds = u64::try_from(seconds).unwrap_or(0); // Times before 1970 are in the past anyway.
    Some((Timestamp::EPOCH.saturating_add(Duration::from_secs(seconds)), rest))
}

/// Days from 1970 to a date. Years start in March here, so a leap day is the last day of a year.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let of_years = year * 365 + year / 4 - year / 100 + year / 400;
    of_years + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn seconds(moment: Timestamp) -> u64 {
        moment.as_nanos() / 1_000_000_000
    }

    // Fails when every fourth year is a leap year, or when two digits always mean this century.
    #[test]
    fn validity_is_read_from_a_certificate() {
        // Values from `date -u -d .. +%s`.
        for ((from, until), (starts, ends)) in [
            (((1999, 12, 31), (2026, 11, 16)), (946_598_400, 1_794_787_200)),
            (((2000, 2, 29), (2049, 12, 31)), (951_782_400, 2_524_521_600)),
            (((2024, 3, 1), (2101, 3, 1)), (1_709_251_200, 4_139_078_400)),
        ] {
            let mut params = CertificateParams::new([String::from("a")]).unwrap();
            params.not_before = date_time_ymd(from.0, from.1, from.2);
            params.not_after = date_time_ymd(until.0, until.1, until.2);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let found = Validity::of(certificate.der()).unwrap();
            assert_eq!((seconds(found.from), seconds(found.until)), (starts, ends));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Validity::of(&bytes);
        }

        #[test]
        fn corrupt_certificate_causes_no_panic(place in 0..300_usize, byte in any::<u8>(), end in 0..300_usize) {
            let params = CertificateParams::new([String::from("a")]).unwrap();
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let mut bytes = certificate.der().to_vec();
            if let Some(at) = bytes.get_mut(place) { *at = byte; }
            bytes.truncate(end.max(place));
            let _ = Validity::of(&bytes);
        }
    }
}
