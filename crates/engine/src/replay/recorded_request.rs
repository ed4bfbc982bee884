//! Recorded request and its JSON format.

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Maximum number of entries of a request.
const MOST_ENTRIES: usize = 64;

/// A recorded request.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordedRequest<'a> {
    /// Time in milliseconds since the Unix epoch.
    pub t_ms: u64,
    pub domain: Cow<'a, str>,
    pub entries: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub hits: u64,
}

/// Why a line is not a valid request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("the line is longer than {longest} bytes")]
    TooLong { longest: usize },
    #[error("the line is not UTF-8")]
    NotText,
    #[error(
        "not a request: {reason}; the format is \
         {{\"t_ms\": 0, \"domain\": \"d\", \"entries\": [[\"k\", \"v\"]], \"hits\": 1}}"
    )]
    NoRequest { reason: String },
    #[error("the line has more than {MOST_ENTRIES} entries")]
    TooManyEntries,
    #[error("`t_ms` is after the year 2554, the last that can be represented")]
    TooLate,
    #[error("not an access log line: {reason}")]
    NoLogEntry { reason: &'static str },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object of t_ms, domain and entries")] // Otherwise a misspelled `hit` would count as one hit.
struct RawRequest<'a> {
    t_ms: u64,
    #[serde(borrow)]
    domain: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "few_entries")]
    entries: Vec<RecordedEntry<'a>>,
    #[serde(default = "one")]
    hits: u64,
}

type RecordedEntry<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Reads at most one entry more than allowed: a line of a megabyte has room for 130,000 of 48 bytes and their texts.
fn few_entries<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<RecordedEntry<'a>>, D::Error> {
    deserializer.deserialize_seq(FewEntries(PhantomData))
}

struct FewEntries<'a>(PhantomData<&'a str>);

impl<'de: 'a, 'a> Visitor<'de> for FewEntries<'a> {
    type Value = Vec<RecordedEntry<'a>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while entries.len() <= MOST_ENTRIES {
            let Some(entry) = items.next_element::<RecordedEntry<'a>>()? else { return Ok(entries) };
            entries.push(entry);
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(entries)
    }
}

fn one() -> u64 {
    1
}

impl<'a> RecordedRequest<'a> {
    /// Reads a line such as `{"t_ms": 0, "domain": "d", "entries": [["k", "v"]], "hits": 1}`.
    pub fn from_json(line: &'a str) -> Result<Self, LineError> {
        let raw: RawRequest<'a> = serde_json::from_str(line).map_err(|error| {
            let reason = error.to_string();
            // The parser's line number is always 1.
            LineError::NoRequest { reason: reason.replace(" at line 1 column", ", column") }
        })?;
        let RawRequest { t_ms, domain, entries, hits } = raw;
        Self::new(t_ms, domain, entries, hits)
    }

    pub fn new(
        t_ms: u64,
        domain: Cow<'a, str>,
        entries: Vec<(Cow<'a, str>, Cow<'a, str>)>,
        hits: u64,
    ) -> Result<Self, LineError> {
        if entries.len() > MOST_ENTRIES {
            return Err(LineError::TooManyEntries);
        }
        if t_ms > u64::MAX / 1_000_000 {
            return Err(LineError::TooLate);
        }
        Ok(Self { t_ms, domain, entries, hits })
    }
}

#[cfg(test)]
mod tests {
    use super::RecordedRequest;

    #[test]
    fn recorded_line_is_read_or_rejected_with_the_reason() {
        let too_many = format!(
            r#"{{"t_ms": 5, "domain": "d", "entries": [{}["", ""]]}}"#,
            r#"["", ""],"#.repeat(90_000)
        );
        for (line, expected) in [
            (r#"{"t_ms": 5, "domain": "d", "entries": [["k", "v"]]}"#, Ok((5, 1))),
            (r#"{"t_ms": 5, "domain": "d", "entries": [["k", "v"]], "hits": 0}"#, Ok((5, 0))),
            (r#"{"t_ms": 5, "domain": "d", "entries": []}"#, Ok((5, 1))),
            (r#"{"t_ms": -1, "domain": "d", "entries": []}"#, Err("-1")),
            (r#"{"t_ms": 1.5, "domain": "d", "entries": []}"#, Err("1.5")),
            (r#"{"t_ms": 5, "domain": "d", "entries": [["k"]]}"#, Err("length 1")),
            (r#"{"t_ms": 5, "domain": "d", "entries": [], "hit": 2}"#, Err("unknown field `hit`")),
            (r#"{"t_ms": 5, "domain": "d"}"#, Err("missing field `entries`")),
            (r#"{"t_ms": 18446744073709551615, "domain": "d", "entries": []}"#, Err("2554")),
            (&too_many, Err("more than 64 entries")),
            ("[]", Err("the format is {")),
            ("nonsense", Err("column 2")),
        ] {
            let read = RecordedRequest::from_json(line).map(|read| (read.t_ms, read.hits));
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{line}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{line}: {error}"),
                (read, expected) => panic!("{line}: {read:?} instead of {expected:?}"),
            }
        }
    }
}
