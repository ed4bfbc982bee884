//! Redaction of descriptor values: what may be stored, logged and shown of an entry. A credential, recognized by its key
//! (`authorization`) or by its text, is replaced by a hash of the whole value: enough to tell clients apart, and useless
//! to log in with.

use super::credential::{has_short_secret, is_credential};
use crate::secret_name::{is_secret, is_short_secret};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

const HASH_PREFIX: &str = "sha256:";
const HASH_LENGTH: usize = HASH_PREFIX.len() + 16;
/// Known to this process only. Without it, hashing every possible PIN and comparing takes no time.
static SALT: LazyLock<String> = LazyLock::new(|| {
    // The standard library draws the keys of each from the system's randomness.
    let half = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", half(), half())
});

/// Returns the value, or its hash if it is a credential, and whether it was replaced.
pub fn redact<'v>(key: &str, value: &'v str) -> (Cow<'v, str>, bool) {
    let is_redacted = !value.is_empty() && (is_secret(key) || is_credential(value));
    if !is_redacted {
        return (value.into(), false);
    }
    (salt_if_guessable(is_guessable(key, value), hash_value(value)).into(), true)
}

/// Redacts a value that may be redacted already: a hash stays as it is.
pub fn redact_once<'v>(key: &str, value: &'v str) -> Cow<'v, str> {
    if is_hash(value) { value.into() } else { redact(key, value).0 }
}

/// Whether a text has the form of a redacted value.
pub fn is_hash(text: &str) -> bool {
    text.len() == HASH_LENGTH && text.starts_with(HASH_PREFIX)
}

/// The entries as a JSON array of `key` and redacted `value`.
pub fn redacted_entries<'e>(entries: impl Iterator<Item = (&'e str, &'e str)>) -> Value {
    let redacted = entries.map(|(key, value)| json!({"key": key, "value": redact_once(key, value)}));
    redacted.collect::<Vec<_>>().into()
}

/// Whether a credential is, or contains, a PIN or another value that is found by trying all of them: `/reset?pin=1234`.
pub fn is_guessable(key: &str, value: &str) -> bool {
    is_short_secret(key) || has_short_secret(value)
}

/// The displayed hash of a credential. Hashes of guessable values are salted, so they differ between processes.
pub fn salt_if_guessable(is_guessable: bool, hash: String) -> String {
    if is_guessable { salt_hash(&hash) } else { hash }
}

/// The hash, salted with this process's secret.
pub fn salt_hash(hash: &str) -> String {
    hash_value(&format!("{}{hash}", *SALT))
}

/// The displayed hash of a value: `sha256:` and the first 16 hexadecimal digits.
pub fn hash_value(value: &str) -> String {
    let digest = Sha256::digest(value);
    let mut text = String::from(HASH_PREFIX);
    for byte in digest.iter().take(8) {
        let _ = write!(text, "{byte:02x}"); // Writing to a string cannot fail.
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{hash_value, redact, redacted_entries};
    use serde_json::json;

    #[test]
    fn credential_entry_is_shown_as_hash() {
        let entries = [("user", "ada"), ("Authorization", "Bearer x"), ("x-api-key", "")];
        let shown = redacted_entries(entries.into_iter());
        assert_eq!(shown[0], json!({"key": "user", "value": "ada"}));
        let hash = shown[1]["value"].as_str().unwrap();
        assert!(hash.starts_with("sha256:") && hash.len() == 23, "{hash}");
        assert_eq!(shown[2]["value"], "");
        // Redacting twice changes nothing.
        let (once, is_redacted) = redact("authorization", "Bearer x");
        assert!(is_redacted);
        assert_eq!(redacted_entries([("authorization", &*once)].into_iter())[0]["value"], hash);
        // Fails when only the truncated value is hashed.
        let long = "x".repeat(200);
        assert_ne!(redact("jwt", &format!("{long}a")), redact("jwt", &format!("{long}b")));
    }

    // Fails when guessable values are hashed without salt, or when only the key decides it.
    #[test]
    fn pin_hash_differs_from_plain_hash() {
        let (one, other) = (redact("pin", "1234").0, redact("pin", "1235").0);
        assert_ne!(one, hash_value("1234"));
        // Two clients differ, and one client always has the same hash.
        assert!(one != other && one == redact("pin", "1234").0 && one.len() == 23);
        assert_eq!(redacted_entries([("pin", &*one)].into_iter())[0]["value"], *one);
        for (key, value) in [
            ("path", "/reset?pin=1234"),
            ("path", "/reset?user=ada&OTP=1234"),
            ("path", "/login?next=%252Freset%253Fpin%253D1234"),
            ("cookie", "theme=dark; pin=1234"),
            ("body", "{\"user\": \"ada\", \"passcode\": 1234}"),
        ] {
            let shown = redact(key, value).0;
            assert!(
                shown != hash_value(value) && shown.len() == 23 && shown == redact(key, value).0,
                "{value}"
            );
        }
        for (key, value) in
            [("authorization", "1234"), ("path", "/cb?access_token=x"), ("path", "/pin?token=x")]
        {
            assert_eq!(
                redact(key, value).0,
                hash_value(value),
                "hashes of long values are the same on every node"
            );
        }
    }
}
