//! Trace context (W3C): strict and bounded parsing of `traceparent` and `tracestate`. An invalid context is ignored
//! without an error, and a new trace begins.

use super::random;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Longest `tracestate`; the standard allows dropping longer ones.
const LONGEST_STATE: usize = 512;
const MOST_MEMBERS: usize = 32;
const LONGEST_NAME: usize = 256;
/// The sampled flag of a `traceparent`.
const SAMPLED: u64 = 1;

/// The ID of a trace; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(NonZeroU128);

/// The ID of a span within its trace; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanId(NonZeroU64);

impl TraceId {
    pub(super) fn new(bits: u128) -> Option<Self> {
        NonZeroU128::new(bits).map(Self)
    }

    pub(super) fn random() -> Self {
        Self(NonZeroU128::new(random::bits_128()).unwrap_or(NonZeroU128::MAX))
    }

    pub(crate) fn bits(self) -> u128 {
        self.0.get()
    }
}

impl SpanId {
    pub(super) fn new(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(Self)
    }

    pub(super) fn random() -> Self {
        Self(NonZeroU64::new(random::bits_64()).unwrap_or(NonZeroU64::MAX))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0.get()
    }
}

/// The parent span of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) is_sampled: bool,
}

impl Parent {
    /// The parent in the headers; `None` if it is missing, duplicated or invalid.
    #[inline]
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(TRACEPARENT).iter();
        let line = lines.next()?;
        if lines.next().is_some() { None } else { Self::read(line.as_bytes()) }
    }

    /// `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`. Later versions may append fields.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let (version, rest) = text.split_first_chunk::<2>()?;
        let (trace, rest) = rest.strip_prefix(b"-")?.split_first_chunk::<32>()?;
        let (span, rest) = rest.strip_prefix(b"-")?.split_first_chunk::<16>()?;
        let (flags, rest) = rest.strip_prefix(b"-")?.split_first_chunk::<2>()?;
        match (pair(*version)?, rest) {
            (0xff, _) | (0, [_, ..]) => return None,
            (_, [] | [b'-', ..]) => {}
            _ => return None,
        }
        Some(Self {
            trace: TraceId::new(number(trace)?)?,
            span: SpanId::new(u64::try_from(number(span)?).ok()?)?,
            is_sampled: pair(*flags)? & SAMPLED != 0,
        })
    }
}

/// Parses `N` groups of eight hexadecimal digits.
#[inline]
fn number(text: &[u8]) -> Option<u128> {
    let (eights, _) = text.as_chunks::<8>();
    eights.iter().try_fold(0, |number, digits| Some(number << 32 | u128::from(eight(*digits)?)))
}

#[inline]
fn pair([first, second]: [u8; 2]) -> Option<u64> {
    eight([b'0', b'0', b'0', b'0', b'0', b'0', first, second])
}

/// Parses eight digits at once: one after the other they would cost half of a request's budget. Only lower case, as the
/// standard requires.
#[inline]
fn eight(text: [u8; 8]) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let text = u64::from_be_bytes(text);
    // Letters have the seventh bit, and `a` is 1 in the lower four, which is 10.
    let values = (text & (0x0f * EACH)) + (text >> 6 & EACH) * 9;
    let are_letters = (values + 6 * EACH) >> 4 & EACH;
    let written = values + u64::from(b'0') * EACH + are_letters * u64::from(b'a' - b'0' - 10);
    let is_sound = written == text && values & (0xf0 * EACH) == 0;
    let pairs = (values | values >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    is_sound.then_some((fours | fours >> 16) & 0xffff_ffff)
}

/// The `traceparent` that the span with this ID sends downstream; it is sampled, otherwise it would not exist.
pub(super) fn traceparent(trace: TraceId, span: SpanId) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("00-{trace}-{span}-01")).ok()
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.bits())
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.bits())
    }
}

/// The `tracestate` of other vendors in one line; `None` if it is invalid or too long.
pub(super) fn state(headers: &HeaderMap) -> Option<Box<str>> {
    let mut joined = String::new();
    for line in headers.get_all(TRACESTATE) {
        let line = line.to_str().ok()?;
        if joined.len() + line.len() >= LONGEST_STATE {
            return None;
        }
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(line);
    }
    let members = || joined.split(',').map(|member| member.trim_matches([' ', '\t']));
    let sound =
        members().filter(|member| !member.is_empty()).count() <= MOST_MEMBERS && members().all(is_member);
    (sound && members().any(|member| !member.is_empty())).then(|| joined.into())
}

/// `vendor=value`, or empty between two commas.
fn is_member(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let Some((name, value)) = text.split_once('=') else { return false };
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
    let is_value = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    let begins_well =
        name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    begins_well
        && name.len() <= LONGEST_NAME
        && value.len() <= LONGEST_NAME
        && !value.is_empty()
        && name.bytes().all(is_name)
        && value.bytes().all(is_value)
}
