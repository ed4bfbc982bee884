//! Request smuggling over HTTP/2: headers that HTTP/1.1 cannot carry never become a second request.

use crate::harness::{Gateway, Message, Recorder, url};
use crate::protocols::headers;
use hivemind_testkit::http2::{Connection, Frame, Headers};
use serde_json::json;

async fn gateway(upstream: &Recorder) -> Gateway {
    Gateway::with(&json!({
        "header_timeout": "300ms", "idle_timeout": "300ms",
        "services": [{"id": "app", "upstream": url(upstream.address), "timeouts": {"idle": "300ms"}}],
    }))
    .await
}

/// A complete request in frames, and whether it must be refused.
type Case = (&'static str, Vec<u8>, Vec<u8>, bool);

async fn try_all(cases: Vec<Case>) {
    let upstream = Recorder::start().await;
    let gateway = gateway(&upstream).await;
    let mut wrong = Vec::new();
    for (name, block, body, refused) in cases {
        let mut client = Connection::open_at(gateway.listen, &[]).await;
        let stream = client.stream();
        let head = Frame::headers(stream, block);
        let frames =
            if body.is_empty() { vec![head.end()] } else { vec![head, Frame::data(stream, body).end()] };
        client.send(&frames).await;
        // Refused by a status, by a reset, or by the end of the connection.
        let outcome = client.refusal(stream).await.unwrap_or_else(|| format!("gone {:?}", client.go_aways));
        let honest = gateway.get("/honest").await;
        let (requests, leftovers) = upstream.take();
        let others: Vec<&Message> = requests.iter().filter(|request| request.target() != "/honest").collect();
        let mut report =
            |what: &str| wrong.push(format!("{name}: {what}: {outcome} {others:?} {leftovers:?}"));
        if honest.text() != "ok" || !leftovers.is_empty() || others.len() > 1 {
            report("the upstream reads other requests");
        }
        if others.iter().any(|request| format!("{request:?}").contains("evil")) {
            report("the hidden request arrives");
        }
        if refused && (outcome == "http 200" || !others.is_empty()) {
            report("it is forwarded");
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn case(name: &'static str, headers: &Headers, body: &str) -> Case {
    (name, headers.block(), body.as_bytes().to_vec(), true)
}

#[tokio::test]
async fn http2_headers_invalid_in_http1_are_refused() {
    let get = || headers("GET", "/x");
    try_all(vec![
        case("CR LF in a value", &get().with("x-a", "b\r\nx-evil: 1"), ""),
        case("LF in a value", &get().with("x-a", "b\nx-evil: 1"), ""),
        case("CR in a value", &get().with("x-a", "b\rx-evil: 1"), ""),
        case("NUL in a value", &get().with("x-a", "b\0evil"), ""),
        case("CR LF in a name", &get().with("x-a: b\r\nx-evil", "1"), ""),
        case("a colon in a name", &get().with("x-evil:1", "b"), ""),
        case("a space in a name", &get().with("x evil", "b"), ""),
        case("an upper case name", &get().with("X-Evil", "b"), ""),
        case("an empty name", &get().with("", "evil"), ""),
        case("CR LF in the path", &headers("GET", "/x HTTP/1.1\r\nx-evil: 1\r\n\r\n"), ""),
        case("a space in the path", &headers("GET", "/x evil"), ""),
        case("a path without a slash", &headers("GET", "evil"), ""),
        case("an empty path", &headers("GET", ""), ""),
        case("CR LF in the method", &headers("GET /evil HTTP/1.1\r\nx: y", "/x"), ""),
        case("a space in the method", &headers("GET /evil", "/x"), ""),
        case("CR LF in the authority", &get().with(":authority", "a\r\nx-evil: 1"), ""),
        case("a user in the authority", &get().with(":authority", "evil@a"), ""),
        case("a path in the authority", &get().with(":authority", "a/evil"), ""),
        case("another scheme with CR LF", &get().with(":scheme", "http\r\nx-evil: 1"), ""),
        case("no path", &get().without(":path"), ""),
        case("no method", &get().without(":method"), ""),
        case("no scheme", &get().without(":scheme"), ""),
        case("an unknown pseudo-header", &get().with(":evil", "1"), ""),
        case("connection", &get().with("connection", "x-evil"), ""),
        case("transfer-encoding", &get().with("transfer-encoding", "chunked"), "0\r\n\r\n"),
        case("keep-alive", &get().with("keep-alive", "timeout=5"), ""),
        case("proxy-connection", &get().with("proxy-connection", "keep-alive"), ""),
        case("upgrade", &get().with("upgrade", "websocket"), ""),
    ])
    .await;
}

#[tokio::test]
async fn pseudo_headers_are_accepted_only_once_and_first() {
    let twice = |name: &str, value: &str| {
        [headers("GET", "/x").block(), Headers::none().with(name, value).block()].concat()
    };
    let late = [Headers::none().with("x-a", "b").block(), headers("GET", "/x").block()].concat();
    try_all(vec![
        ("two paths", twice(":path", "/evil"), Vec::new(), true),
        ("two methods", twice(":method", "POST"), Vec::new(), true),
        ("two authorities", twice(":authority", "evil"), Vec::new(), true),
        ("pseudo after others", late, Vec::new(), true),
        ("a host and another authority", twice("host", "evil.example"), Vec::new(), false),
        (
            "two lengths",
            [
                headers("POST", "/x").with("content-length", "0").block(),
                Headers::none().with("content-length", "4").block(),
            ]
            .concat(),
            b"evil".to_vec(),
            true,
        ),
    ])
    .await;
}

#[tokio::test]
async fn mismatched_content_length_never_completes_a_request() {
    let post = |length: &str| headers("POST", "/x").with("content-length", length);
    let evil = "abcGET /evil HTTP/1.1\r\nhost: a\r\n\r\n";
    try_all(vec![
        case("a body that is longer", &post("3"), evil),
        case("a body with length 0", &post("0"), evil),
        case("a body that is shorter", &post("100"), "abc"),
        case("no number", &post("three"), "abc"),
        case("a sign", &post("+3"), "abc"),
        case("no body", &post("5"), ""),
    ])
    .await;
}

#[tokio::test]
async fn http2_trailers_are_filtered_like_http1_trailers() {
    let upstream = Recorder::start().await;
    let gateway = gateway(&upstream).await;
    for (name, value) in [
        ("x-a", "b\r\nx-evil: 1"),
        (":path", "/evil"),
        ("X-Evil", "1"),
        ("connection", "x-evil"),
        ("content-length", "9"),
        ("host", "evil"),
    ] {
        let mut client = Connection::open_at(gateway.listen, &[]).await;
        let stream = client.stream();
        let trailers = Headers::none().with(name, value).frame(stream).end();
        client
            .send(&[
                headers("POST", "/x").with("te", "trailers").frame(stream),
                Frame::data(stream, "abc"),
                trailers,
            ])
            .await;
        client.refusal(stream).await;
        assert_eq!(gateway.get("/honest").await.text(), "ok");
        let (requests, leftovers) = upstream.take();
        assert!(leftovers.is_empty(), "{name}: {leftovers:?}");
        for request in requests {
            assert!(!format!("{request:?}").contains("evil"), "{name}: {request:?}");
            assert!(!request.trailers.iter().any(|(key, _)| key == name && name != "x-a"), "{request:?}");
        }
    }
}
