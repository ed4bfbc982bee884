//! The identity chain: which source names the client, and how.

use crate::request;
use hivemind_tower::{Client, ClientAddress, Identity, IdentitySource, error::IdentityError};
use proptest::prelude::*;
use std::net::IpAddr;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));
/// The first 16 hex digits of SHA-256 of `abc` and of `xyz`, from `sha256sum`.
const ABC: &str = "ba7816bf8f01cfea";
const XYZ: &str = "3608bca1e44ea6c4";

fn named(lines: &[(&str, &[u8])]) -> String {
    identify(&Identity::default(), lines).name().to_owned()
}

fn identify(identity: &Identity, lines: &[(&str, &[u8])]) -> Client {
    identity.identify(&request(lines), Some(PEER))
}

#[test]
fn first_matching_identity_source_names_the_client() {
    let all: [(&str, &[u8]); 4] = [
        ("cookie", b"hivemind_session=abc"),
        ("x-session-id", b"xyz"),
        ("authorization", b"Bearer xyz"),
        ("x-api-key-id", b"team-7"),
    ];
    assert_eq!(named(&all), format!("session:{ABC}"));
    assert_eq!(named(&all[1..]), format!("session:{XYZ}"));
    assert_eq!(named(&all[2..]), format!("bearer:{XYZ}"));
    assert_eq!(named(&all[3..]), "apikey:team-7");
    assert_eq!(named(&[]), "ip:203.0.113.9");
}

#[test]
fn identity_sources_and_their_order_are_configurable() {
    let steps = [
        IdentitySource::api_key_id_in("X-Team").unwrap(),
        IdentitySource::session_in("sid", "X-Sid").unwrap(),
        IdentitySource::custom("tenant", |request| Some(request.uri.path().trim_matches('/').to_owned()))
            .unwrap(),
    ];
    let identity = Identity::new(steps, ClientAddress::peer()).unwrap();
    let named = |lines: &[(&str, &[u8])]| identify(&identity, lines).name().to_owned();
    assert_eq!(named(&[("cookie", b"sid=abc"), ("x-team", b"red")]), "apikey:red");
    assert_eq!(named(&[("cookie", b"hivemind_session=no; sid=abc")]), format!("session:{ABC}"));
    assert_eq!(named(&[("x-sid", b"abc")]), format!("session:{ABC}"));
    // The closure returned an empty text.
    assert_eq!(named(&[("authorization", b"Bearer abc")]), "ip:203.0.113.9");
    let (request, ()) = http::Request::get("/acme").body(()).unwrap().into_parts();
    assert_eq!(identity.identify(&request, None).name(), "custom:tenant:acme");
}

#[test]
fn client_is_by_address_only_without_other_identity() {
    let by_session = identify(&Identity::default(), &[("x-session-id", b"abc")]);
    assert!(!by_session.is_by_address());
    assert_eq!(by_session.address(), Some(PEER.into()));
    assert!(identify(&Identity::default(), &[]).is_by_address());
    let unknown = Identity::default().identify(&request(&[]), None);
    assert_eq!((unknown.name(), unknown.address(), unknown.is_by_address()), ("ip:unknown", None, true));
}

#[test]
fn empty_value_and_other_scheme_identify_no_client() {
    let lines: [&[(&str, &[u8])]; 10] = [
        &[("cookie", b"hivemind_session=")],
        &[("cookie", b"hivemind_session")],
        &[("cookie", b"Hivemind_Session=abc; xhivemind_session=abc; hivemind_session_=abc")],
        &[("x-session-id", b"")],
        &[("x-session-id", b"  ")],
        &[("authorization", b"Bearer")],
        &[("authorization", b"Bearer   ")],
        &[("authorization", b"Bearerabc")],
        &[("authorization", b"Basic abc")],
        &[("x-api-key-id", b"")],
    ];
    for lines in lines {
        assert_eq!(named(lines), "ip:203.0.113.9", "{lines:?}");
    }
}

#[test]
fn auth_scheme_is_case_insensitive_and_cookie_lines_merge() {
    for value in ["Bearer abc", "bearer abc", "BEARER   abc "] {
        assert_eq!(named(&[("authorization", value.as_bytes())]), format!("bearer:{ABC}"), "{value}");
    }
    let lines: [(&str, &[u8]); 2] = [("cookie", b"a=1;b=2"), ("cookie", b"c=3;hivemind_session=abc")];
    assert_eq!(named(&lines), format!("session:{ABC}"));
    // An empty cookie does not hide the header.
    assert_eq!(
        named(&[("cookie", b"hivemind_session="), ("x-session-id", b"abc")]),
        format!("session:{ABC}")
    );
}

/// Fails when the first of several lines is used.
#[test]
fn contradicting_headers_and_second_cookie_are_ignored() {
    for (name, one, other) in [
        ("x-session-id", "abc", "xyz"),
        ("authorization", "Bearer abc", "Bearer xyz"),
        ("x-api-key-id", "a", "b"),
    ] {
        let twice = [(name, one.as_bytes()), (name, other.as_bytes())];
        assert_eq!(named(&twice), "ip:203.0.113.9", "{name}");
        let same = [(name, one.as_bytes()), (name, one.as_bytes())];
        assert_eq!(named(&same), named(&same[..1]), "{name}");
        assert_ne!(named(&same), "ip:203.0.113.9", "{name}");
    }
    let lines: [(&str, &[u8]); 1] = [("cookie", b"hivemind_session=abc; hivemind_session=xyz")];
    assert_eq!(named(&lines), format!("session:{ABC}"));
}

#[test]
fn overlong_credential_identifies_no_client() {
    let (most, more) = ("x".repeat(8_192), "x".repeat(8_193));
    for name in ["x-session-id", "x-api-key-id"] {
        assert_ne!(named(&[(name, most.as_bytes())]), "ip:203.0.113.9");
        assert_eq!(named(&[(name, more.as_bytes())]), "ip:203.0.113.9");
    }
}

#[test]
fn invalid_identity_source_errors_name_the_remedy() {
    let no_identity = |_: &http::request::Parts| None;
    let errors = [
        IdentitySource::session_in("a b", "x-sid").unwrap_err(),
        IdentitySource::session_in("", "x-sid").unwrap_err(),
        IdentitySource::session_in("sid", "x sid").unwrap_err(),
        IdentitySource::api_key_id_in("").unwrap_err(),
        IdentitySource::custom("", no_identity).unwrap_err(),
        IdentitySource::custom("a:b", no_identity).unwrap_err(),
        IdentitySource::custom(&"l".repeat(17), no_identity).unwrap_err(),
    ];
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("; use") || text.contains("; write"), "{text}");
    }
    let duplicate = ["a", "b", "a"].map(|layer| IdentitySource::custom(layer, no_identity).unwrap());
    let error = Identity::new(duplicate, ClientAddress::peer()).unwrap_err();
    assert_eq!(error, IdentityError::Duplicate { name: "custom:a:".into() });
}

/// Values that try to look like another layer's name, and plain garbage.
fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "(ip:203[.]0[.]113[.]9|ip:unknown|session:ba7816bf8f01cfea|apikey:a|custom:t:a|:|a)"
            .prop_map(String::into_bytes),
        prop::collection::vec(prop_oneof![0x21..=0x7e_u8, 0x80..=0xff_u8], 1..20),
        "x{60,70}".prop_map(String::into_bytes),
    ]
}

proptest! {
    /// Fails when a session has no prefix in its name, and when an unusual API key id is not hashed.
    #[test]
    fn hostile_client_name_is_prefixed_and_bounded(value in values(), step in 0..4_usize) {
        let header = ["x-session-id", "authorization", "x-api-key-id", "x-tenant"][step];
        let prefix = ["session:", "bearer:", "apikey:", "custom:t:"][step];
        let tenant = IdentitySource::custom("t", |request| {
            Some(String::from_utf8_lossy(request.headers.get("x-tenant")?.as_bytes()).into_owned())
        });
        let steps = [IdentitySource::session(), IdentitySource::bearer(), IdentitySource::api_key_id(), tenant.unwrap()];
        let identity = Identity::new(steps, ClientAddress::peer()).unwrap();
        let value = if step == 1 { [b"Bearer ", &value[..]].concat() } else { value };
        let client = identify(&identity, &[(header, &value)]);
        prop_assert!(client.name().starts_with(prefix), "{}", client.name());
        prop_assert!(client.name().len() <= 88);
        let id = &client.name()[prefix.len()..];
        prop_assert!(!id.contains(':') || id.starts_with("sha256:"), "{}", id);
        prop_assert_eq!(client.address(), Some(PEER.into()));
    }
}
