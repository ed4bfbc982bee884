//! Request headers: which are optional, and which are rejected.

use crate::service::{assert_still_serves, body, served};
use hivemind_testkit::http2::{Connection, Headers, reason};

#[tokio::test]
async fn te_and_encoding_headers_are_optional() {
    let (_server, mut connection) = served().await;
    let calls = [
        ("k=no-te", Headers::call().without("te")),
        ("k=proto", Headers::call().with("content-type", "application/grpc+proto")),
        ("k=no-authority", Headers::call().without(":authority")),
        ("k=host", Headers::call().without(":authority").with("host", "hivemind")),
        ("k=agent", Headers::call().with("user-agent", "grpc-c++/1.60 (linux; chttp2)")),
        ("k=https", Headers::call().with(":scheme", "https")),
        ("k=binary", Headers::call().with("trace-bin", "AAAB")),
        ("k=deadline", Headers::call().with("grpc-timeout", "20S")),
        ("k=length", Headers::call().with("content-length", &body("k=length").len().to_string())),
        ("k=empty", Headers::call().with("x-nothing", "")),
    ];
    for (key, headers) in calls {
        assert_eq!(connection.call(&headers, &body(key)).await.summary(), "OK 9/DAY, 8 left", "{key}");
    }
}

#[tokio::test]
async fn content_type_other_than_grpc_gets_415() {
    // Seen failing on: a content type that is not checked.
    let (_server, mut connection) = served().await;
    for kind in ["application/json", "text/plain", "application/grpcx"] {
        let headers = Headers::call().with("content-type", kind);
        let answer = connection.call(&headers, &body("k=x")).await;
        assert_eq!(answer.summary(), "http 415", "{kind}");
    }
    let answer = connection.call(&Headers::call().without("content-type"), &body("k=x")).await;
    assert_eq!(answer.summary(), "http 415", "none");
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn methods_other_than_post_get_405() {
    // Seen failing on: a method that is not checked.
    let (_server, mut connection) = served().await;
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "BREW"] {
        let headers = Headers::call().with(":method", method);
        let answer = connection.call(&headers, &body("k=x")).await;
        assert_eq!(answer.summary(), "http 405", "{method}: {answer:?}");
    }
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
}

async fn assert_malformed(connection: &mut Connection, what: &str, headers: &Headers) {
    let answer = connection.call(headers, &body("k=x")).await;
    // The server may answer 400 before it resets the stream, or in place of the reset.
    let refused = answer.reset == Some(reason::PROTOCOL_ERROR) || answer.value(":status") == Some("400");
    assert!(refused, "{what}: {answer:?}");
}

#[tokio::test]
async fn malformed_headers_reset_only_their_stream() {
    let (_server, mut connection) = served().await;
    let calls = [
        ("no method", Headers::call().without(":method")),
        ("no scheme", Headers::call().without(":scheme")),
        ("no path", Headers::call().without(":path")),
        ("an empty path", Headers::call().with(":path", "")),
        ("a connection", Headers::call().with("connection", "keep-alive")),
        ("a transfer coding", Headers::call().with("transfer-encoding", "chunked")),
        ("keep-alive", Headers::call().with("keep-alive", "5")),
        ("a proxy's connection", Headers::call().with("proxy-connection", "close")),
        ("an upgrade", Headers::call().with("upgrade", "h2c")),
        ("te beyond trailers", Headers::call().with("te", "gzip")),
        ("a pseudo-header of answers", Headers::call().with(":status", "200")),
        ("a length that is not its body's", Headers::call().with("content-length", "3")),
    ];
    for (what, headers) in calls {
        assert_malformed(&mut connection, what, &headers).await;
        assert_still_serves(&mut connection).await;
    }
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left", "none of them was charged");
}

#[tokio::test]
async fn invalid_header_name_closes_only_its_connection() {
    let (server, mut honest) = served().await;
    for name in ["X-Upper", ":colour", "with space", "", "kölsch", "line\nfeed"] {
        let mut connection = Connection::open(&server).await;
        let stream = connection.start(&Headers::call().with(name, "x"), &body("k=x")).await;
        // RFC 9113, 8.1.1 requires a stream error; h2 cannot continue reading, and ends the connection.
        assert_eq!(connection.failed(stream).await, reason::PROTOCOL_ERROR, "`{name}`");
        assert_still_serves(&mut honest).await;
    }
    assert_eq!(honest.ask("d", "k=x").await, "OK 9/DAY, 8 left", "none of them was charged");
}

#[tokio::test]
async fn misplaced_pseudo_header_resets_only_its_stream() {
    let (_server, mut connection) = served().await;
    let late = Headers::call().without(":path").with(":path", "/late");
    assert_malformed(&mut connection, "after the others", &late).await;
    assert_still_serves(&mut connection).await;
    let stream = connection.stream();
    let twice = [Headers::call().block(), Headers::none().with(":path", "/twice").block()].concat();
    let frames = [
        hivemind_testkit::http2::Frame::headers(stream, twice),
        hivemind_testkit::http2::Frame::data(stream, body("k=x")).end(),
    ];
    connection.send(&frames).await;
    assert_eq!(connection.answer(stream).await.reset, Some(reason::PROTOCOL_ERROR), "twice");
    assert_still_serves(&mut connection).await;
}
