//! Duplicate names in JSON objects. JSON does not define which one counts: a proxy that reads the first would see
//! another key than the one that is blocked here. serde rejects them for struct fields; this rejects them everywhere
//! else, at any depth.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// Rejects a body with duplicate names; `as_one` normalizes spellings of the same name.
///
/// # Errors
/// The duplicate name, or a syntax error.
pub(super) fn reject_duplicate_names(
    body: &[u8],
    as_one: fn(&str) -> String,
) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(body);
    UniqueNames(as_one).deserialize(&mut json)?;
    json.end()
}

/// Exact names.
pub(super) fn as_written(name: &str) -> String {
    name.to_owned()
}

/// Field names of protobuf messages, which have two spellings: `hits_addend` and `hitsAddend`.
pub(super) fn as_in_messages(name: &str) -> String {
    name.replace('_', "").to_ascii_lowercase()
}

#[derive(Clone, Copy)]
struct UniqueNames(fn(&str) -> String);

impl<'de> DeserializeSeed<'de> for UniqueNames {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueNames {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert((self.0)(&name)) {
                return Err(A::Error::custom(format_args!("`{name}` is given twice")));
            }
            members.next_value_seed(self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when two spellings of a message field count as different names.
    #[test]
    fn duplicate_names_are_rejected_at_any_depth() {
        let is_taken = |text: &str, as_one| {
            reject_duplicate_names(text.as_bytes(), as_one).map_err(|error| error.to_string())
        };
        for good in [r#"{"a": 1, "b": {"a": [{"a": null}, {"a": "x"}]}, "A": 1.5, "c": -1}"#, "true", "[]"] {
            assert_eq!(is_taken(good, as_written), Ok(()), "{good}");
        }
        for twice in [
            r#"{"key": 1, "key": 1}"#,
            r#"[{"b": {"key": 1, "c": {}, "key": {}}}]"#,
            r#"{"key": 1, "\u006bey": 1}"#,
        ] {
            assert!(is_taken(twice, as_written).unwrap_err().starts_with("`key` is given twice"), "{twice}");
        }
        let spelt = r#"{"hits_addend": 1, "hitsAddend": 2}"#;
        assert_eq!(is_taken(spelt, as_written), Ok(()));
        assert!(is_taken(spelt, as_in_messages).unwrap_err().contains("twice"));
    }
}
