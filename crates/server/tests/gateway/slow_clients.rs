//! Slow clients: timeouts for heads, bodies and responses, and a maximum number of connections.

use crate::harness::{Echo, Gateway, Raw, Wire, request, url};
use serde_json::{Value, json};
use std::time::Duration;

const SHORT: &str = "300ms";

async fn gateway(upstream: std::net::SocketAddr, front: Value, service: Value) -> Gateway {
    let mut settings = json!({"services": [{"id": "app", "upstream": url(upstream)}]});
    for (key, value) in front.as_object().unwrap() {
        settings[key] = value.clone();
    }
    for (key, value) in service.as_object().unwrap() {
        settings["services"][0][key] = value.clone();
    }
    Gateway::with(&settings).await
}

/// Asserts that the client gets nothing or a 408, and then the end of the connection.
async fn assert_timed_out(client: &mut Wire) {
    let rest = client.rest().await;
    let text = String::from_utf8_lossy(&rest);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
}

#[tokio::test]
async fn incomplete_request_head_times_out() {
    let upstream = Echo::start().await;
    let gateway = gateway(upstream.address, json!({"header_timeout": SHORT}), json!({})).await;
    for begin in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nhost: a\r\nx-a: ", "PRI * HTTP/2.0\r\n\r\nS"]
    {
        let mut client = gateway.connect().await;
        client.send(begin).await;
        assert_timed_out(&mut client).await;
    }
    assert_eq!(gateway.get("/").await.code(), 200);
    assert_eq!(upstream.take().len(), 1);
}

#[tokio::test]
async fn slowly_dripped_request_head_times_out() {
    // The timeout starts with the first byte; later bytes do not restart it.
    let upstream = Echo::start().await;
    let gateway = gateway(upstream.address, json!({"header_timeout": SHORT}), json!({})).await;
    let mut client = gateway.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n").await;
    let mut drops = 0;
    while client.is_quiet(Duration::from_millis(50)).await {
        if client.try_send(format!("x-{drops}: y\r\n")).await.is_err() {
            break;
        }
        drops += 1;
        assert!(drops < 100, "it waits forever");
    }
    assert_timed_out(&mut client).await;
    assert!(upstream.take().is_empty());
}

#[tokio::test]
async fn second_request_head_times_out_like_the_first() {
    let upstream = Echo::start().await;
    let gateway = gateway(upstream.address, json!({"header_timeout": SHORT}), json!({})).await;
    let mut client = gateway.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(client.answer().await.code(), 200);
    client.send("GET / HTTP/1.1\r\nhost: a\r\n").await;
    assert_timed_out(&mut client).await;
}

#[tokio::test]
async fn idle_connection_is_closed_after_timeout() {
    let upstream = Echo::start().await;
    let gateway = gateway(upstream.address, json!({"idle_timeout": SHORT}), json!({})).await;
    let mut silent = gateway.connect().await;
    let mut used = gateway.connect().await;
    used.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(used.answer().await.code(), 200);
    used.closed().await;
    silent.closed().await;
}

#[tokio::test]
async fn stalled_request_body_times_out_and_frees_the_upstream() {
    let upstream = Raw::start().await;
    let gateway =
        gateway(upstream.address, json!({"idle_timeout": SHORT}), json!({"timeouts": {"idle": SHORT}})).await;
    for rest in ["content-length: 100\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let mut client = gateway.connect().await;
        client.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{rest}")).await;
        let mut server = upstream.accept().await;
        server.head().await.unwrap();
        server.rest().await;
        assert_timed_out(&mut client).await;
    }
}

#[tokio::test]
async fn client_that_does_not_read_is_closed_and_frees_upstream() {
    let upstream = Raw::start().await;
    let gateway =
        gateway(upstream.address, json!({"idle_timeout": SHORT}), json!({"timeouts": {"idle": SHORT}})).await;
    let mut client = Wire::narrow(gateway.listen).await;
    client.send(request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await;
    let piece = vec![b'x'; 64 << 10];
    // It accepts what fits into the buffers, then nothing, and then the connection is closed.
    while server.try_send(&piece).await.is_ok() {}
    assert!(client.skip(u64::MAX).await < 100_000_000);
}

#[tokio::test]
async fn connections_over_the_maximum_are_not_served() {
    let upstream = Echo::start().await;
    let mut gateway = gateway(upstream.address, json!({"max_connections": 4}), json!({})).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut client = gateway.connect().await;
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!(client.answer().await.code(), 200);
        held.push(client);
    }
    let mut fifth = gateway.connect().await;
    let _ = fifth.try_send(request("GET", "/", &[], "")).await;
    // It waits, is closed, or gets a 503; it is not served.
    if !fifth.is_quiet(Duration::from_millis(300)).await {
        let got = fifth.rest().await;
        assert!(got.is_empty() || got.starts_with(b"HTTP/1.1 503"), "{:?}", String::from_utf8_lossy(&got));
    }
    assert_eq!(upstream.take().len(), 4);
    // Seen failing on: a listener that waits without a log line.
    let warning = gateway.log.next("all 4 connections of one listener are in use").await;
    assert!(warning.contains("max_connections"), "{warning}");
    for mut client in held.drain(..2) {
        client.finish().await;
        client.closed().await;
    }
    // A closed connection makes room for another.
    let served = async {
        loop {
            let mut next = gateway.connect().await;
            if next.try_send(request("GET", "/", &[], "")).await.is_err() {
                continue;
            }
            if next.rest().await.starts_with(b"HTTP/1.1 200") {
                break;
            }
        }
    };
    hivemind_testkit::within("a place", served).await;
}
