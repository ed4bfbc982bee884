//! Parsing and reloading of key and token files.

use super::file::{Contents, Fault};
use super::{Access, ApiKeyTable, ApiKeys, SecretDigest, SecretFile, Tokens, format_key_line};
use crate::security::Security;
use std::fs;

fn digest(key: &str) -> SecretDigest {
    SecretDigest::of(key.as_bytes()).unwrap()
}

fn of(key: &str, list: &[&str]) -> String {
    let list: Vec<String> = list.iter().map(|&item| item.to_owned()).collect();
    format_key_line("team-a", digest(key), &list)
}

// Fails when the list is searched unsorted, when `*` is read as a domain, or when a missing list is read as
// empty.
#[test]
fn key_opens_only_the_domains_of_its_line() {
    let text = [
        "# callers".to_owned(),
        String::new(),
        of("all", &[]),
        of("two", &["web", "api"]),
        of("star", &["*"]),
        of("ops", &["@admin"]),
        of("both", &["@admin", "web"]),
    ]
    .join("\n");
    let keys = ApiKeyTable::parse(&text).unwrap();
    for (key, domains, is_admin) in [
        ("all", &["web", "api", "", "@admin"][..], false),
        ("two", &["api", "web"], false),
        ("star", &["web", "other"], false),
        ("ops", &[], true),
        ("both", &["web"], true),
    ] {
        let grant = keys.grant(key.as_bytes()).unwrap();
        assert_eq!((&*grant.name, grant.is_admin), ("team-a", is_admin), "{key}");
        for domain in ["web", "api", "", "@admin", "other", "we", "webs", "team-a"] {
            let is_open = domains.contains(&domain) || ["all", "star"].contains(&key);
            assert_eq!(grant.admits(domain), is_open, "{key} and {domain}");
        }
    }
    for wrong in ["", "al", "alles", "All", &"a".repeat(10_000)] {
        assert!(keys.grant(wrong.as_bytes()).is_none(), "{wrong:?}");
    }
    let hex = digest("all").to_hex();
    assert!(keys.grant(hex.as_bytes()).is_none(), "a digest is not a key");
}

#[test]
fn digest_equals_output_of_sha256sum() {
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(digest("abc").to_hex(), hex);
    assert_eq!(SecretDigest::from_hex(hex), Some(digest("abc")));
    assert_eq!(SecretDigest::from_hex(&hex.to_uppercase()), Some(digest("abc")));
    for wrong in ["", &hex[1..], &hex.replace('b', "g"), &format!("{hex}00"), &"\u{e9}".repeat(32)] {
        assert_eq!(SecretDigest::from_hex(wrong), None, "{wrong}");
    }
}

// Fails when an empty list is read as a missing one, which opens every domain.
#[test]
fn invalid_line_is_reported_by_number_and_not_quoted() {
    let good = of("secret-key", &[]);
    for (wrong, said) in [
        ("hm_a-pasted-key".to_owned(), "has no `:sha256:` after its name; a key itself does not belong here"),
        ("a b:sha256:00".to_owned(), "does not begin with a name"),
        (format!(":{good}"), "does not begin with a name"),
        (good.replace("sha256", "md5"), "has no `:sha256:` after its name"),
        (good.replace("sha256:", "sha256:0"), "has no digest of 64 hexadecimal digits"),
        (format!("{good}:"), "names an empty domain"),
        (format!("{good}:web,,api"), "names an empty domain"),
        (format!("{good}:{}", vec!["d"; 257].join(",")), "has more than 256 domains"),
        (good.clone(), "is the same key as one before it"),
    ] {
        let fault = ApiKeyTable::parse(&format!("\n{good}\n{wrong}\n")).unwrap_err();
        let message = fault.to_string();
        assert!(message.starts_with("line 3 ") && message.contains(said), "{wrong}: {message}");
        assert!(
            !message.contains("pasted") && !message.contains(&digest("secret-key").to_hex()),
            "{message}"
        );
    }
    let many: Vec<String> = (0..=10_000).map(|number| of(&number.to_string(), &[])).collect();
    assert_eq!(ApiKeyTable::parse(&many.join("\n")).unwrap_err(), Fault::TooMany { most: 10_000 });
}

#[test]
fn token_file_has_one_token_per_line_of_minimum_length() {
    let tokens = Tokens::parse("0123456789abcdef\n\n  the-next-one-of-two \r\n").unwrap();
    for (sent, is_one) in [
        ("0123456789abcdef", true),
        ("the-next-one-of-two", true),
        ("0123456789abcde", false),
        ("0123456789abcdef0", false),
        ("", false),
    ] {
        assert_eq!(tokens.has(sent.as_bytes()), is_one, "{sent}");
    }
    for wrong in ["short", "with a space in it, and long", "nicht-ganz-\u{fc}blich-aber-lang"] {
        let message = Tokens::parse(wrong).unwrap_err().to_string();
        assert!(message.contains("openssl rand -hex 32") && !message.contains(wrong), "{message}");
    }
    assert!(!Tokens::parse("").unwrap().has(b""));
}

// Fails when an unusable file is treated as one without keys, or when the generation stays the same.
#[test]
fn unusable_file_changes_nothing_and_empty_file_denies_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, of("old", &[])).unwrap();
    let keys = ApiKeys::open(&path).unwrap();
    let (is_known, first) = (|key: &str| keys.active().grant(key.as_bytes()).is_some(), keys.generation());
    for broken in ["no key", "\u{0}"] {
        fs::write(&path, broken).unwrap();
        assert!(keys.reload().unwrap_err().to_string().contains("`security.api_keys_file`: "));
        assert_eq!((is_known("old"), keys.generation()), (true, first));
    }
    fs::write(&path, vec![0xFF; 100]).unwrap();
    assert!(keys.reload().unwrap_err().to_string().contains("is not text"));
    fs::write(&path, " ".repeat(2 << 20)).unwrap();
    assert!(keys.reload().unwrap_err().to_string().contains("has more than 1048576 bytes"));
    fs::remove_file(&path).unwrap();
    assert!(keys.reload().unwrap_err().to_string().contains("check that the file exists"));
    assert!(is_known("old"));
    fs::write(&path, format!("{}\n{}", of("old", &[]), of("new", &[]))).unwrap();
    assert_eq!((keys.reload().unwrap(), is_known("old"), is_known("new")), (2, true, true));
    assert_ne!(keys.generation(), first);
    fs::write(&path, "").unwrap();
    assert_eq!((keys.reload().unwrap(), is_known("old"), is_known("new")), (0, false, false));
    assert!(
        keys.warnings().iter().any(|warning| warning.contains("has no API keys")),
        "{:?}",
        keys.warnings()
    );
    let security = Security { api_keys_file: Some(folder.path().join("nowhere")), ..Security::default() };
    assert!(Access::open(&security).is_err(), "an unreadable file stops the start");
}

// Fails when `SecretDigest` derives `Debug`.
#[test]
fn debug_output_contains_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, token) = (folder.path().join("keys"), folder.path().join("token"));
    fs::write(&keys, of("caller's secret", &[])).unwrap();
    fs::write(&token, "0123456789abcdef-token").unwrap();
    let security =
        Security { api_keys_file: Some(keys), token_file: Some(token.clone()), ..Security::default() };
    let shown = format!("{:?} {:?}", Access::open(&security).unwrap(), SecretFile::<Tokens>::open(&token));
    assert!(shown.contains("team-a") && shown.contains("(not shown)"), "{shown}");
    for secret in
        ["caller's secret", &digest("caller's secret").to_hex(), "0123456789abcdef-token", "186, 120"]
    {
        assert!(!shown.contains(secret), "{shown}");
    }
}
