//! Entries as they are kept for operators, and shown to them. What stands under the key of a secret (`authorization`, say), or
//! reads like one whatever its key is called, is kept as a hash of all of it: enough to tell clients apart, and nothing to log
//! in with.

use super::credential::{has_short_secret, is_credential};
use crate::secret_name::{is_secret, is_short_secret};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

const HASHED: &str = "sha256:";
const LONG: usize = HASHED.len() + 16;
/// What only this process knows: without it, each PIN that there can be is hashed and compared in no time.
static SALT: LazyLock<String> = LazyLock::new(|| {
    // The standard library draws the keys of each from the system's randomness.
    let half = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", half(), half())
});

/// What may be kept of a value, and whether that is another text.
pub fn kept<'v>(key: &str, value: &'v str) -> (Cow<'v, str>, bool) {
    let is_kept_hidden = !value.is_empty() && (is_secret(key) || is_credential(value));
    if !is_kept_hidden {
        return (value.into(), false);
    }
    (as_shown(is_short(key, value), hashed(value)).into(), true)
}

/// The same of what may have been kept already: of a hash, that hash.
pub fn kept_again<'v>(key: &str, value: &'v str) -> Cow<'v, str> {
    if is_hash(value) { value.into() } else { kept(key, value).0 }
}

/// Whether a text is what is kept of a value that opens something.
pub fn is_hash(text: &str) -> bool {
    text.len() == LONG && text.starts_with(HASHED)
}

/// Each with its key and its value.
pub fn shown_entries<'e>(entries: impl Iterator<Item = (&'e str, &'e str)>) -> Value {
    let shown = entries.map(|(key, value)| json!({"key": key, "value": kept_again(key, value)}));
    shown.collect::<Vec<_>>().into()
}

/// Whether a value that opens something is a PIN or its like, or has one in it: `/reset?pin=1234`.
pub fn is_short(key: &str, value: &str) -> bool {
    is_short_secret(key) || has_short_secret(value)
}

/// A hash as it is shown: of a PIN and its like, as of no other process.
pub fn as_shown(is_short: bool, hash: String) -> String {
    if is_short { salted(&hash) } else { hash }
}

/// A hash as only this process knows it.
pub fn salted(hash: &str) -> String {
    hashed(&format!("{}{hash}", *SALT))
}

/// What is kept of a value that opens something.
pub fn hashed(value: &str) -> String {
    let digest = Sha256::digest(value);
    let mut text = String::from(HASHED);
    for byte in digest.iter().take(8) {
        let _ = write!(text, "{byte:02x}"); // A string takes all that is written.
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{hashed, kept, shown_entries};
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

    // Seen failing on: a hash without salt; one that has it by the name of the key alone.
    #[test]
    fn nobody_finds_a_pin_by_hashing_all_that_there_are() {
        let (one, other) = (kept("pin", "1234").0, kept("pin", "1235").0);
        assert_ne!(one, hashed("1234"));
        // Clients are told apart, and the same one is the same again.
        assert!(one != other && one == kept("pin", "1234").0 && one.len() == 23);
        assert_eq!(shown_entries([("pin", &*one)].into_iter())[0]["value"], *one);
        for (key, value) in [
            ("path", "/reset?pin=1234"),
            ("path", "/reset?user=ada&OTP=1234"),
            ("path", "/login?next=%252Freset%253Fpin%253D1234"),
            ("cookie", "theme=dark; pin=1234"),
            ("body", "{\"user\": \"ada\", \"passcode\": 1234}"),
        ] {
            let shown = kept(key, value).0;
            assert!(shown != hashed(value) && shown.len() == 23 && shown == kept(key, value).0, "{value}");
        }
        for (key, value) in
            [("authorization", "1234"), ("path", "/cb?access_token=x"), ("path", "/pin?token=x")]
        {
            assert_eq!(kept(key, value).0, hashed(value), "what is long is the same at every node");
        }
    }
}
