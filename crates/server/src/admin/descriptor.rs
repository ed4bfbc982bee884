//! A key in the body of a request: whom it is about, by its parts.

use super::reply::senseless;
use crate::blocks::KeyName;
use axum::response::Response;
use serde::Deserialize;
use std::collections::BTreeMap;

/// More of them in one descriptor have no meaning to anybody.
const MOST_ENTRIES: usize = 256;
/// The longest domain, key or value: as long as a whole call.
const LONGEST_TEXT: usize = 256 << 10;

/// `{"domain": "d", "entries": [{"key": "k", "value": "v"}]}`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)] // A misspelt key must not be taken for none.
pub(super) struct RawKey {
    pub(super) domain: String,
    pub(super) entries: Vec<RawEntry>,
}

/// By its names alone: a struct would also be read from a list.
#[derive(Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub(super) struct RawEntry {
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

impl RawKey {
    /// The key that is meant.
    ///
    /// # Errors
    /// The answer that says what is missing.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    pub(super) fn name(self) -> Result<KeyName, Response> {
        if self.domain.is_empty() {
            return Err(senseless("`domain` is empty: say whose key it is."));
        }
        if self.entries.is_empty() || self.entries.len() > MOST_ENTRIES {
            return Err(senseless(&format!("`entries` are 1 to {MOST_ENTRIES}.")));
        }
        let texts = self.entries.iter().flat_map(|RawEntry { key, value }| [key, value]);
        if std::iter::once(&self.domain).chain(texts).any(|text| text.len() > LONGEST_TEXT) {
            return Err(senseless(&format!("No text of a key has more than {LONGEST_TEXT} bytes.")));
        }
        Ok(KeyName::new(self.domain, self.entries.into_iter().map(|entry| (entry.key, entry.value))))
    }
}
