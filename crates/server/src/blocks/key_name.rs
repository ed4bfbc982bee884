//! The readable name of a key, kept: memory has hashes only, so an operator names a key by its parts.

use crate::telemetry::kept;
use hivemind_core::Entry;
use hivemind_core::store::Parts;
use serde_json::{Value, json};

/// What the text of a block begins with, should there ever be other notes.
const KIND: &str = "block";

/// The readable name of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyName {
    domain: String,
    entries: Vec<(String, String)>,
}

impl KeyName {
    pub(crate) fn new<K: Into<String>, V: Into<String>>(
        domain: impl Into<String>,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into()));
        Self { domain: domain.into(), entries: entries.collect() }
    }

    pub(crate) fn of(parts: Parts<'_>) -> Self {
        Self::new(parts.domain, parts.entries.iter().copied())
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    pub(crate) fn entries(&self) -> Vec<Entry<'_>> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    pub(crate) fn with_parts<T>(&self, with: impl FnOnce(Parts<'_>) -> T) -> T {
        with(Parts { domain: &self.domain, entries: &self.entries() })
    }

    /// Whether it names these very parts.
    pub(crate) fn is(&self, parts: Parts<'_>) -> bool {
        let same =
            |((key, value), entry): (&(String, String), &Entry<'_>)| (key.as_str(), value.as_str()) == *entry;
        self.domain == parts.domain
            && self.entries.len() == parts.entries.len()
            && self.entries.iter().zip(parts.entries).all(same)
    }

    /// As notes have it: the same name is always the same text.
    pub(crate) fn text(&self) -> Vec<u8> {
        let entries: Vec<Value> = self.entries.iter().map(|(key, value)| json!([key, value])).collect();
        json!([KIND, self.domain, entries]).to_string().into_bytes()
    }

    /// A name as a note has it; none if the note is of another kind, or written in another way.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let (kind, domain, entries): (String, String, Vec<(String, String)>) =
            serde_json::from_slice(text).ok()?;
        let name = Self { domain, entries };
        (kind == KIND && name.text() == text).then_some(name)
    }

    /// As the API shows entries: of what opens something, a hash.
    pub(crate) fn shown_entries(&self) -> Value {
        self.entries.iter().map(|(key, value)| json!({"key": key, "value": kept(key, value).0})).collect()
    }

    /// Whether what is shown is not the key: nobody finds it by that.
    pub(crate) fn is_hashed(&self) -> bool {
        self.entries.iter().any(|(key, value)| kept(key, value).1)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyName;

    #[test]
    fn a_name_is_read_as_it_was_written_and_in_no_other_way() {
        for name in [
            KeyName::new("d", [("k", "v")]),
            KeyName::new("", [("", "")]),
            KeyName::new("\"]", [("\u{202e}\0", "<script>"), ("k", "a\nb")]),
        ] {
            assert_eq!(KeyName::read(&name.text()), Some(name));
        }
        for wrong in [
            r#"["block", "d", [["k","v"]]]"#,
            r#"["other","d",[["k","v"]]]"#,
            r#"["block","d",[["k"]]]"#,
            "[]",
            "",
            "\u{fffd}",
        ] {
            assert_eq!(KeyName::read(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(KeyName::new("d", [("k", "v")]).with_parts(|parts| KeyName::of(parts).is(parts)));
        assert!(
            !KeyName::new("d", [("k", "w")]).with_parts(|parts| KeyName::new("d", [("k", "v")]).is(parts))
        );
    }
}
