//! What is asked of a key, as it comes: bounded, and with nothing in it that is not known.

use crate::blocks::KeyName;
use hivemind_core::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The most entries of a key.
const MOST_ENTRIES: usize = 64;
/// The longest domain, key or value.
const LONGEST_TEXT: usize = 65_536;
/// As much of what is wrong with a body as is told.
const LONGEST_REASON: usize = 300;

/// Why there is nothing to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotAsked {
    /// It is no JSON, or of another shape.
    Unreadable(String),
    /// It makes no sense.
    Senseless(&'static str),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)] // A misspelt `until` must not be taken for another question.
pub(super) struct RawKey {
    domain: String,
    entries: Vec<RawEntry>,
}

/// By its names alone: a struct would also be read from a list.
#[derive(Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
struct RawEntry {
    key: String,
    value: String,
}

impl TryFrom<BTreeMap<String, String>> for RawEntry {
    type Error = &'static str;

    fn try_from(mut members: BTreeMap<String, String>) -> Result<Self, Self::Error> {
        match (members.remove("key"), members.remove("value")) {
            (Some(key), Some(value)) if members.is_empty() => Ok(Self { key, value }),
            _ => Err("an entry has `key` and `value`, and nothing else"),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGrantFields {
    domain: String,
    entries: Vec<RawEntry>,
    extra: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBlockFields {
    domain: String,
    entries: Vec<RawEntry>,
    for_ms: Option<u64>,
    until_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(from = "RawGrantFields")]
pub(super) struct RawGrant {
    pub(super) key: RawKey,
    extra: u64,
}

#[derive(Deserialize)]
#[serde(from = "RawBlockFields")]
pub(super) struct RawBlock {
    pub(super) key: RawKey,
    for_ms: Option<u64>,
    until_ms: Option<u64>,
}

impl From<RawGrantFields> for RawGrant {
    fn from(RawGrantFields { domain, entries, extra }: RawGrantFields) -> Self {
        Self { key: RawKey { domain, entries }, extra }
    }
}

impl From<RawBlockFields> for RawBlock {
    fn from(RawBlockFields { domain, entries, for_ms, until_ms }: RawBlockFields) -> Self {
        Self { key: RawKey { domain, entries }, for_ms, until_ms }
    }
}

/// What a body asks.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, NotAsked> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(NotAsked::Unreadable("An object is asked for, with `domain` and `entries`.".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| {
        let reason = error.to_string();
        // It may have in it what the body had, at any length.
        NotAsked::Unreadable(reason.chars().take(LONGEST_REASON).collect())
    })
}

impl RawKey {
    /// The key that is meant.
    pub(super) fn name(self) -> Result<KeyName, NotAsked> {
        if self.domain.is_empty() {
            return Err(NotAsked::Senseless("`domain` is empty: say whose key it is."));
        }
        if self.entries.is_empty() || self.entries.len() > MOST_ENTRIES {
            return Err(NotAsked::Senseless("`entries` has from 1 to 64 entries."));
        }
        let texts = self.entries.iter().flat_map(|entry| [&entry.key, &entry.value]);
        if std::iter::once(&self.domain).chain(texts).any(|text| text.len() > LONGEST_TEXT) {
            return Err(NotAsked::Senseless("No name in a key has more than 65536 bytes."));
        }
        Ok(KeyName::new(self.domain, self.entries.into_iter().map(|entry| (entry.key, entry.value))))
    }
}

impl RawGrant {
    /// How much is to be given back.
    pub(super) fn extra(&self) -> Result<u64, NotAsked> {
        match self.extra {
            0 => Err(NotAsked::Senseless("`extra` is at least 1.")),
            extra => Ok(extra),
        }
    }
}

impl RawBlock {
    /// Until when, to the millisecond.
    pub(super) fn until(&self, now: Timestamp) -> Result<Timestamp, NotAsked> {
        match (self.for_ms, self.until_ms) {
            (Some(0), None) => Err(NotAsked::Senseless("`for_ms` is at least 1.")),
            (Some(span), None) => {
                Ok(Timestamp::from_millis((now.as_nanos() / 1_000_000).saturating_add(span)))
            }
            (None, Some(until)) => Ok(Timestamp::from_millis(until)),
            _ => Err(NotAsked::Senseless("Send `for_ms` or `until_ms`, and not both.")),
        }
    }
}
