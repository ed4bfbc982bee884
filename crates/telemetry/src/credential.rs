//! Credential detection by value, independent of the key. Envoy's `:path` contains a query, a header may be a list of
//! cookies, and a URL may contain a password. Unreadable text (a long run of letters and digits, base64) also counts as a
//! credential, because `9f86d081884c7d65` may be an order or a session. A UUID does not, because its standard
//! (RFC 9562) forbids its use as a credential. This runs for every entry of every recorded decision: most values are short
//! or lack the few bytes that are searched first, and a long value is only read up to a bound.

use crate::secret_name::{is_secret, is_short_secret};

/// Authentication schemes of `Authorization`: those that IANA lists, except common words, and other common ones.
const SCHEMES: [&[u8]; 18] = [
    b"bearer",
    b"basic",
    b"digest",
    b"negotiate",
    b"token",
    b"apikey",
    b"aws4-hmac-sha256",
    b"dpop",
    b"gnap",
    b"hawk",
    b"hoba",
    b"ntlm",
    b"oauth",
    b"privatetoken",
    b"scram-sha-1",
    b"scram-sha-256",
    b"sharedkey",
    b"vapid",
];
/// Prefixes of JSON in base64: the header of a JWT, and usually its payload.
const OBJECT: &[u8] = b"eyJ";
/// The only prefix that does not occur in words.
const BEARER: &[&[u8]] = &[b"bearer"];
/// Separators of names in a query, a fragment, a list of cookies and a path.
const SEPARATORS: &[u8] = b"?&;#,/+ \t\n\r";
/// Bytes of a value that are examined, which bounds the time of a decision.
const LOOKED_AT: usize = 1 << 10;
/// Bytes of a name that are examined: names of secrets are short.
const LONGEST_NAME: usize = 64;
/// A run of this many letters and digits is not a word: in hex it has the 64 bits that a session needs at least.
const UNREADABLE: usize = 16;
/// A base64 run of this length is not a name, even with a `-` or a `_` in it: 120 of the 128 bits of a token.
const ENCODED: usize = 20;
/// How often `%25` is decoded again: gateways encode text that is encoded already.
const ENCODINGS: usize = 3;

/// Whether a value is or contains a credential.
pub(super) fn is_credential(value: &str) -> bool {
    let value = value.as_bytes();
    let (looked_at, rest) = value.split_at_checked(LOOKED_AT).unwrap_or((value, &[]));
    // The rest was not examined and may contain one; the text of such a long value is not needed.
    let may_be = |byte: &u8| b"=@%: \t\n\r".contains(byte) || byte.is_ascii_digit();
    rest.iter().any(may_be) || is_one(looked_at, ENCODINGS)
}

/// Whether a part of a value is named like a PIN: the hash of such a value can be found by hashing all candidates.
pub(super) fn has_short_secret(value: &str) -> bool {
    fn has_one(text: &[u8], encodings: usize) -> bool {
        any_named(text, |name, _| name.is_some_and(is_short_secret))
            || encodings > 0 && text.contains(&b'%') && has_one(&decoded(text), encodings - 1)
    }
    let value = value.as_bytes();
    has_one(value.get(..LOOKED_AT).unwrap_or(value), ENCODINGS)
}

/// Whether a text or its decoded form is one: `%3D` stands for `=`, for example in a URL within a URL or in an obfuscated
/// name.
fn is_one(text: &[u8], encodings: usize) -> bool {
    if begins_as_one(text, &SCHEMES) || has_secret(text) || has_password(text) {
        return true;
    }
    // The digits of a `%20` do not belong to the following word.
    let is_encoded = encodings > 0 && text.contains(&b'%');
    if is_encoded { is_one(&decoded(text), encodings - 1) } else { is_unreadable(text) }
}

/// Whether a run is too long for a word or a number.
fn is_unreadable(text: &[u8]) -> bool {
    let is_not_word = |run: &[u8]| {
        run.len() >= UNREADABLE
            && run.iter().any(u8::is_ascii_alphabetic)
            && (run.starts_with(OBJECT) || run.iter().any(u8::is_ascii_digit))
    };
    let is_of_url = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    text.len() >= UNREADABLE
        && (text.split(|byte| !byte.is_ascii_alphanumeric()).any(is_not_word)
            || text.split(|byte| !is_of_url(byte)).any(is_encoded)
            || is_padded(text))
}

/// Whether a run is base64 and not words joined by a `-` or a `_`, such as `Order-Service-Production-EU-1`. Lowercase
/// letters alone are names, for example of pods, and so are hex digits with a `-`.
fn is_encoded(run: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| run.iter().any(is);
    run.len() >= ENCODED
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && !run.split(|byte| !byte.is_ascii_alphanumeric()).all(is_word)
}

/// Whether it is letters of one case, except the first, followed by digits: `Service`, `EU`, `v2`, `7` or empty.
fn is_word(piece: &[u8]) -> bool {
    let letters = piece.iter().position(u8::is_ascii_digit).unwrap_or(piece.len());
    let (letters, number) = piece.split_at_checked(letters).unwrap_or((piece, &[]));
    let rest = letters.get(1..).unwrap_or_default();
    let is_of_one_case =
        letters.iter().all(u8::is_ascii_uppercase) || rest.iter().all(u8::is_ascii_lowercase);
    is_of_one_case && number.iter().all(u8::is_ascii_digit)
}

/// Whether all of it is base64 with `+` and `/`: it needs a `+` or a final `=`, since every path has a `/`.
fn is_padded(text: &[u8]) -> bool {
    let run = text.strip_suffix(b"=").unwrap_or(text);
    let run = run.strip_suffix(b"=").unwrap_or(run);
    let is_of_it = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
    let is_marked = run.len() < text.len() || run.contains(&b'+');
    is_marked && !run.starts_with(b"/") && run.iter().all(is_of_it) && is_encoded(run)
}

/// Whether it begins with an authentication scheme.
fn begins_as_one(value: &[u8], schemes: &[&[u8]]) -> bool {
    let value = value.trim_ascii_start();
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let has_scheme = |scheme: &&[u8]| {
        let rest =
            value.split_at_checked(scheme.len()).filter(|(first, _)| first.eq_ignore_ascii_case(scheme));
        // Any space, also in the encoding of URLs.
        rest.and_then(|(_, rest)| rest.first()).is_some_and(|byte| b" \t\n\r\x0b\x0c%+".contains(byte))
    };
    schemes.iter().any(has_scheme)
}

/// Whether a credential may follow this byte.
fn is_sought(byte: u8) -> bool {
    b"=@%:".contains(&byte) || SEPARATORS.contains(&byte)
}

/// Whether a `name=`, a `name:` or a `"name":` is the name of a secret, or is followed by a credential.
fn has_secret(text: &[u8]) -> bool {
    has_key_in_query(text)
        || any_named(text, |name, behind| {
            name.is_some_and(is_secret)
                || begins_as_one(behind, if name.is_some() { &SCHEMES } else { BEARER })
        })
}

/// Whether a query contains `key=`, which is an API key there; elsewhere it is an ordinary name.
fn has_key_in_query(text: &[u8]) -> bool {
    let is_one = |five: &[u8]| {
        let (first, rest) = five.split_first().unwrap_or((&0, &[]));
        b"?&".contains(first) && rest.eq_ignore_ascii_case(b"key=")
    };
    text.windows(5).any(is_one)
}

/// Whether this holds at any separator, for the name before it, if any, and the text after it.
fn any_named(text: &[u8], is_so: impl Fn(Option<&[u8]>, &[u8]) -> bool) -> bool {
    let mut start = 0;
    for (at, byte) in text.iter().enumerate().filter(|(_, byte)| is_sought(**byte)) {
        // Only a prefix: each byte is read a bounded number of times, independent of the number of separators.
        let behind = text.get(at + 1..text.len().min(at + LONGEST_NAME)).unwrap_or_default();
        let name =
            text.get(start.max(at.saturating_sub(LONGEST_NAME))..at).unwrap_or_default().trim_ascii_end();
        let is_of_path = start.checked_sub(1).and_then(|before| text.get(before)) == Some(&b'/');
        let is_named = *byte == b'='
            || *byte == b':' && (is_spaced(name, behind) || !is_of_path && is_close(name, behind));
        if is_so(is_named.then(|| unquoted(name)), behind) {
            return true;
        }
        // In a list of cookies a space is a separator; in `"name" : 1` it is not. Names of secrets have one word.
        if is_named || SEPARATORS.contains(byte) && !byte.is_ascii_whitespace() {
            start = at + 1;
        }
    }
    false
}

/// Whether a colon between these ends a name, as in a header or in JSON, and is not part of an address, a port or a path.
fn is_spaced(name: &[u8], behind: &[u8]) -> bool {
    behind.first().is_some_and(|byte| b" \t\n\r\"'".contains(byte)) || unquoted(name).len() < name.len()
}

/// Whether a colon without a following space ends the name of a secret: `password:hunter2`. The whole word before it must be
/// such a name; a host with a port (`token-service:8080`) or a part of a longer name (`urn:a:token:b`) does not count.
fn is_close(name: &[u8], behind: &[u8]) -> bool {
    let word = name.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
    let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_port =
        (1..=5).contains(&digits) && behind.get(digits).is_none_or(|byte| SEPARATORS.contains(byte));
    !behind.is_empty()
        && !word.contains(&b':')
        && is_secret(word)
        // A PIN can have as many digits as a port.
        && (!is_port || is_short_secret(word))
}

/// Removes the closing quotation mark of a name.
fn unquoted(name: &[u8]) -> &[u8] {
    name.strip_suffix(b"\"").or_else(|| name.strip_suffix(b"'")).unwrap_or(name)
}

/// Whether the text contains a URL with a user and a password: `https://user:password@host/`.
fn has_password(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.windows(3).position(|three| three == b"://") {
        rest = rest.get(at + 3..).unwrap_or_default();
        let host = rest.split(|byte| b"/?# \t".contains(byte)).next().unwrap_or_default();
        // The last `@`: a password may contain another one.
        let user = host.iter().rposition(|byte| *byte == b'@').and_then(|end| host.get(..end));
        let colon = user.and_then(|user| user.iter().position(|byte| *byte == b':'));
        if colon.zip(user).is_some_and(|(colon, user)| colon + 1 < user.len()) {
            return true;
        }
    }
    false
}

/// Decodes percent-encoded characters.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        let encoded = (*byte == b'%').then(|| Some(digit(at + 1)? * 16 + digit(at + 2)?)).flatten();
        let encoded = encoded.and_then(|byte| u8::try_from(byte).ok());
        bytes.push(encoded.unwrap_or(*byte));
        at += if encoded.is_some() { 3 } else { 1 };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use sha2::{Digest, Sha256};

    const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

    // Fails when only the names of keys are examined.
    #[test]
    fn value_that_starts_like_credential_is_redacted() {
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
            "DPoP x",
            "NTLM x",
            "Hawk id=\"x\", mac=\"y\"",
            "HOBA result=\"x\"",
            "OAuth x",
            "PrivateToken x",
            "SharedKey user:x",
            "Bearer\nx",
            "Bearer\r\n x",
            "Bearer\u{b}x",
            JWT,
            encrypted,
            &endless,
            JWT.get(..60).unwrap(),
        ] {
            assert!(is_credential(secret), "{secret}");
        }
        for plain in [
            "",
            "ada",
            "bearer",
            "basic",
            "basically free",
            "bearers",
            "hawk",
            "hawks fly",
            "hobart",
            "eyJ",
            "eyJ.x",
            "eyJ a.b.c",
            "e",
            "token",
            "tokens",
            "/basic plan",
            "203.0.113.9",
            "a.b.c",
        ] {
            assert!(!is_credential(plain), "{plain}");
        }
    }

    // Fails when only names and prefixes are examined, when a `-` or a `_` does not end a run, when letters or digits alone
    // count, when a `-`, a `_`, a `+` or a `/` ends base64, or when words joined by a `-` count as base64.
    #[test]
    fn random_run_is_credential_but_name_number_and_uuid_are_not() {
        let far = format!("/{}{}", "a".repeat(LOOKED_AT), "9f86d081884c7d65");
        for secret in [
            "9f86d081884c7d65",
            "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "AKIAIOSFODNN7EXAMPLE",
            "/cb?code=4fPAabcdefghijkl0",
            "/reset/4fPAabcdefghijkl0/now",
            "xoxb-123456789012-4mt0t4l1yF3yp2Vq5h",
            "%2539f86d081884c7d65",
            "dBjftJeZ4CVP-mB92K27uhbUJ",
            "/cb?code=dBjftJeZ4CVP_mB92K27-hbUJ&state=a",
            "dBjftJe/Z4CVP+mB92K27/hbUJ",
            "dBjftJe/Z4CVP/mB92K27/hbUJ==",
            "dBjftJe%2FZ4CVP%2BmB92K27%2FhbUJ%3D",
            &far,
        ] {
            assert!(is_credential(secret), "{secret}");
        }
        for plain in [
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "/orders/f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "12345678901234567890",
            "internationalization",
            "/a%20internationalization",
            "9f86d081884c7d6",
            "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
            "checkout-7d9c6b8f4d-x2x9q",
            "a-very-long-name-of-a-service-v2",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0",
            "2026-11-18T08:30:00.000Z",
            "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6",
            "Order-Service-Production-EU-1",
            "X-Request-Of-Version_2",
            "/Shop/Order42Of/Some+One/And/More",
            "Shop/Order42Of/SomeOne/And/More",
            "Some+Words+Of+Version+2",
        ] {
            assert!(!is_credential(plain), "{plain}");
        }
    }

    // Fails when a `-` or a `_` ends a run (73 %).
    #[test]
    fn random_128_bit_tokens_are_detected_in_97_of_100_cases() {
        let draws = 10_000_u32;
        // The last alphabet: 40 letters without a `=`, as in secrets of cloud providers.
        for (encoding, bytes, least) in
            [(&URL_SAFE_NO_PAD, 16, 970), (&STANDARD, 16, 965), (&STANDARD, 30, 985)]
        {
            let is_taken = |number: &u32| {
                let token = Sha256::digest(number.to_le_bytes());
                is_credential(&encoding.encode(&token[..bytes]))
            };
            let taken = u32::try_from((0..draws).filter(is_taken).count()).unwrap();
            println!("{taken} of {draws}");
            assert!(taken * 1_000 / draws >= least, "{taken} of {draws}");
        }
    }

    // Fails when only the prefix is examined, when text is not decoded, when URLs, text after a name or text past the bound
    // is ignored, when names without a separator count, or when a user without a password counts.
    #[test]
    fn value_that_contains_credential_is_redacted() {
        let within = format!("/cb?state=x&h={JWT}");
        let long_name = format!("/cb?{}_token=x", "a".repeat(500));
        let far = format!("/{}?access_token=x", "a".repeat(3_000));
        for secret in [
            "/cb?access_token=x",
            "/cb?state=y&access_token=x&z=1",
            "/cb#id_token=x",
            "/cb?ACCESS_TOKEN=x",
            "/cb?access%5Ftoken=x",
            "/cb?access%5ftoken%3Dx",
            "/login?next=%2Fcb%3Fapi_key%3Dx",
            "/login?next=%252Fcb%253Fapi_key%253Dx",
            "/login?next=%25252Fcb%25253Fapi_key%25253Dx",
            "{\"access_token\":\"x\"}",
            "{\"user\": \"ada\", \"sid\" : \"x\"}",
            "%7B%22sid%22%3A%22x%22%7D",
            "Authorization: Bearer x",
            "curl with Bearer x",
            "a=b Bearer x",
            "/f?h=Bearer+x",
            "Bearer+x",
            "Cookie: a=b",
            "{\"h\":\"Bearer x\"}",
            "/a;jsessionid=x",
            "/a/sid=x",
            "sid=x; theme=dark",
            "theme=dark; sid=x",
            "theme=dark,sid=x",
            "theme=dark sid=x",
            "k=sid=x",
            "password=x",
            "/reset?pin=1234",
            "/f?x=1&sig=x",
            "/maps?key=x",
            "/maps?at=here&KEY=x",
            "/maps%3Fkey%3Dx",
            "/login?pw=x",
            "/login?user_pw=x",
            "a\nBearer x",
            "/f?h=Bearer%20x",
            &within,
            "https://u:p@h/",
            "see https://h/ and https://u:p@h/",
            "redis://:p@h:6379",
            "postgres://u:p@q@h/db",
            "/go?to=https%3A%2F%2Fu%3Ap%40h%2F",
            "/go?to=https://u:p%2Fq@h/",
            &long_name,
            &far,
        ] {
            assert!(is_credential(secret), "{secret}");
        }
        let long = "/a".repeat(3_000);
        for plain in [
            "/search?q=a",
            "/search?q=a&page=2#top",
            "/search?q=access_token",
            "/token/a=b",
            "/token?a=b",
            "/100%",
            "/a%2Fb?x=%3D",
            "%",
            "%5",
            "%zz",
            "a=b",
            "=",
            "==",
            "=token",
            "dGVzdA==",
            "author=ada",
            "sort=asc; side=left",
            "ada@example.org",
            "https://h:443/a?x=1",
            "/list?keys=a",
            "/list/key=a",
            "key=a",
            "/list?sort_key=a",
            "{\"user\":\"ada\"}",
            "note: nothing",
            "https://ada@h/",
            "https://ada:@h/",
            "https://h/@u:p",
            "https://h/a:b@c",
            "://",
            "://@",
            &long,
        ] {
            assert!(!is_credential(plain), "{plain}");
        }
    }

    // Fails when a colon ends a name only before a space or a quotation mark, or when every colon does.
    #[test]
    fn colon_ends_secret_name_but_not_path_port_or_address() {
        for secret in [
            "password:x",
            "authorization:x",
            "curl -H authorization:x",
            "Bearer:x",
            "user=ada;password:x",
            "password:12345678",
            "pin:1234",
            "{'sid':'x'}",
            "{'sid' : 'x'}",
        ] {
            assert!(is_credential(secret), "{secret}");
        }
        assert!(has_short_secret("pin:1234"));
        for plain in [
            "/v1/token:revoke",
            "/v1/token:revoke?at=once",
            "v1/auth:8080",
            "token-service:8080",
            "session-store:6379/0",
            "https://auth:443/",
            "token:",
            "urn:ietf:params:oauth:token-type:x",
            "2001:db8::1",
            "[fe80::1]:443",
            "no session at 12:30",
            "no session of host:a",
        ] {
            assert!(!is_credential(plain), "{plain}");
        }
    }
}
