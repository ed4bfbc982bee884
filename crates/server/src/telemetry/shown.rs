//! Entries as operators are shown them. What stands under the key of a secret (`authorization`, say) is shown as a hash:
//! enough to tell clients apart, and nothing to log in with.

use crate::config::is_secret;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Each with its key and its value.
pub(crate) fn shown_entries<'e>(entries: impl Iterator<Item = (&'e str, &'e str)>) -> Value {
    let shown = entries.map(|(key, value)| {
        if is_secret(key) && !value.is_empty() {
            json!({"key": key, "value": hashed(value)})
        } else {
            json!({"key": key, "value": value})
        }
    });
    shown.collect::<Vec<_>>().into()
}

fn hashed(value: &str) -> String {
    let digest = Sha256::digest(value);
    let mut text = String::from("sha256:");
    for byte in digest.iter().take(8) {
        let _ = write!(text, "{byte:02x}"); // A string takes all that is written.
    }
    text
}

#[cfg(test)]
mod tests {
    use super::shown_entries;
    use serde_json::json;

    #[test]
    fn what_opens_something_is_shown_as_a_hash() {
        let entries = [("user", "ada"), ("Authorization", "Bearer x"), ("x-api-key", "")];
        let shown = shown_entries(entries.into_iter());
        assert_eq!(shown[0], json!({"key": "user", "value": "ada"}));
        let hash = shown[1]["value"].as_str().unwrap();
        assert!(hash.starts_with("sha256:") && hash.len() == 23, "{hash}");
        assert_eq!(shown[2]["value"], "");
    }
}
