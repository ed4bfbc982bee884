//! Credential detection by key: names of descriptor keys whose values are secrets. This runs for every entry of every
//! recorded decision, so it examines each letter once, and most letters begin none of these words.

/// Whether values of this key are credentials.
pub fn is_secret(key: impl AsRef<[u8]>) -> bool {
    let key = key.as_ref();
    (0..key.len()).any(|at| is_word_at(key, at))
}

/// Whether values of this key are short, so that all candidates can be tried quickly.
pub fn is_short_secret(key: impl AsRef<[u8]>) -> bool {
    const SHORT: [&str; 5] = ["pin", "otp", "totp", "mfa", "passcode"];
    let key = key.as_ref();
    let is_one = |at: usize| {
        let rest = key.get(at..).unwrap_or_default();
        SHORT.iter().any(|word| after(rest, word).is_some_and(is_end)) && is_start(key, at)
    };
    (0..key.len()).any(is_one)
}

/// Whether a word of a secret's name begins here.
fn is_word_at(key: &[u8], at: usize) -> bool {
    let rest = key.get(at..).unwrap_or_default();
    let (anywhere, last) = words(rest.first().copied().unwrap_or_default());
    anywhere.iter().any(|word| after(rest, word).is_some())
        || (last.iter().any(|word| after(rest, word).is_some_and(is_end)) && is_start(key, at))
}

/// Words by first letter: those that count anywhere in a name, and those that count only as its last word.
/// `x-auth` holds a secret, `author` and `x-auth-user` do not. A `_` stands for any separator, or for none.
const fn words(letter: u8) -> (&'static [&'static str], &'static [&'static str]) {
    match letter.to_ascii_lowercase() {
        b'a' => (
            &["authorization", "authenticat", "auth_header", "api_key", "access_key", "assertion"],
            &["auth", "authn", "authz"],
        ),
        b'b' => (&["bearer"], &[]),
        b'c' => (&["cookie", "credential", "csrf"], &["cred", "creds"]),
        b'h' => (&["hmac"], &[]),
        b'j' => (&["jwt"], &[]),
        b'm' => (&[], &["mfa"]),
        b'o' => (&["oauth"], &["otp"]),
        b'p' => (&["passw", "passphrase", "passcode", "private_key", "pwd"], &["pass", "pin", "pw"]),
        b's' => (
            &[
                "secret",
                "session",
                "sessid",
                "signature",
                "signing_key",
                "subscription_key",
                "shared_key",
                "saml",
            ],
            &["sid", "sig", "sso"],
        ),
        b't' => (&["token"], &["totp"]),
        b'x' => (&["xsrf"], &[]),
        _ => (&[], &[]),
    }
}

/// The rest after a word with which the text begins.
fn after<'k>(mut text: &'k [u8], word: &str) -> Option<&'k [u8]> {
    for letter in word.bytes() {
        let (first, rest) = text.split_first()?;
        if letter == b'_' {
            text = if first.is_ascii_alphanumeric() { text } else { rest };
        } else if first.eq_ignore_ascii_case(&letter) {
            text = rest;
        } else {
            return None;
        }
    }
    Some(text)
}

/// Whether a word begins here: `x-auth`, `xAuth`.
fn is_start(key: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| key.get(before)) else { return true };
    let is_capital = key.get(at).is_some_and(u8::is_ascii_uppercase);
    !before.is_ascii_alphanumeric() || (before.is_ascii_lowercase() && is_capital)
}

/// Whether only an optional number follows: `auth`, `auth2`.
fn is_end(rest: &[u8]) -> bool {
    rest.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::{is_secret, is_short_secret};

    // Fails when the list lacks `auth`.
    #[test]
    fn secret_names_are_detected_and_similar_names_are_not() {
        for secret in [
            "authorization",
            "Proxy-Authorization",
            "x-api-key",
            "X-API-KEY",
            "apikey",
            "api.key",
            "cookie",
            "set-cookie",
            "sessionId",
            "PHPSESSID",
            "connect.sid",
            "sid",
            "auth",
            "x-auth",
            "X-Auth",
            "xAuth",
            "basic_auth",
            "auth2",
            "auth_header",
            "oauth",
            "pass",
            "user-pass",
            "passwd",
            "password",
            "passphrase",
            "pwd",
            "userPwd",
            "pw",
            "user_pw",
            "userPw",
            "access_key",
            "AWSAccessKeyId",
            "private-key",
            "x-hub-signature-256",
            "sig",
            "hmac",
            "jwt",
            "id_token",
            "otp",
            "x-csrf",
            "xsrf",
            "credentials",
            "creds",
            "client_secret",
            "Ocp-Apim-Subscription-Key",
            "SAMLResponse",
            "pin",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for plain in [
            "",
            "_",
            "user",
            "path",
            "remote_address",
            "generic_key",
            "header_match",
            "author",
            ":authority",
            "x-auth-user",
            "auth_request_email",
            "passenger",
            "bypass",
            "compass",
            "side",
            "inside",
            "residence",
            "sign",
            "design",
            "pinned",
            "pwm",
            "opw",
            "spin",
            "tenant",
            "plan",
            "key",
            "keyboard",
            "access",
            "method",
            "s",
            "si",
        ] {
            assert!(!is_secret(plain), "{plain}");
        }
    }

    // Fails when a name is salted but not hashed.
    #[test]
    fn short_secrets_are_detected_by_name() {
        for short in ["pin", "PIN", "card-pin", "userPin", "otp", "x-otp", "totp", "mfa", "mfa2", "passcode"]
        {
            assert!(is_secret(short) && is_short_secret(short), "{short}");
        }
        for long in ["authorization", "api_key", "password", "otp_token", "spin", "pinned", "user", ""] {
            assert!(!is_short_secret(long), "{long}");
        }
    }
}
