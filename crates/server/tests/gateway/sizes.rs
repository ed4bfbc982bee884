//! Size limits of heads and bodies, with responses that the client can still read.

use crate::harness::{Echo, Gateway, Raw, url};
use crate::protocols::headers;
use hivemind_testkit::http2::{Connection, Frame};
use serde_json::{Value, json};

async fn gateway(upstream: std::net::SocketAddr, front: Value) -> Gateway {
    let mut settings = json!({"services": [{"id": "app", "upstream": url(upstream)}]});
    for (key, value) in front.as_object().unwrap() {
        settings[key] = value.clone();
    }
    Gateway::with(&settings).await
}

#[tokio::test]
async fn too_many_or_too_large_headers_get_431() {
    let upstream = Echo::start().await;
    let gateway = gateway(upstream.address, json!({"max_headers": 20, "max_header_bytes": "16KiB"})).await;
    let large = "x".repeat(20_000);
    let many: Vec<(String, String)> = (0..40).map(|n| (format!("x-{n}"), "y".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (target, headers) in [("/", vec![("x-large", large.as_str())]), ("/", many)] {
        let answer = gateway.ask("GET", target, &headers, "").await;
        assert_eq!(answer.code(), 431, "{:?}", answer.start);
        assert_eq!(answer.problem()["status"], 431);
    }
    let long = gateway.get(&format!("/{large}")).await;
    assert!([414, 431].contains(&long.code()), "{long:?}");
    assert!(upstream.take().is_empty());
    // Just below the limit it passes.
    let most = "x".repeat(15_000);
    assert_eq!(gateway.ask("GET", "/", &[("x-large", &most)], "").await.code(), 200);
}

#[tokio::test]
async fn endless_request_head_gets_431_in_bounded_memory() {
    let upstream = Echo::start().await;
    let gateway = gateway(upstream.address, json!({})).await;
    let before = gateway.resident_kib();
    let mut client = gateway.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n").await;
    // The gateway reads on for a while, so that the client can read the response, and discards the data.
    let piece = "x-a: y\r\n".repeat(1_000);
    for _ in 0..1_000 {
        client.try_send(&piece).await.expect("the gateway reads on");
    }
    assert_eq!(client.answer().await.code(), 431);
    assert!(gateway.resident_kib() < before + (16 << 10));
    assert!(upstream.take().is_empty());
}

#[tokio::test]
async fn too_large_content_length_gets_413_before_the_body() {
    let upstream = Raw::start().await;
    let gateway = gateway(upstream.address, json!({"max_body": "1kB"})).await;
    let mut client = gateway.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2000000\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!((answer.code(), answer.problem()["status"].as_u64()), (413, Some(413)));
    assert!(upstream.is_quiet(std::time::Duration::from_millis(200)).await);
}

#[tokio::test]
async fn client_that_sends_everything_first_can_read_its_413() {
    // Seen failing on: a plain close, whose reset discards the response at the client.
    let upstream = Echo::start().await;
    let gateway = gateway(upstream.address, json!({"max_body": "1kB"})).await;
    let body = "x".repeat(500_000);
    for rest in [
        format!("content-length: {}\r\n\r\n{body}", body.len()),
        format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
    ] {
        for _ in 0..5 {
            let mut client = gateway.connect().await;
            client.try_send(format!("POST / HTTP/1.1\r\nhost: a\r\n{rest}")).await.expect("all is read");
            assert_eq!(client.answer().await.code(), 413);
        }
    }
    assert!(upstream.take().is_empty());
}

#[tokio::test]
async fn chunked_body_over_the_limit_gets_413_and_is_cut_upstream() {
    let upstream = Raw::start().await;
    let gateway = gateway(upstream.address, json!({"max_body": "1kB"})).await;
    let mut client = gateway.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await;
    client.send(format!("{:x}\r\n{}\r\n", 600, "x".repeat(600))).await;
    let mut server = upstream.accept().await;
    server.head().await.unwrap();
    client.send(format!("{:x}\r\n{}\r\n0\r\n\r\n", 600, "x".repeat(600))).await;
    let answer = client.answer().await;
    assert_eq!((answer.code(), answer.problem()["status"].as_u64()), (413, Some(413)));
    let got = server.rest().await;
    assert!(!got.ends_with(b"0\r\n\r\n") && got.len() < 1_300, "{}", String::from_utf8_lossy(&got));
}

#[tokio::test]
async fn body_of_exactly_the_limit_passes() {
    let upstream = Echo::start().await;
    let gateway = gateway(upstream.address, json!({"max_body": "1000B"})).await;
    for (size, code) in [(1_000, 200), (1_001, 413)] {
        assert_eq!(gateway.ask("POST", "/", &[], &"x".repeat(size)).await.code(), code);
    }
}

#[tokio::test]
async fn http2_requests_have_the_same_size_limits() {
    let upstream = Echo::start().await;
    let gateway =
        gateway(upstream.address, json!({"max_body": "1kB", "max_header_bytes": "16KiB", "max_headers": 20}))
            .await;
    let mut client = Connection::open_at(gateway.listen, &[]).await;
    let large = client.stream();
    let part = vec![b'x'; 10_000];
    client.send(&[headers("POST", "/").frame(large), Frame::data(large, part).end()]).await;
    assert_eq!(client.refusal(large).await.as_deref(), Some("http 413"));

    let mut client = Connection::open_at(gateway.listen, &[]).await;
    let many = (0..40).fold(headers("GET", "/"), |headers, n| headers.with(&format!("x-{n}"), "y"));
    let stream = client.begin(&many).await;
    let refused = client.refusal(stream).await;
    assert!(refused.as_deref() != Some("http 200"), "{refused:?}");
    assert!(upstream.take().iter().all(|request| request.headers.len() < 30));
}
