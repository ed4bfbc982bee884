//! Hop-by-hop headers (RFC 9110, 7.6.1): removed here, together with all headers that `Connection` names. One pass
//! over the names finds them; most requests have none and need no lookup.

use super::forwarding::{describes_client, is_ambiguous, is_override};
use hivemind_tower::tokens::has_token;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, COOKIE, EXPECT,
    HOST, HeaderMap, HeaderName, HeaderValue, MAX_FORWARDS, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use smallvec::SmallVec;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

const X_SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");
const X_API_KEY_ID: HeaderName = HeaderName::from_static("x-api-key-id");

/// Whether a header applies only to one connection.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    // By length first, because this runs for every header of every request.
    match name.as_str().len() {
        2 => *name == TE,
        7 => *name == UPGRADE,
        10 => *name == CONNECTION || *name == KEEP_ALIVE,
        14 => *name == HTTP2_SETTINGS,
        16 => *name == PROXY_CONNECTION,
        17 => *name == TRANSFER_ENCODING,
        18 => *name == PROXY_AUTHENTICATE,
        19 => *name == PROXY_AUTHORIZATION,
        _ => false,
    }
}

/// Removes hop-by-hop headers. Only `TE: trailers` is passed on.
pub(super) fn remove(headers: &mut HeaderMap) {
    let found: SmallVec<[HeaderName; 8]> =
        headers.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    if found.is_empty() {
        return;
    }
    // The usual case: no other header is named, and there is nothing else to remove.
    let mut values = headers.get_all(CONNECTION).iter();
    if let ([_], Some(value), None) = (&*found, values.next(), values.next())
        && (value == "keep-alive" || value == "close")
    {
        headers.remove(CONNECTION);
        return;
    }
    let takes_trailers = has_token(headers, &TE, "trailers");
    let named: SmallVec<[HeaderName; 4]> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| !is_end_to_end(name))
        .collect();
    for name in found.iter().chain(&named) {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Headers that a client cannot remove by naming them in `Connection`: the upstream would frame the message
/// differently, or miss the identity by which the request was limited.
fn is_end_to_end(name: &HeaderName) -> bool {
    [CONTENT_LENGTH, CONTENT_TYPE].contains(name) || is_identity(name) || describes_client(name)
}

/// Whether a header identifies the client or the host.
fn is_identity(name: &HeaderName) -> bool {
    [HOST, AUTHORIZATION, COOKIE, X_SESSION_ID, X_API_KEY_ID].contains(name)
}

/// Removes trailers that only have a meaning in the head, where they were checked and counted: an upstream may merge
/// trailers into the head.
pub(super) fn remove_from_trailers(trailers: &mut HeaderMap) {
    let is_of_the_head = |name: &&HeaderName| {
        is_hop_by_hop(name)
            || is_end_to_end(name)
            || is_ambiguous(name)
            || is_override(name)
            || [CONTENT_ENCODING, CONTENT_RANGE, TRAILER, EXPECT, MAX_FORWARDS, SET_COOKIE].contains(*name)
    };
    let found: SmallVec<[HeaderName; 4]> = trailers.keys().filter(is_of_the_head).cloned().collect();
    for name in &found {
        trailers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        lines.iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect()
    }

    /// Fails when headers that `Connection` names are kept.
    #[test]
    fn hop_by_hop_headers_are_removed_and_others_kept() {
        let mut headers = map(&[
            ("connection", "keep-alive, X-Secret-Hop, content-length"),
            ("keep-alive", "timeout=5"),
            ("x-secret-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
            ("proxy-connection", "close"),
            ("proxy-authorization", "Basic eDp5"),
            ("te", "gzip, trailers"),
            ("trailer", "x-checksum"),
            ("content-length", "3"),
            ("x-kept", "2"),
        ]);
        remove(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "te", "trailer", "x-kept"]);
        assert_eq!(headers["te"], "trailers");
    }

    #[test]
    fn identity_headers_named_in_connection_are_kept() {
        let names = [
            "authorization",
            "content-length",
            "cookie",
            "forwarded",
            "host",
            "x-api-key-id",
            "x-forwarded-for",
            "x-real-ip",
            "x-session-id",
        ];
        let mut headers = map(&names.map(|name| (name, "1")));
        headers.insert(CONNECTION, HeaderValue::from_str(&names.join(", ")).unwrap());
        remove(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, names);
    }

    #[test]
    fn trailers_with_a_meaning_in_the_head_are_removed() {
        let mut trailers = map(&[
            ("x-checksum", "1"),
            ("grpc-status", "0"),
            ("x-forwarded-for", "1.2.3.4"),
            ("forwarded", "for=1.2.3.4"),
            ("x-real-ip", "1.2.3.4"),
            ("x_real_ip", "1.2.3.4"),
            ("x-http-method-override", "DELETE"),
            ("proxy", "http://192.0.2.1"),
            ("cookie", "session_id=a"),
            ("authorization", "Bearer a"),
            ("x-session-id", "a"),
            ("x-api-key-id", "a"),
            ("host", "a"),
            ("content-length", "5"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("trailer", "host"),
        ]);
        remove_from_trailers(&mut trailers);
        let mut left: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["grpc-status", "x-checksum"]);
    }

    #[test]
    fn second_connection_header_is_not_ignored() {
        let mut headers = map(&[("connection", "keep-alive"), ("x-hop", "1")]);
        headers.append(CONNECTION, HeaderValue::from_static("x-hop"));
        remove(&mut headers);
        assert!(headers.is_empty(), "{headers:?}");
        let mut headers = map(&[("connection", "keep-alive"), ("x-kept", "1")]);
        remove(&mut headers);
        assert_eq!(headers, map(&[("x-kept", "1")]));
    }

    #[test]
    fn end_to_end_headers_are_unchanged() {
        let mut headers = map(&[("accept", "*/*"), ("x-kept", "2")]);
        remove(&mut headers);
        assert_eq!(headers, map(&[("accept", "*/*"), ("x-kept", "2")]));
    }
}
