//! Headers that are for one connection and not for the request (RFC 9110, 7.6.1): they end here, with
//! all that `Connection` names. One pass over the names finds what is there to remove; most requests
//! have nothing, and nothing is looked up for them.

use super::forwarding::{is_ambiguous, tells_of_clients};
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

/// Whether a header is for one connection.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    // By length first: this is asked of every header of every request.
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

/// Removes what is for this connection alone. That the sender understands trailers is told on.
pub(super) fn remove(headers: &mut HeaderMap) {
    let found: SmallVec<[HeaderName; 8]> =
        headers.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    if found.is_empty() {
        return;
    }
    // As nearly all have it: nothing is named, and there is nothing beside.
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

/// What a client may not have removed by naming it in `Connection`: the message would be read otherwise
/// behind than before, or those behind would miss who it is from, by which it was limited.
fn is_end_to_end(name: &HeaderName) -> bool {
    [CONTENT_LENGTH, CONTENT_TYPE].contains(name) || is_identity(name) || tells_of_clients(name)
}

/// Whether a header says who asks, and whom.
fn is_identity(name: &HeaderName) -> bool {
    [HOST, AUTHORIZATION, COOKIE, X_SESSION_ID, X_API_KEY_ID].contains(name)
}

/// Removes of trailers what means something only where it was looked for: in the head. There it
/// was checked and counted; behind, trailers may be put beside the head as if they had been in it.
pub(super) fn remove_from_trailers(trailers: &mut HeaderMap) {
    let is_of_the_head = |name: &&HeaderName| {
        is_hop_by_hop(name)
            || is_end_to_end(name)
            || is_ambiguous(name)
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

    /// Seen failing without what `Connection` names.
    #[test]
    fn what_is_for_one_connection_ends_here_and_the_rest_goes_on() {
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
    fn what_a_client_was_limited_by_is_not_removed_because_it_says_so() {
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
    fn of_trailers_only_those_go_on_that_are_for_no_one_on_the_way() {
        let mut trailers = map(&[
            ("x-checksum", "1"),
            ("grpc-status", "0"),
            ("x-forwarded-for", "1.2.3.4"),
            ("forwarded", "for=1.2.3.4"),
            ("x-real-ip", "1.2.3.4"),
            ("x_real_ip", "1.2.3.4"),
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
    fn the_usual_connection_header_hides_no_second_one() {
        let mut headers = map(&[("connection", "keep-alive"), ("x-hop", "1")]);
        headers.append(CONNECTION, HeaderValue::from_static("x-hop"));
        remove(&mut headers);
        assert!(headers.is_empty(), "{headers:?}");
        let mut headers = map(&[("connection", "keep-alive"), ("x-kept", "1")]);
        remove(&mut headers);
        assert_eq!(headers, map(&[("x-kept", "1")]));
    }

    #[test]
    fn where_nothing_is_for_one_connection_nothing_changes() {
        let mut headers = map(&[("accept", "*/*"), ("x-kept", "2")]);
        remove(&mut headers);
        assert_eq!(headers, map(&[("accept", "*/*"), ("x-kept", "2")]));
    }
}
