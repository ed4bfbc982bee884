//! The name of a key as the board has it, which is in the memory of every node for as long as a word is remembered. Of a
//! value that opens something it has the SHA-256 and never the value: nobody can log in with what a node keeps or tells
//! its peers. A decision is compared by that hash, and by nothing that is shown: 64 bits are too few to refuse somebody by.

use super::KeyName;
use hivemind_core::store::Parts;
use hivemind_telemetry::{as_shown, is_short, kept};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What the text of a block begins with, should there ever be other notes.
const KIND: &str = "block";
/// What stands behind a value that is a hash.
const HASHED: &str = "sha256";
/// The same where the value is a PIN, or has one in it: it is shown as no other process shows it.
const HASHED_SHORT: &str = "sha256-short";
/// As many digits of a hash as are shown.
const SHOWN: usize = 16;

/// The name of a key as the board has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Posted {
    domain: String,
    entries: Vec<(String, Told)>,
}

/// What a board has of one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Told {
    Plain(String),
    Hashed(Hash),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hash {
    /// All of it, in small hexadecimal digits.
    digits: String,
    /// Whether whoever hashes all that there are finds what it is of.
    is_short: bool,
}

impl Hash {
    fn of(key: &str, value: &str) -> Self {
        Self { digits: digits(value), is_short: is_short(key, value) }
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

impl Posted {
    pub(super) fn of(parts: Parts<'_>) -> Self {
        let one = |(key, value): &(&str, &str)| {
            let is_hidden = kept(key, value).1;
            let told =
                if is_hidden { Told::Hashed(Hash::of(key, value)) } else { Told::Plain((*value).to_owned()) };
            ((*key).to_owned(), told)
        };
        Self { domain: parts.domain.to_owned(), entries: parts.entries.iter().map(one).collect() }
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    /// As notes have it: the same name is always the same text.
    pub(crate) fn text(&self) -> Vec<u8> {
        let one = |(key, told): &(String, Told)| match told {
            Told::Plain(value) => json!([key, value]),
            Told::Hashed(hash) => json!([key, hash.digits, hash.kind()]),
        };
        let entries: Vec<Value> = self.entries.iter().map(one).collect();
        json!([KIND, self.domain, entries]).to_string().into_bytes()
    }

    /// A name as a note has it; none if the note is of another kind, or written in another way.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let (kind, domain, entries): (String, String, Vec<Vec<String>>) =
            serde_json::from_slice(text).ok()?;
        let one = |entry: Vec<String>| match <[String; 2]>::try_from(entry) {
            Ok([key, value]) => Some((key, Told::Plain(value))),
            Err(entry) => {
                let [key, digits, kind] = <[String; 3]>::try_from(entry).ok()?;
                Some((key, Told::Hashed(Hash::read(digits, &kind)?)))
            }
        };
        let name = Self { domain, entries: entries.into_iter().map(one).collect::<Option<_>>()? };
        (kind == KIND && name.text() == text).then_some(name)
    }

    /// All of its parts, if none of them is a hash.
    pub(super) fn plain(&self) -> Option<KeyName> {
        let one = |(key, told): &(String, Told)| match told {
            Told::Plain(value) => Some((key.clone(), value.clone())),
            Told::Hashed(_) => None,
        };
        let entries: Option<Vec<_>> = self.entries.iter().map(one).collect();
        Some(KeyName::new(self.domain.as_str(), entries?))
    }

    /// Its parts with hashes where the values are not known: to name it, and not to find what it counts.
    pub(crate) fn with_told_parts<T>(&self, with: impl FnOnce(Parts<'_>) -> T) -> T {
        let one = |(key, told): &(String, Told)| match told {
            Told::Plain(text) | Told::Hashed(Hash { digits: text, .. }) => (key.clone(), text.clone()),
        };
        KeyName::new(self.domain.as_str(), self.entries.iter().map(one)).with_parts(with)
    }

    /// As the API shows entries: of what opens something, a part of its hash.
    pub(crate) fn shown_entries(&self) -> Value {
        let one = |(key, told): &(String, Told)| match told {
            Told::Plain(value) => json!({"key": key, "value": kept(key, value).0}),
            Told::Hashed(hash) => {
                let digits = hash.digits.get(..SHOWN).unwrap_or_default();
                json!({"key": key, "value": as_shown(hash.is_short, format!("{HASHED}:{digits}"))})
            }
        };
        self.entries.iter().map(one).collect()
    }

    /// Whether what is shown is not the key: nobody finds it by that.
    pub(crate) fn is_hashed(&self) -> bool {
        self.entries.iter().any(|(key, told)| match told {
            Told::Plain(value) => kept(key, value).1,
            Told::Hashed(_) => true,
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

    fn posted(entries: &[(&str, &str)]) -> Posted {
        Posted::of(Parts { domain: "d", entries })
    }

    #[test]
    fn a_name_is_read_as_it_was_written_and_in_no_other_way() {
        for name in [
            KeyName::new("d", [("k", "v")]),
            KeyName::new("", [("", "")]),
            KeyName::new("\"]", [("\u{202e}\0", "<script>"), ("k", "a\nb")]),
            KeyName::new("d", [("authorization", "x"), ("user", "ada"), ("pin", "1"), ("path", "/a?pin=1")]),
        ] {
            let posted = name.posted();
            assert_eq!(Posted::read(&posted.text()), Some(posted));
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
            assert_eq!(Posted::read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    // Guards against: the value itself on the board, where every node has it. Seen failing on: a salt by the key's name alone.
    #[test]
    fn of_what_opens_something_the_board_has_a_hash_and_no_two_values_share_it() {
        let jwt = format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ{}", "A".repeat(2_000));
        for (key, value) in [
            ("authorization", "of-somebody"),
            ("header", "Bearer of-somebody"),
            ("h", &jwt),
            ("path", "/cb?access_token=of-somebody"),
            ("pin", "987654"),
            ("path", "/reset?pin=987654"),
        ] {
            let name = posted(&[("user", "ada"), (key, value)]);
            let text = String::from_utf8(name.text()).unwrap();
            assert!(!text.contains(value) && text.contains("ada"), "{text}");
            assert!(text.len() < 200, "a long one has room, too: {text}");
            assert!(name.is_hashed() && name.plain().is_none());
            let shown = &name.shown_entries()[1]["value"];
            assert_eq!(shown, &*kept(key, value).0, "as it is shown elsewhere");
            // What is shown, and the hash that is kept, name somebody else.
            let digits = digits(value);
            for other in [shown.as_str().unwrap(), &digits, &format!("{value}x")] {
                assert_ne!(posted(&[("user", "ada"), (key, other)]), name, "{other}");
            }
        }
        let plain = posted(&[("user", "ada")]);
        assert!(!plain.is_hashed() && plain.plain() == Some(KeyName::new("d", [("user", "ada")])));
    }
}
