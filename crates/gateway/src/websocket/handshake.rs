//! Opening handshake (RFC 6455, section 4.2), as far as a gateway takes part.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hivemind_tower::tokens::has_token;
use http::header::{CONNECTION, HeaderName, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Version};
use sha1_smol::Sha1;

/// RFC 6455: every server appends this to the key, so that no other kind of server confirms by chance.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const KEY_LENGTH: usize = 16;

/// Whether a request is a WebSocket handshake of RFC 6455: HTTP/1.1, a key of 16 bytes, version 13. The handshake
/// over HTTP/2 (RFC 8441) is not supported.
pub(crate) fn is_handshake(parts: &Parts) -> bool {
    let headers = &parts.headers;
    parts.method == Method::GET
        && parts.version == Version::HTTP_11
        && has_token(headers, &CONNECTION, "upgrade")
        && has_token(headers, &UPGRADE, "websocket")
        && only(headers, &SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13")
        && only(headers, &SEC_WEBSOCKET_KEY).is_some_and(is_key)
}

/// The `Sec-WebSocket-Accept` for a client's key; `None` if the key is invalid.
pub(crate) fn accept_key(key: &HeaderValue) -> Option<HeaderValue> {
    if !is_key(key) {
        return None;
    }
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(GUID);
    HeaderValue::try_from(STANDARD.encode(hash.digest().bytes())).ok()
}

fn is_key(key: &HeaderValue) -> bool {
    let mut bytes = [0; KEY_LENGTH + 2]; // The decoder's buffer size for 24 characters.
    key.len() == 24 && STANDARD.decode_slice(key.as_bytes(), &mut bytes) == Ok(KEY_LENGTH)
}

/// The value of a header that occurs once. Two servers may read duplicates differently.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}
