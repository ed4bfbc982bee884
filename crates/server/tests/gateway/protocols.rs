//! HTTP/2 on either side, tested with third-party clients.

use crate::harness::{Echo, Gateway, OK, Raw, run, url};
use hivemind_testkit::http2::{Connection, Frame, Headers};
use http::Version;
use serde_json::json;

async fn before(upstream: &Echo, http2: bool) -> Gateway {
    Gateway::with(&json!({
        "max_body": "100MB",
        "services": [{"id": "app", "upstream": url(upstream.address), "http2": http2}],
    }))
    .await
}

/// Request headers as a browser sends them.
pub(crate) fn headers(method: &str, path: &str) -> Headers {
    Headers::none()
        .with(":method", method)
        .with(":scheme", "http")
        .with(":path", path)
        .with(":authority", "app.example")
}

#[tokio::test]
async fn curl_http2_prior_knowledge_reaches_either_upstream() {
    let upstream = Echo::start().await;
    for http2 in [false, true] {
        let gateway = before(&upstream, http2).await;
        let address = format!("http://{}/hello", gateway.listen);
        let format = "\\n%{http_version} %{http_code}";
        let arguments =
            ["-sS", "--http2-prior-knowledge", "-w", format, "-d", "body", "-H", "x-own: 1", &address];
        assert_eq!(run("curl", &arguments).await, "POST /hello body\n2 200");
        let received = upstream.only();
        assert_eq!(received.version, if http2 { Version::HTTP_2 } else { Version::HTTP_11 });
        assert_eq!(
            (received.header("x-own"), received.header("x-forwarded-for")),
            (Some("1"), Some("127.0.0.1"))
        );
        // `:authority` becomes the host, for either version of the upstream.
        let host = received.header("host").map(str::to_owned).or(received.authority);
        assert_eq!(host, Some(gateway.listen.to_string()));
    }
}

#[tokio::test]
async fn http2_upstream_serves_http1_clients() {
    let upstream = Echo::start().await;
    let gateway = before(&upstream, true).await;
    let answer = gateway
        .ask("PUT", "/x?y", &[("connection", "close, x-hop"), ("x-hop", "1"), ("te", "trailers")], "abc")
        .await;
    assert_eq!((answer.code(), answer.text()), (200, "PUT /x abc"));
    let received = upstream.only();
    assert_eq!((received.version, received.target.as_str()), (Version::HTTP_2, "/x?y"));
    assert_eq!(received.authority.as_deref().or(received.header("host")), Some("app.example"));
    assert_eq!(received.header("x-hop"), None);
}

#[tokio::test]
async fn trailers_pass_between_all_http_versions() {
    let upstream = Echo::start().await;
    for http2 in [false, true] {
        let gateway = before(&upstream, http2).await;
        let mut old = gateway.connect().await;
        old.send("GET /trailers HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te, close\r\n\r\n").await;
        let answer = old.answer().await;
        assert_eq!(
            (answer.text(), &answer.trailers[..]),
            ("body", &[("x-checksum".to_owned(), "abc".to_owned())][..])
        );
        let sum = || {
            let received = upstream.take();
            let trailers = received.last().unwrap().trailers.clone();
            trailers.and_then(|trailers| trailers.get("x-sum").map(|sum| sum.to_str().unwrap().to_owned()))
        };
        sum();
        let mut old = gateway.connect().await;
        old.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\nconnection: close\r\n\r\n")
            .await;
        old.send("2\r\nup\r\n0\r\nx-sum: 1\r\n\r\n").await;
        assert_eq!((old.answer().await.code(), sum().as_deref()), (200, Some("1")));

        let mut new = Connection::open_at(gateway.listen, &[]).await;
        let stream = new.stream();
        new.send(&[
            headers("POST", "/trailers").with("te", "trailers").with("trailer", "x-sum").frame(stream),
            Frame::data(stream, "up"),
        ])
        .await;
        new.send(&[Headers::none().with("x-sum", "2").frame(stream).end()]).await;
        let answer = new.answer(stream).await;
        assert_eq!((&answer.body[..], answer.blocks.len()), (&b"body"[..], 2), "{answer:?}");
        assert_eq!(answer.blocks[1], [("x-checksum".to_owned(), "abc".to_owned())]);
        let received = upstream.take();
        let up = received.last().unwrap();
        assert_eq!(&up.body[..], b"up");
        assert_eq!(
            up.trailers.as_ref().and_then(|trailers| trailers.get("x-sum")).map(http::HeaderValue::as_bytes),
            Some(&b"2"[..])
        );
    }
}

#[tokio::test]
async fn slow_http2_stream_does_not_delay_other_streams() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = Connection::open_at(gateway.listen, &[]).await;
    let slow = client.stream();
    client.send(&[headers("GET", "/slow").frame(slow).end()]).await;
    let mut waits = upstream.accept().await;
    assert_eq!(waits.request().await.unwrap().target(), "/slow");
    for _ in 0..5 {
        let quick = client.stream();
        client.send(&[headers("GET", "/quick").frame(quick).end()]).await;
        let mut server = upstream.accept().await;
        assert_eq!(server.request().await.unwrap().target(), "/quick");
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await;
        assert_eq!(client.answer(quick).await.body, b"ok");
    }
    waits.send(OK).await;
    assert_eq!(client.answer(slow).await.body, b"ok");
}

#[tokio::test]
async fn http2_cookie_fields_are_joined_for_http1_upstream() {
    // RFC 9113, 8.2.3: joined by `; ` for anything but HTTP/2.
    let upstream = Echo::start().await;
    let gateway = before(&upstream, false).await;
    let mut client = Connection::open_at(gateway.listen, &[]).await;
    let stream = client.stream();
    let mut block = headers("GET", "/").with("cookie", "a=1").block();
    block.extend(Headers::none().with("cookie", "b=2").block());
    client.send(&[Frame::headers(stream, block).end()]).await;
    assert_eq!(client.answer(stream).await.value(":status"), Some("200"));
    assert_eq!(upstream.only().header("cookie"), Some("a=1; b=2"));
}

#[tokio::test]
async fn hop_by_hop_response_headers_never_reach_http2() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = Connection::open_at(gateway.listen, &[]).await;
    let stream = client.stream();
    client.send(&[headers("GET", "/").frame(stream).end()]).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server
        .send("HTTP/1.1 200 OK\r\nconnection: keep-alive, x-hop\r\nkeep-alive: 5\r\nx-hop: 1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")
        .await;
    let answer = client.answer(stream).await;
    assert_eq!((answer.value(":status"), &answer.body[..]), (Some("200"), &b"hi"[..]));
    for gone in ["connection", "keep-alive", "x-hop", "transfer-encoding"] {
        assert_eq!(answer.value(gone), None, "{gone}");
    }
}

#[tokio::test]
async fn h2load_gets_a_response_to_every_request() {
    let upstream = Echo::start().await;
    for http2 in [false, true] {
        let gateway = before(&upstream, http2).await;
        let address = format!("http://{}/x", gateway.listen);
        let output = run("h2load", &["-n", "3000", "-c", "4", "-m", "20", &address]).await;
        assert!(output.contains("3000 succeeded, 0 failed, 0 errored, 0 timeout"), "{output}");
        assert!(output.contains("3000 2xx"), "{output}");
        assert_eq!(upstream.take().len(), 3000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrk_gets_a_response_to_every_request() {
    let upstream = Echo::start().await;
    let gateway = before(&upstream, false).await;
    let address = format!("http://{}/x", gateway.listen);
    let output = run("wrk", &["-t1", "-c32", "-d2s", &address]).await;
    assert!(!output.contains("Non-2xx") && !output.contains("Socket errors"), "{output}");
    let requests =
        output.lines().find(|line| line.contains("requests in")).unwrap_or_else(|| panic!("{output}"));
    assert!(requests.trim().split(' ').next().unwrap().parse::<u64>().unwrap() > 100, "{output}");
}

// Seen failing on: a length kept with 204, which an HTTP/2 client takes for a protocol error.
#[tokio::test]
async fn no_content_response_has_no_length_over_http2() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = Connection::open_at(gateway.listen, &[]).await;
    let stream = client.stream();
    client.send(&[headers("GET", "/").frame(stream).end()]).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send("HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n").await;
    let answer = client.answer(stream).await;
    assert_eq!((answer.value(":status"), answer.value("content-length")), (Some("204"), None));
}

// Seen failing on: response trailers passed on unfiltered.
#[tokio::test]
async fn response_trailers_drop_fields_of_the_head() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = Connection::open_at(gateway.listen, &[]).await;
    let stream = client.stream();
    client.send(&[headers("GET", "/").frame(stream).end()]).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    let trailers = "x-fine: 1\r\ncontent-length: 9\r\nset-cookie: a=b\r\n";
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
    server.send(format!("{answer}{trailers}\r\n")).await;
    let answer = client.answer(stream).await;
    assert_eq!(answer.blocks[1], [("x-fine".to_owned(), "1".to_owned())]);
}
