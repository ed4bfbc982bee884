//! A descriptor in the body of a request: whom it is about.

use super::reply::senseless;
use axum::response::Response;
use hivemind_core::Entry;
use serde::Deserialize;

/// A rule has a few.
const MOST_ENTRIES: usize = 64;
/// The longest domain, key or value.
const LONGEST_TEXT: usize = 65_536;

/// `{"domain": "d", "entries": [{"key": "k", "value": "v"}]}`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)] // A misspelt key must not be taken for none.
pub(super) struct RawDescriptor {
    pub(super) domain: String,
    entries: Vec<RawEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    key: String,
    value: String,
}

impl RawDescriptor {
    /// The same, if it names somebody.
    ///
    /// # Errors
    /// The answer that says what is missing.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    pub(super) fn checked(self) -> Result<Self, Response> {
        if self.domain.is_empty() {
            return Err(senseless("`domain` is empty; name one of the rules' domains."));
        }
        if self.entries.is_empty() || self.entries.len() > MOST_ENTRIES {
            return Err(senseless(&format!("`entries` are 1 to {MOST_ENTRIES}.")));
        }
        let texts = self.entries.iter().flat_map(|RawEntry { key, value }| [key, value]);
        if std::iter::once(&self.domain).chain(texts).any(|text| text.len() > LONGEST_TEXT) {
            return Err(senseless(&format!("No text of a descriptor has more than {LONGEST_TEXT} bytes.")));
        }
        Ok(self)
    }

    pub(super) fn entries(&self) -> Vec<Entry<'_>> {
        self.entries.iter().map(|RawEntry { key, value }| (key.as_str(), value.as_str())).collect()
    }
}
