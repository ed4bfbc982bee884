//! `Expect: 100-continue`: the client sends its body after the interim response.

use crate::harness::{Gateway, Message, OK, Raw, Wire, request, run, url};
use serde_json::{Value, json};
use std::time::Duration;

const HEAD: &str = "POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n";
/// Long enough for a response that would arrive at once.
const A_WHILE: Duration = Duration::from_millis(300);

async fn gateway(upstream: &Raw, more: Value) -> Gateway {
    let mut service = json!({"id": "app", "upstream": url(upstream.address)});
    for (key, value) in more.as_object().unwrap() {
        service[key] = value.clone();
    }
    Gateway::with(&json!({"services": [service]})).await
}

/// Accepts a request that expects `100-continue`, and sends the interim response.
async fn accept_and_continue(upstream: &Raw) -> (Wire, Message) {
    let mut server = upstream.accept().await;
    let head = server.head().await.unwrap();
    if head.header("expect").is_some() {
        server.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    }
    (server, head)
}

#[tokio::test]
async fn waiting_client_gets_100_continue_and_its_body_arrives() {
    let upstream = Raw::start().await;
    let gateway = gateway(&upstream, json!({})).await;
    let mut client = gateway.connect().await;
    client.send(HEAD).await;
    let (interim, (mut server, request)) = tokio::join!(client.head(), accept_and_continue(&upstream));
    assert_eq!(interim.unwrap().code(), 100);
    client.send("body").await;
    assert_eq!(server.bytes(4).await, b"body", "{request:?}");
    server.send(OK).await;
    assert_eq!(client.answer().await.code(), 200);
}

#[tokio::test]
async fn refused_request_never_gets_100_continue() {
    // Over the limit, too large, or without a service: the client must not be asked for a body that would be
    // discarded.
    let upstream = Raw::start().await;
    let limited =
        json!({"limits": {"requests": 1, "window": "1h", "burst": 1}, "max_body": "3B", "host": "a"});
    let gateway = gateway(&upstream, limited).await;
    let too_large = HEAD.replace("/upload", "/large");
    let unknown = HEAD.replace("host: a", "host: unknown");
    for (head, code) in [(too_large.as_str(), 413), (unknown.as_str(), 404)] {
        let mut client = gateway.connect().await;
        client.send(head).await;
        assert_eq!(client.answer().await.code(), code, "not 100");
    }
    // Whichever request spends the limit, the second of these two is refused.
    for last in [false, true] {
        let mut client = gateway.connect().await;
        client.send(request("GET", "/", &[("host", "a")], "")).await;
        tokio::select! {
            mut server = upstream.accept() => {
                server.request().await.unwrap();
                server.send(OK).await;
                assert_eq!(client.answer().await.code(), 200);
            }
            answer = client.answer() => assert_eq!(answer.code(), 429, "{last}"),
        }
    }
    let mut client = gateway.connect().await;
    client.send(HEAD.replace("content-length: 4", "content-length: 2")).await;
    assert_eq!(client.answer().await.code(), 429, "not 100");
    assert!(upstream.is_quiet(A_WHILE).await);
}

#[tokio::test]
async fn upstream_refusal_reaches_client_before_the_body() {
    let upstream = Raw::start().await;
    let gateway = gateway(&upstream, json!({})).await;
    let mut client = gateway.connect().await;
    client.send(HEAD).await;
    let mut server = upstream.accept().await;
    server.head().await.unwrap();
    server.send("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
    let mut answer = client.answer().await;
    if answer.code() == 100 {
        // After a 100 of its own, the gateway must still pass on the final response.
        answer = client.answer().await;
    }
    assert_eq!((answer.code(), answer.text()), (403, "no"));
}

#[tokio::test]
async fn unknown_expectation_is_answered_without_waiting() {
    let upstream = Raw::start().await;
    let gateway = gateway(&upstream, json!({})).await;
    let mut client = gateway.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nexpect: something-else\r\n\r\nhi").await;
    let answer = tokio::select! {
        answer = client.answer() => answer,
        mut server = upstream.accept() => {
            server.request().await.unwrap();
            server.send(OK).await;
            client.answer().await
        }
    };
    assert!([200, 417].contains(&answer.code()), "{answer:?}");
}

#[tokio::test]
async fn curl_sends_large_body_after_100_continue() {
    let upstream = crate::harness::Echo::start().await;
    let gateway = Gateway::with(
        &json!({"max_body": "100MB", "services": [{"id": "app", "upstream": url(upstream.address)}]}),
    )
    .await;
    let body = gateway.path().join("body");
    std::fs::write(&body, vec![b'x'; 5_000_000]).unwrap();
    let (from, to) = (format!("@{}", body.display()), format!("http://{}/count", gateway.listen));
    let arguments = ["-sS", "-v", "--stderr", "-", "-H", "Expect: 100-continue", "--data-binary", &from, &to];
    let output = run("curl", &arguments).await;
    assert!(output.contains("HTTP/1.1 100"), "{output}");
    assert!(
        output.trim_end().ends_with("5000000") || output.contains("5000000\n") || output.contains("5000000*"),
        "{output}"
    );
}
