//! Upstreams with HTTP/2 limits of their own: few concurrent streams, or streams that they reset.

use crate::harness::{Gateway, url};
use crate::protocols::headers;
use bytes::Bytes;
use h2::Reason;
use hivemind_testkit::http2::Connection;
use http::{Response, StatusCode};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::Barrier;

async fn before(upstream: SocketAddr) -> Gateway {
    Gateway::with(&json!({"services": [{
        "id": "app", "upstream": url(upstream), "http2": true, "timeouts": {"response": "20s"},
    }]}))
    .await
}

/// An upstream with two streams per connection that answers once it has `requests` of them; `/warm` is answered
/// at once.
async fn narrow(requests: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let all_there = Arc::new(Barrier::new(requests));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let all_there = Arc::clone(&all_there);
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                let mut connection =
                    builder.max_concurrent_streams(2).handshake::<_, Bytes>(socket).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let all_there = Arc::clone(&all_there);
                    tokio::spawn(async move {
                        if request.uri().path() != "/warm" {
                            all_there.wait().await;
                        }
                        let _ = respond.send_response(Response::new(()), true);
                    });
                }
            });
        }
    });
    address
}

// Seen failing on: the standard's default number of streams, whatever the upstream's setting: they wait
// forever.
#[tokio::test]
async fn upstream_stream_limit_opens_further_connections() {
    let gateway = before(narrow(5).await).await;
    let mut client = Connection::open_at(gateway.listen, &[]).await;
    // First on one connection whose setting is known, then on all connections that were opened.
    let warm = client.stream();
    client.send(&[headers("GET", "/warm").frame(warm).end()]).await;
    assert_eq!(client.answer(warm).await.value(":status"), Some("200"));
    for _ in 0..2 {
        let mut streams = Vec::new();
        for _ in 0..5 {
            let stream = client.stream();
            client.send(&[headers("GET", "/").frame(stream).end()]).await;
            streams.push(stream);
        }
        for stream in streams {
            assert_eq!(client.answer(stream).await.value(":status"), Some("200"));
        }
    }
}

/// An upstream that answers `/fine` and resets every other request once with a reason; and the requests that it
/// got.
async fn resetting(reason: Reason) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
    let log = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let line = format!("{} {}", request.method(), request.uri().path());
                    let again = {
                        let mut log = log.lock().unwrap();
                        log.push(line.clone());
                        log.iter().filter(|earlier| **earlier == line).count() > 1
                    };
                    if request.uri().path() == "/fine" || again {
                        let answer = Response::builder().status(StatusCode::OK).body(()).unwrap();
                        let mut body = respond.send_response(answer, false).unwrap();
                        body.send_data(Bytes::from_static(b"ok"), true).unwrap();
                    } else {
                        respond.send_reset(reason);
                    }
                }
            });
        }
    });
    (address, requests)
}

// Seen failing on: every reset request retried; none retried.
#[tokio::test]
async fn only_unprocessed_http2_requests_are_retried() {
    for (reason, method, code, times) in [
        (Reason::REFUSED_STREAM, "GET", 200, 2),
        (Reason::REFUSED_STREAM, "POST", 502, 1),
        (Reason::INTERNAL_ERROR, "GET", 502, 1),
        (Reason::ENHANCE_YOUR_CALM, "GET", 502, 1),
    ] {
        let (upstream, requests) = resetting(reason).await;
        let gateway = before(upstream).await;
        let mut client = gateway.connect().await;
        client.send("GET /fine HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!(client.answer().await.code(), 200);
        client.send(format!("{method} /once HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")).await;
        assert_eq!(client.answer().await.code(), code, "{reason:?} {method}");
        let requests = requests.lock().unwrap().clone();
        let once = format!("{method} /once");
        assert_eq!(
            requests.iter().filter(|earlier| **earlier == once).count(),
            times,
            "{reason:?}: {requests:?}"
        );
    }
}
