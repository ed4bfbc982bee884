//! Validity period of a certificate. Rustls does not expose it, so a small DER parser reads the two dates; it
//! skips the fields before them and parses nothing else of X.509.

use hivemind_core::Timestamp;
use jiff::civil::DateTime;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xA0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The period in which a certificate is valid, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidityPeriod {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl ValidityPeriod {
    /// The period of a certificate in DER; `None` if the bytes are not a certificate.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (certificate, _) = element(certificate, SEQUENCE)?;
        let (signed, _) = element(certificate, SEQUENCE)?;
        let rest = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
        let (_serial, rest) = element(rest, INTEGER)?;
        let (_algorithm, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (validity, _) = element(rest, SEQUENCE)?;
        let (not_before, rest) = time(validity)?;
        let (not_after, _) = time(rest)?;
        Some(Self { not_before, not_after })
    }
}

/// The content of the element of this kind at the start of `bytes`, and the rest.
fn element(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (&[first, length], rest) = bytes.split_first_chunk()?;
    if first != kind {
        return None;
    }
    let (length, rest) = match length {
        0..=0x7F => (usize::from(length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7F))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

fn time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (text, century, rest) = match element(bytes, UTC_TIME) {
        // A year of two digits is between 1950 and 2049 (RFC 5280, 4.1.2.5.1).
        Some((text, rest)) => (text, if *text.first()? < b'5' { "20" } else { "19" }, rest),
        None => element(bytes, GENERALIZED_TIME).map(|(text, rest)| (text, "", rest))?,
    };
    let text = format!("{century}{}", std::str::from_utf8(text).ok()?);
    let moment = DateTime::strptime("%Y%m%d%H%M%SZ", &text).ok()?;
    let seconds = moment.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_secs();
    // Times before 1970 become the epoch. The year 9999 means no expiry and exceeds our clock.
    let millis = u64::try_from(seconds).unwrap_or_default().saturating_mul(1_000);
    Some((Timestamp::from_millis(millis), rest))
}
