//! Entries as they are kept for operators, and shown to them. What stands under the key of a secret (`authorization`, say) is
//! kept as a hash of all of it: enough to tell clients apart, and nothing to log in with.

use crate::config::is_secret;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;

const HASHED: &str = "sha256:";
const LONG: usize = HASHED.len() + 16;

/// What may be kept of a value, and whether that is another text.
pub(crate) fn kept<'v>(key: &str, value: &'v str) -> (Cow<'v, str>, bool) {
    if is_secret(key) && !value.is_empty() { (hashed(value).into(), true) } else { (value.into(), false) }
}

/// Each with its key and its value.
pub(crate) fn shown_entries<'e>(entries: impl Iterator<Item = (&'e str, &'e str)>) -> Value {
    let shown = entries.map(|(key, value)| {
        // What was kept of a secret is a hash already.
        let is_hash = value.len() == LONG && value.starts_with(HASHED);
        let value = if is_hash { value.into() } else { kept(key, value).0 };
        json!({"key": key, "value": value})
    });
    shown.collect::<Vec<_>>().into()
}

fn hashed(value: &str) -> String {
    let digest = Sha256::digest(value);
    let mut text = String::from(HASHED);
    for byte in digest.iter().take(8) {
        let _ = write!(text, "{byte:02x}"); // A string takes all that is written.
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{kept, shown_entries};
    use serde_json::json;

    #[test]
    fn what_opens_something_is_shown_as_a_hash() {
        let entries = [("user", "ada"), ("Authorization", "Bearer x"), ("x-api-key", "")];
        let shown = shown_entries(entries.into_iter());
        assert_eq!(shown[0], json!({"key": "user", "value": "ada"}));
        let hash = shown[1]["value"].as_str().unwrap();
        assert!(hash.starts_with("sha256:") && hash.len() == 23, "{hash}");
        assert_eq!(shown[2]["value"], "");
        // Kept and then shown, it is the same.
        let (once, is_another) = kept("authorization", "Bearer x");
        assert!(is_another);
        assert_eq!(shown_entries([("authorization", &*once)].into_iter())[0]["value"], hash);
        // Seen failing on: a hash of what is kept of a long one.
        let long = "x".repeat(200);
        assert_ne!(kept("jwt", &format!("{long}a")), kept("jwt", &format!("{long}b")));
    }
}
