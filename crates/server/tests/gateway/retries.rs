//! Retries: a request is sent again only if no upstream can have acted on it.

use crate::harness::{Echo, Gateway, OK, Raw, Setup, Wire, request, url};
use hivemind_testkit::within;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const KEPT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// With one worker, so that the second request reuses the connection of the first.
async fn before(upstream: &Raw) -> Gateway {
    let service = json!({"id": "app", "host": "app.example", "upstream": url(upstream.address)});
    let setup = Setup::new(&json!({"services": [service]}));
    setup.with(&json!({"server": {"workers": 1}})).start().await
}

/// One answered request, after which the gateway keeps the connection.
async fn warmed(gateway: &Gateway, upstream: &Raw) -> Wire {
    let mut client = gateway.connect().await;
    client.send(request("GET", "/warm", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send(KEPT).await;
    assert_eq!(client.answer().await.code(), 200);
    server
}

/// A client whose request arrived on a kept connection, and that connection.
async fn on_a_kept_connection(gateway: &Gateway, upstream: &Raw, text: &str) -> (Wire, Wire) {
    let tried = async {
        loop {
            let mut kept = warmed(gateway, upstream).await;
            // The connection enters the pool shortly after the response: another request fills the time.
            assert_eq!(gateway.ask("GET", "/", &[("host", "unknown.example")], "").await.code(), 404);
            let mut client = gateway.connect().await;
            client.send(text).await;
            tokio::select! {
                Some(_) = kept.head() => break (client, kept),
                // The connection was not in the pool yet.
                _ = upstream.accept() => {}
            }
        }
    };
    within("a request on a kept connection", tried).await
}

#[tokio::test]
async fn closed_pooled_connection_is_not_reused() {
    let upstream = Raw::start().await;
    let gateway = before(&upstream).await;
    for method in ["GET", "POST"] {
        let server = warmed(&gateway, &upstream).await;
        drop(server);
        let mut client = gateway.connect().await;
        let body = if method == "POST" { "body" } else { "" };
        client.send(request(method, "/again", &[], body)).await;
        let mut server = upstream.accept().await;
        assert_eq!(server.request().await.unwrap().text(), body);
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await;
        assert_eq!(client.answer().await.code(), 200, "{method}");
    }
}

#[tokio::test]
async fn post_on_closing_pooled_connection_is_sent_once() {
    let upstream = Raw::start().await;
    let gateway = before(&upstream).await;
    let order = request("POST", "/order", &[], "one");
    let (mut client, mut server) = on_a_kept_connection(&gateway, &upstream, &order).await;
    assert_eq!(server.bytes(3).await, b"one");
    // The upstream has acted on it and closes before it responds.
    drop(server);
    assert_eq!(client.answer().await.code(), 502);
    assert!(upstream.is_quiet(std::time::Duration::from_millis(300)).await, "it was sent again");
}

#[tokio::test]
async fn get_on_closing_pooled_connection_is_retried() {
    let upstream = Raw::start().await;
    let gateway = before(&upstream).await;
    let page = request("GET", "/page", &[], "");
    let (mut client, server) = on_a_kept_connection(&gateway, &upstream, &page).await;
    drop(server);
    let mut server = upstream.accept().await;
    assert_eq!(server.request().await.unwrap().target(), "/page");
    server.send(OK).await;
    assert_eq!(client.answer().await.code(), 200);
}

#[tokio::test]
async fn request_with_started_body_is_not_retried() {
    let upstream = Raw::start().await;
    let gateway = before(&upstream).await;
    let begun = "PUT /file HTTP/1.1\r\nhost: app.example\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let (mut client, server) = on_a_kept_connection(&gateway, &upstream, begun).await;
    drop(server);
    let answer = tokio::select! {
        answer = client.answer() => answer,
        mut server = upstream.accept() => {
            let received = server.head().await;
            panic!("sent again after a part of it was consumed: {received:?}");
        }
    };
    assert_eq!(answer.code(), 502);
}

#[tokio::test]
async fn upstream_that_closes_each_request_is_retried_boundedly() {
    let upstream = Raw::start().await;
    let gateway = before(&upstream).await;
    let mut client = gateway.connect().await;
    client.send(request("GET", "/", &[], "")).await;
    let arrived = Arc::new(AtomicUsize::new(0));
    let answer = {
        let arrived = Arc::clone(&arrived);
        tokio::select! {
            answer = client.answer() => answer,
            () = async {
                loop {
                    let mut server = upstream.accept().await;
                    if server.request().await.is_some() {
                        arrived.fetch_add(1, Ordering::Relaxed);
                    }
                }
            } => unreachable!(),
        }
    };
    assert_eq!(answer.code(), 502);
    assert!(arrived.load(Ordering::Relaxed) <= 3, "{arrived:?}");
}

#[tokio::test]
async fn unreachable_upstream_requests_go_to_the_other() {
    // The upstream never got them, so even a POST may go to another one.
    let (dead, alive) = (Raw::unused_address().await, Echo::start().await);
    let gateway =
        Gateway::with(&json!({"services": [{"id": "app", "upstream": [url(dead), url(alive.address)]}]}))
            .await;
    for number in 0..30 {
        let answer = gateway.ask("POST", "/", &[], &format!("order {number}")).await;
        assert_eq!(answer.code(), 200, "{answer:?}");
    }
    let received = alive.take();
    let bodies: std::collections::BTreeSet<_> = received.iter().map(|request| request.body.clone()).collect();
    assert_eq!((received.len(), bodies.len()), (30, 30), "each arrived once");
}

/// Accepts, reads a request, and in turn answers, closes before its answer, or closes within it.
async fn flap(upstream: Raw, arrived: Arc<AtomicUsize>) {
    for turn in 0_usize.. {
        let mut server = upstream.accept().await;
        let arrived = Arc::clone(&arrived);
        tokio::spawn(async move {
            let mut turn = turn;
            while let Some(request) = server.request().await {
                if request.method() == "POST" {
                    arrived.fetch_add(1, Ordering::Relaxed);
                }
                turn += 1;
                let sent = match turn % 4 {
                    0 => return,
                    1 => server
                        .try_send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab")
                        .await
                        .and(Err(std::io::Error::other("cut"))),
                    _ => server.try_send(KEPT).await,
                };
                if sent.is_err() {
                    return;
                }
            }
        });
    }
}

#[tokio::test]
async fn flapping_upstream_never_gets_a_post_twice() {
    let upstream = Raw::start().await;
    let gateway = before(&upstream).await;
    let arrived = Arc::new(AtomicUsize::new(0));
    let flapping = tokio::spawn(flap(upstream, Arc::clone(&arrived)));
    let mut good = 0;
    for number in 1..=80 {
        let mut client = gateway.connect().await;
        client.send(request("POST", "/", &[], "order")).await;
        let head = client.head().await.unwrap();
        assert!([200, 502].contains(&head.code()), "{head:?}");
        good += usize::from(head.code() == 200);
        within("the end", client.rest()).await;
        assert!(arrived.load(Ordering::Relaxed) <= number, "more arrived than were sent");
    }
    assert!(good >= 20, "{good}");
    flapping.abort();
}

// Seen failing on: an upstream that fails at once and therefore always has the least load; a request that is
// not retried.
#[tokio::test]
async fn failing_upstream_is_skipped_while_another_answers() {
    let (broken, well) = (Raw::start().await, Echo::start().await);
    let upstreams = json!([url(broken.address), url(well.address)]);
    let gateway = Gateway::with(&json!({"services": [{"id": "app", "upstream": upstreams}]})).await;
    let attempts = AtomicUsize::new(0);
    let closing = async {
        loop {
            let mut server = broken.accept().await;
            attempts.fetch_add(1, Ordering::Relaxed);
            server.head().await;
        }
    };
    let asking = async {
        for _ in 0..60 {
            assert_eq!(gateway.get("/").await.code(), 200);
        }
    };
    tokio::select! { () = closing => unreachable!(), () = asking => {} }
    // Once per thread at first, and then after one, two and four seconds.
    assert!(attempts.load(Ordering::Relaxed) < 10, "{attempts:?} of 60");
}
