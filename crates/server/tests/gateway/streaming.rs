//! Streaming: bodies are forwarded as they arrive, with backpressure, and never buffered whole.

use crate::harness::{Echo, Gateway, OK, Raw, Wire, is_long, request, url};
use serde_json::json;
use std::time::Duration;

/// More than the buffers of two connections hold, and far less than the body.
const MOST_IN_FLIGHT: usize = 24 << 20;
const SENT: usize = 96 << 20;
/// The time without progress after which the other side is stalled.
const STALLED: Duration = Duration::from_millis(700);
const MOST_GROWTH_KIB: u64 = 32 << 10;

async fn unbounded(upstream: std::net::SocketAddr) -> Gateway {
    let timeouts = json!({"idle": "60s", "response": "60s"});
    Gateway::with(&json!({
        "max_body": "20GB",
        "services": [{"id": "app", "upstream": url(upstream), "timeouts": timeouts}],
    }))
    .await
}

#[tokio::test]
async fn slow_client_applies_backpressure_to_the_upstream() {
    let upstream = Raw::start().await;
    let gateway = unbounded(upstream.address).await;
    let mut client = Wire::narrow(gateway.listen).await;
    client.send(request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    let before = gateway.resident_kib();
    server.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {SENT}\r\n\r\n")).await;
    let taken = server.fill(SENT, STALLED).await;
    assert!(taken < MOST_IN_FLIGHT, "{taken} bytes are somewhere on their way");
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < MOST_GROWTH_KIB, "{grown} KiB");
    // The rest arrives once the client reads.
    assert_eq!(client.head().await.unwrap().length(), Some(SENT));
    let rest = tokio::spawn(async move { server.fill(SENT - taken, Duration::from_secs(10)).await });
    assert_eq!(client.skip(u64::MAX).await, u64::try_from(SENT).unwrap());
    assert_eq!(rest.await.unwrap(), SENT - taken);
}

#[tokio::test]
async fn slow_upstream_applies_backpressure_to_the_client() {
    let upstream = Raw::narrow();
    let gateway = unbounded(upstream.address).await;
    let mut client = gateway.connect().await;
    client.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {SENT}\r\n\r\n")).await;
    let mut server = upstream.accept().await;
    let before = gateway.resident_kib();
    let taken = client.fill(SENT, STALLED).await;
    assert!(taken < MOST_IN_FLIGHT, "{taken} bytes are somewhere on their way");
    let grown = gateway.resident_kib().saturating_sub(before);
    assert!(grown < MOST_GROWTH_KIB, "{grown} KiB");
    server.head().await.unwrap();
    let rest = tokio::spawn(async move {
        client.fill(SENT - taken, Duration::from_secs(10)).await;
        client
    });
    let all = u64::try_from(SENT).unwrap();
    assert_eq!(server.skip(all).await, all);
    server.send(OK).await;
    assert_eq!(rest.await.unwrap().answer().await.code(), 200);
}

#[tokio::test]
async fn response_starts_before_the_request_ends() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
    let mut server = upstream.accept().await;
    server.head().await.unwrap();
    assert_eq!(server.bytes(8).await, b"3\r\nabc\r\n");
    server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n").await;
    assert_eq!(client.head().await.unwrap().code(), 200);
    assert_eq!(client.bytes(7).await, b"2\r\nhi\r\n");
    // Both directions alternate, one byte each.
    client.send("1\r\nd\r\n").await;
    assert_eq!(server.bytes(6).await, b"1\r\nd\r\n");
    server.send("1\r\ne\r\n").await;
    assert_eq!(client.bytes(6).await, b"1\r\ne\r\n");
    client.send("0\r\n\r\n").await;
    assert_eq!(server.bytes(5).await, b"0\r\n\r\n");
    server.send("0\r\n\r\n").await;
    assert_eq!(client.bytes(5).await, b"0\r\n\r\n");
}

#[tokio::test]
async fn client_disconnect_closes_the_upstream_connection() {
    // Otherwise the upstream would work for a client that is gone, and a long poll would be held until its
    // timeout.
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    client.send("GET /poll HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    drop(client);
    server.closed().await;

    let mut client = gateway.connect().await;
    client.send("GET /stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n").await;
    client.head().await.unwrap();
    drop(client);
    // The upstream notices at the latest when it writes again.
    while server.try_send("2\r\nhi\r\n").await.is_ok() {}
}

#[tokio::test]
async fn aborted_request_body_never_looks_complete_upstream() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    for head in ["content-length: 10\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let mut client = gateway.connect().await;
        client.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{head}")).await;
        let mut server = upstream.accept().await;
        let head = server.head().await.unwrap();
        drop(client);
        let rest = server.rest().await;
        let text = String::from_utf8(rest).unwrap();
        assert!(!text.contains("0\r\n\r\n") && text.len() < 10, "{head:?} {text:?}");
    }
}

/// Both directions, in constant memory: a gigabyte, or a fifth of it in the quick tier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_pass_in_constant_memory() {
    let size: u64 = if is_long() { 1_000_000_000 } else { 200_000_000 };
    let upstream = Echo::start().await;
    let gateway = unbounded(upstream.address).await;
    assert_eq!(gateway.get("/").await.code(), 200);
    let before = gateway.resident_kib();

    let mut client = gateway.connect().await;
    client.send(request("GET", &format!("/bytes/{size}"), &[], "")).await;
    let head = client.head().await.unwrap();
    let mut received = 0;
    if head.is_chunked() {
        // Chunks with their sizes are a little larger than the body.
        received += client.skip(u64::MAX).await;
        assert!((size..size + size / 100).contains(&received), "{received}");
    } else {
        received += client.skip(size).await;
        assert_eq!(received, size);
    }
    let downloaded = gateway.resident_kib().saturating_sub(before);

    let mut client = gateway.connect().await;
    client.send(format!("POST /count HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n")).await;
    let piece = vec![b'x'; 1 << 20];
    let mut left = usize::try_from(size).unwrap();
    while left > 0 {
        let part = left.min(piece.len());
        client.send(&piece[..part]).await;
        left -= part;
    }
    assert_eq!(client.answer().await.text(), size.to_string());
    let uploaded = gateway.resident_kib().saturating_sub(before);
    assert!(
        downloaded.max(uploaded) < 64 << 10,
        "{downloaded} KiB more after the answer, {uploaded} after the request"
    );
}
