//! Readable name of a key. Memory stores only hashes, so operators name a key by its parts.

use super::StoredKeyName;
use hivemind_core::Entry;
use hivemind_core::store::Parts;
use hivemind_telemetry::redact;
use serde_json::{Value, json};

/// The readable name of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName {
    domain: String,
    entries: Vec<(String, String)>,
}

impl KeyName {
    pub fn new<K: Into<String>, V: Into<String>>(
        domain: impl Into<String>,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into()));
        Self { domain: domain.into(), entries: entries.collect() }
    }

    pub fn of(parts: Parts<'_>) -> Self {
        Self::new(parts.domain, parts.entries.iter().copied())
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }

    pub fn entries(&self) -> Vec<Entry<'_>> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    pub fn with_parts<T>(&self, with: impl FnOnce(Parts<'_>) -> T) -> T {
        with(Parts { domain: &self.domain, entries: &self.entries() })
    }

    /// Whether this is the name of exactly these parts.
    pub fn is(&self, parts: Parts<'_>) -> bool {
        let same =
            |((key, value), entry): (&(String, String), &Entry<'_>)| (key.as_str(), value.as_str()) == *entry;
        self.domain == parts.domain
            && self.entries.len() == parts.entries.len()
            && self.entries.iter().zip(parts.entries).all(same)
    }

    /// The form stored on the board.
    pub fn stored(&self) -> StoredKeyName {
        self.with_parts(StoredKeyName::of)
    }

    /// The entries as the API reports them; credentials are hashed.
    pub fn shown_entries(&self) -> Value {
        self.entries.iter().map(|(key, value)| json!({"key": key, "value": redact(key, value).0})).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::KeyName;

    #[test]
    fn name_matches_its_exact_parts_only() {
        assert!(KeyName::new("d", [("k", "v")]).with_parts(|parts| KeyName::of(parts).is(parts)));
        assert!(
            !KeyName::new("d", [("k", "w")]).with_parts(|parts| KeyName::new("d", [("k", "v")]).is(parts))
        );
    }
}
