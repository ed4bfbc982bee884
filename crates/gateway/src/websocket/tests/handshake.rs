//! The opening handshake.

use super::super::{accept_key, is_handshake};
use http::{HeaderValue, Request, Version};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

#[test]
fn accept_key_matches_rfc_6455_and_tungstenite() {
    assert_eq!(accept_key(&HeaderValue::from_static(KEY)).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    for _ in 0..100 {
        let key = generate_key();
        assert_eq!(
            accept_key(&HeaderValue::from_str(&key).unwrap()).unwrap(),
            derive_accept_key(key.as_bytes())
        );
    }
    for invalid in [
        "",
        "dGhlIHNhbXBsZSBub25jZQ",
        "dGhlIHNhbXBsZSBub25j",
        "dGhlIHNhbXBsZSBub25jZSE=",
        "!!!!IHNhbXBsZSBub25jZQ==",
    ] {
        assert_eq!(accept_key(&HeaderValue::from_static(invalid)), None, "{invalid}");
    }
}

// Fails when a condition is missing, or when `Upgrade` is compared as a whole.
#[test]
fn handshake_requires_each_of_its_headers() {
    let good = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", KEY),
        ("sec-websocket-version", "13"),
    ];
    let is_accepted = |method: &str, version, headers: &[(&str, &str)]| {
        let request = Request::builder().method(method).version(version);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        is_handshake(&request.body(()).unwrap().into_parts().0)
    };
    assert!(is_accepted("GET", Version::HTTP_11, &good));
    for (name, value) in [("connection", "keep-alive, upgrade"), ("upgrade", "h2c , WebSocket")] {
        let other: Vec<_> = good.map(|(of, is)| (of, if of == name { value } else { is })).to_vec();
        assert!(is_accepted("GET", Version::HTTP_11, &other), "{name}: {value}");
    }
    assert!(!is_accepted("POST", Version::HTTP_11, &good));
    assert!(!is_accepted("GET", Version::HTTP_10, &good));
    assert!(!is_accepted("GET", Version::HTTP_2, &good));
    for (name, value) in [
        ("connection", "close"),
        ("connection", "not-upgrade"),
        ("upgrade", "h2c"),
        ("upgrade", "websockets"),
        ("sec-websocket-key", "c2hvcnQ="),
        ("sec-websocket-version", "8"),
        ("sec-websocket-version", "13, 8"),
    ] {
        let other: Vec<_> = good.map(|(of, is)| (of, if of == name { value } else { is })).to_vec();
        assert!(!is_accepted("GET", Version::HTTP_11, &other), "{name}: {value}");
    }
    for missing in 0..good.len() {
        let others: Vec<_> =
            good.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, it)| *it).collect();
        assert!(!is_accepted("GET", Version::HTTP_11, &others), "without {}", good[missing].0);
    }
    let twice = [&good[..], &[("sec-websocket-key", KEY)]].concat();
    assert!(!is_accepted("GET", Version::HTTP_11, &twice));
}
