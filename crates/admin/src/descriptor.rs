//! Keys in request bodies: a domain and the entries of a descriptor.

use super::reply::senseless;
use axum::response::Response;
use hivemind_engine::block_list::KeyName;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Longer descriptors do not occur in practice.
const MOST_ENTRIES: usize = 256;
/// The maximum length of a domain, key or value: as long as a whole call.
const LONGEST_TEXT: usize = 256 << 10;

/// `{"domain": "d", "entries": [{"key": "k", "value": "v"}]}`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)] // A misspelled key must not be ignored.
pub(super) struct RawKey {
    pub(super) domain: String,
    pub(super) entries: Vec<RawEntry>,
}

/// Read only by member names: serde would also read a struct from a list.
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
            _ => Err("an entry must have exactly `key` and `value`"),
        }
    }
}

impl RawKey {
    /// The key.
    ///
    /// # Errors
    /// The response that describes the problem.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    pub(super) fn name(self) -> Result<KeyName, Response> {
        if self.domain.is_empty() {
            return Err(senseless("`domain` is empty; set it."));
        }
        if self.entries.is_empty() || self.entries.len() > MOST_ENTRIES {
            return Err(senseless(&format!("`entries` must have 1 to {MOST_ENTRIES} items.")));
        }
        let texts = self.entries.iter().flat_map(|RawEntry { key, value }| [key, value]);
        if std::iter::once(&self.domain).chain(texts).any(|text| text.len() > LONGEST_TEXT) {
            return Err(senseless(&format!("A domain, key or value may have at most {LONGEST_TEXT} bytes.")));
        }
        Ok(KeyName::new(self.domain, self.entries.into_iter().map(|entry| (entry.key, entry.value))))
    }
}
