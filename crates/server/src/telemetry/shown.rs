//! Entries as they are kept for operators, and shown to them. What stands under the key of a secret (`authorization`, say), or
//! reads like one whatever its key is called, is kept as a hash of all of it: enough to tell clients apart, and nothing to log
//! in with.

use crate::config::is_secret;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;

const HASHED: &str = "sha256:";
const LONG: usize = HASHED.len() + 16;
/// What stands before the credentials of `Authorization`.
const SCHEMES: [&[u8]; 7] =
    [b"bearer", b"basic", b"digest", b"negotiate", b"token", b"apikey", b"aws4-hmac-sha256"];
/// What JSON in base64 begins with: the head of a JWT, and mostly its body.
const OBJECT: &[u8] = b"eyJ";
/// As much of a value as is looked at: whatever a client sends, a decision waits no longer.
const LOOKED_AT: usize = 4 << 10;

/// What may be kept of a value, and whether that is another text.
pub(crate) fn kept<'v>(key: &str, value: &'v str) -> (Cow<'v, str>, bool) {
    let is_kept_hidden = !value.is_empty() && (is_secret(key) || is_credential(value.as_bytes()));
    if is_kept_hidden { (hashed(value).into(), true) } else { (value.into(), false) }
}

/// Whether a value reads like what opens something, whatever its key is called.
fn is_credential(value: &[u8]) -> bool {
    let value = value.trim_ascii_start();
    let has_scheme = |scheme: &&[u8]| {
        let rest =
            value.split_at_checked(scheme.len()).filter(|(first, _)| first.eq_ignore_ascii_case(scheme));
        // A space, also as URLs have it.
        rest.is_some_and(|(_, rest)| matches!(rest.first(), Some(b' ' | b'\t' | b'%')))
    };
    match value.first().map(u8::to_ascii_lowercase) {
        Some(b'e') => is_jwt(value),
        Some(b'a' | b'b' | b'd' | b'n' | b't') => SCHEMES.iter().any(has_scheme),
        _ => false,
    }
}

/// Whether these are the parts of a JWT, in base64url and apart by dots, or its first ones where the rest was cut off.
fn is_jwt(value: &[u8]) -> bool {
    let looked_at = value.get(..LOOKED_AT).unwrap_or(value);
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(byte);
    if !value.starts_with(OBJECT) || !looked_at.iter().all(is_part) {
        return false;
    }
    let mut after_head = looked_at.split(|byte| *byte == b'.').skip(1);
    let is_body = after_head.next().is_some_and(|body| body.starts_with(OBJECT));
    is_body || after_head.next().is_some() || looked_at.len() < value.len()
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

/// What is kept of a value that opens something.
pub(crate) fn hashed(value: &str) -> String {
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
    // Seen failing on: names of keys alone.
    #[test]
    fn a_value_that_reads_like_a_credential_is_kept_as_a_hash_whatever_its_key_is_called() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let (encrypted, endless) =
            ("eyJhbGciOiJSU0EifQ.QR1Owv2ug2Wy.AxY8.5eym8.XFB", format!("eyJ{}", "A".repeat(9_000)));
        for secret in [
            "Bearer x",
            "bearer x",
            "BASIC dXNlcjpwYXNz",
            " Basic dXNlcjpwYXNz",
            "Bearer%20x",
            "Token abc",
            "Digest username=\"u\"",
            "Negotiate YII",
            "ApiKey abc",
            "AWS4-HMAC-SHA256 Credential=a",
            jwt,
            encrypted,
            &endless,
            jwt.get(..60).unwrap(),
        ] {
            let (kept, is_another) = kept("header", secret);
            assert!(is_another && kept.starts_with("sha256:"), "{secret}");
        }
        for plain in [
            "",
            "ada",
            "bearer",
            "basic",
            "basically free",
            "bearers",
            "eyJ",
            "eyJ.",
            "eyJ.x",
            "eyJ a.b.c",
            "e",
            "token",
            "tokens",
            "/basic plan",
            "203.0.113.9",
            "a.b.c",
        ] {
            assert_eq!(kept("header", plain), (plain.into(), false), "{plain}");
        }
    }
}
