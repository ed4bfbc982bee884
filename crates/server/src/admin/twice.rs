//! No name stands twice in an object. JSON leaves open which one counts then: a proxy that takes the first would see another
//! key than the one that is blocked here. Types refuse it of their own fields; this does for everything else, at any depth.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// Refuses a body in which a name stands twice; `as_one` says which names are one and the same.
///
/// # Errors
/// Which it is; or why it is no JSON.
pub(super) fn none_twice(body: &[u8], as_one: fn(&str) -> String) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(body);
    Once(as_one).deserialize(&mut json)?;
    json.end()
}

/// Names that differ in a letter are two.
pub(super) fn as_written(name: &str) -> String {
    name.to_owned()
}

/// Names of a message, of which each has two spellings: `hits_addend` and `hitsAddend`.
pub(super) fn as_in_messages(name: &str) -> String {
    name.replace('_', "").to_ascii_lowercase()
}

#[derive(Clone, Copy)]
struct Once(fn(&str) -> String);

impl<'de> DeserializeSeed<'de> for Once {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
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
                return Err(A::Error::custom(format_args!("`{name}` is there twice")));
            }
            members.next_value_seed(self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seen failing on: the spellings of a message taken for two names.
    #[test]
    fn a_name_stands_once_in_an_object_however_deep_it_is_and_however_it_is_spelt() {
        let is_taken =
            |text: &str, as_one| none_twice(text.as_bytes(), as_one).map_err(|error| error.to_string());
        for good in [r#"{"a": 1, "b": {"a": [{"a": null}, {"a": "x"}]}, "A": 1.5, "c": -1}"#, "true", "[]"] {
            assert_eq!(is_taken(good, as_written), Ok(()), "{good}");
        }
        for twice in [
            r#"{"key": 1, "key": 1}"#,
            r#"[{"b": {"key": 1, "c": {}, "key": {}}}]"#,
            r#"{"key": 1, "\u006bey": 1}"#,
        ] {
            assert!(is_taken(twice, as_written).unwrap_err().starts_with("`key` is there twice"), "{twice}");
        }
        let spelt = r#"{"hits_addend": 1, "hitsAddend": 2}"#;
        assert_eq!(is_taken(spelt, as_written), Ok(()));
        assert!(is_taken(spelt, as_in_messages).unwrap_err().contains("twice"));
    }
}
