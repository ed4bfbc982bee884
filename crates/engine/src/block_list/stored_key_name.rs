//! Name of a blocked key as stored on the board, which every node keeps in memory until the entry expires.
//!
//! A credential is stored as its SHA-256 and never in clear, so the data that a node stores or sends to its
//! peers cannot be used to log in. Decisions compare the full hash, not the displayed part: 64 bits are too
//! few to refuse a request.

use super::KeyName;
use hivemind_core::store::Parts;
use hivemind_telemetry::{is_guessable, redact, salt_if_guessable};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// First item of a block's text, to tell blocks from other kinds of entries.
const KIND: &str = "block";
/// Marks a value that is a hash.
const HASHED: &str = "sha256";
/// The same for a value that is, or contains, a PIN. It is displayed the way no other process displays it.
const HASHED_SHORT: &str = "sha256-short";
/// Number of digits of a hash that are displayed.
const SHOWN: usize = 16;

/// Name of a blocked key as stored on the board.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredKeyName {
    domain: String,
    entries: Vec<(String, StoredValue)>,
}

/// One value as stored on the board.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum StoredValue {
    Plain(String),
    Hashed(Hash),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hash {
    /// The whole hash, in lower-case hexadecimal digits.
    digits: String,
    /// Whether the value is short enough to be found by hashing all candidates.
    is_short: bool,
}

impl Hash {
    fn of(key: &str, value: &str) -> Self {
        Self { digits: digits(value), is_short: is_guessable(key, value) }
    }

    fn read(digits: String, kind: &str) -> Option<Self> {
        let is_short = match kind {
            HASHED => false,
            HASHED_SHORT => true,
            _ => return None,
        };
        is_hash(&digits).then_some(Self { digits, is_short })
    }

    const fn kind(&self) -> &'static str {
        if self.is_short { HASHED_SHORT } else { HASHED }
    }
}

impl StoredKeyName {
    pub(super) fn of(parts: Parts<'_>) -> Self {
        let one = |(key, value): &(&str, &str)| {
            let is_hidden = redact(key, value).1;
            let stored = if is_hidden {
                StoredValue::Hashed(Hash::of(key, value))
            } else {
                StoredValue::Plain((*value).to_owned())
            };
            ((*key).to_owned(), stored)
        };
        Self { domain: parts.domain.to_owned(), entries: parts.entries.iter().map(one).collect() }
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The text of the board's entry: the same name always gives the same text.
    pub fn text(&self) -> Vec<u8> {
        let one = |(key, stored): &(String, StoredValue)| match stored {
            StoredValue::Plain(value) => json!([key, value]),
            StoredValue::Hashed(hash) => json!([key, hash.digits, hash.kind()]),
        };
        let entries: Vec<Value> = self.entries.iter().map(one).collect();
        json!([KIND, self.domain, entries]).to_string().into_bytes()
    }

    /// Parses an entry's text; `None` if it is of another kind, or not in canonical form.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let (kind, domain, entries): (String, String, Vec<Vec<String>>) =
            serde_json::from_slice(text).ok()?;
        let one = |entry: Vec<String>| match <[String; 2]>::try_from(entry) {
            Ok([key, value]) => Some((key, StoredValue::Plain(value))),
            Err(entry) => {
                let [key, digits, kind] = <[String; 3]>::try_from(entry).ok()?;
                Some((key, StoredValue::Hashed(Hash::read(digits, &kind)?)))
            }
        };
        let name = Self { domain, entries: entries.into_iter().map(one).collect::<Option<_>>()? };
        (kind == KIND && name.text() == text).then_some(name)
    }

    /// The name in clear; `None` if a value is stored as a hash.
    pub(super) fn plain(&self) -> Option<KeyName> {
        let one = |(key, stored): &(String, StoredValue)| match stored {
            StoredValue::Plain(value) => Some((key.clone(), value.clone())),
            StoredValue::Hashed(_) => None,
        };
        let entries: Option<Vec<_>> = self.entries.iter().map(one).collect();
        Some(KeyName::new(self.domain.as_str(), entries?))
    }

    /// Calls `with` with the parts, where hashes replace unknown values. They name the key, but do not find
    /// its counters.
    pub(crate) fn with_shown_parts<T>(&self, with: impl FnOnce(Parts<'_>) -> T) -> T {
        let one = |(key, stored): &(String, StoredValue)| match stored {
            StoredValue::Plain(text) | StoredValue::Hashed(Hash { digits: text, .. }) => {
                (key.clone(), text.clone())
            }
        };
        KeyName::new(self.domain.as_str(), self.entries.iter().map(one)).with_parts(with)
    }

    /// The entries as the API reports them; of a credential, a part of its hash.
    pub fn shown_entries(&self) -> Value {
        let one = |(key, stored): &(String, StoredValue)| match stored {
            StoredValue::Plain(value) => json!({"key": key, "value": redact(key, value).0}),
            StoredValue::Hashed(hash) => {
                let digits = hash.digits.get(..SHOWN).unwrap_or_default();
                json!({"key": key, "value": salt_if_guessable(hash.is_short, format!("{HASHED}:{digits}"))})
            }
        };
        self.entries.iter().map(one).collect()
    }

    /// Whether a displayed value is a hash, by which the key cannot be found.
    pub fn is_hashed(&self) -> bool {
        self.entries.iter().any(|(key, stored)| match stored {
            StoredValue::Plain(value) => redact(key, value).1,
            StoredValue::Hashed(_) => true,
        })
    }
}

fn digits(value: &str) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(value) {
        let _ = write!(text, "{byte:02x}"); // A string takes all that is written.
    }
    text
}

fn is_hash(digits: &str) -> bool {
    digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(entries: &[(&str, &str)]) -> StoredKeyName {
        StoredKeyName::of(Parts { domain: "d", entries })
    }

    #[test]
    fn name_is_parsed_in_canonical_form_only() {
        for name in [
            KeyName::new("d", [("k", "v")]),
            KeyName::new("", [("", "")]),
            KeyName::new("\"]", [("\u{202e}\0", "<script>"), ("k", "a\nb")]),
            KeyName::new("d", [("authorization", "x"), ("user", "ada"), ("pin", "1"), ("path", "/a?pin=1")]),
        ] {
            let posted = name.stored();
            assert_eq!(StoredKeyName::read(&posted.text()), Some(posted));
        }
        let half = format!(r#"["block","d",[["k","{}","sha256"]]]"#, "0".repeat(63));
        let large = format!(r#"["block","d",[["k","{}","sha256"]]]"#, "A".repeat(64));
        let other = format!(r#"["block","d",[["k","{}","md5"]]]"#, "0".repeat(64));
        for wrong in [
            r#"["block", "d", [["k","v"]]]"#,
            r#"["other","d",[["k","v"]]]"#,
            r#"["block","d",[["k"]]]"#,
            r#"["block","d",[["k","v","w","x"]]]"#,
            "[]",
            "",
            "\u{fffd}",
            &half,
            &large,
            &other,
        ] {
            assert_eq!(StoredKeyName::read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    // Fails when the board stores the value itself, and when the salt is the key's name alone.
    #[test]
    fn credential_is_stored_as_a_unique_hash() {
        let jwt = format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ{}", "A".repeat(2_000));
        for (key, value) in [
            ("authorization", "of-ada"),
            ("header", "Bearer of-ada"),
            ("h", &jwt),
            ("path", "/cb?access_token=of-ada"),
            ("pin", "987654"),
            ("path", "/reset?pin=987654"),
        ] {
            let name = posted(&[("user", "ada"), (key, value)]);
            let text = String::from_utf8(name.text()).unwrap();
            assert!(!text.contains(value) && text.contains("ada"), "{text}");
            assert!(text.len() < 200, "a long value fits, too: {text}");
            assert!(name.is_hashed() && name.plain().is_none());
            let shown = &name.shown_entries()[1]["value"];
            assert_eq!(shown, &*redact(key, value).0, "as displayed elsewhere");
            // Neither the displayed text nor the stored hash names this key.
            let digits = digits(value);
            for other in [shown.as_str().unwrap(), &digits, &format!("{value}x")] {
                assert_ne!(posted(&[("user", "ada"), (key, other)]), name, "{other}");
            }
        }
        let plain = posted(&[("user", "ada")]);
        assert!(!plain.is_hashed() && plain.plain() == Some(KeyName::new("d", [("user", "ada")])));
    }
}
