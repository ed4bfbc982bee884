//! A descriptor in the body of a request: whom it is about.

use super::reply::senseless;
use axum::response::Response;
use hivemind_core::Entry;
use serde::Deserialize;

/// As many as the rate limit service takes at once; a rule has a few.
const MOST_ENTRIES: usize = 256;

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
        if self.entries.iter().any(|entry| entry.key.is_empty()) {
            return Err(senseless("An entry has no `key`; a `value` may be empty, a key may not."));
        }
        Ok(self)
    }

    pub(super) fn entries(&self) -> Vec<Entry<'_>> {
        self.entries.iter().map(|RawEntry { key, value }| (key.as_str(), value.as_str())).collect()
    }
}
