//! `Expect: 100-continue`: the client sends its body once somebody wants it.

use crate::harness::{Gateway, Message, OK, Raw, Wire, request, run, url};
use serde_json::{Value, json};
use std::time::Duration;

const HEAD: &str = "POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n";
/// Long enough for what would come at once.
const A_WHILE: Duration = Duration::from_millis(300);

async fn gateway(upstream: &Raw, more: Value) -> Gateway {
    let mut service = json!({"id": "app", "upstream": url(upstream.address)});
    for (key, value) in more.as_object().unwrap() {
        service[key] = value.clone();
    }
    Gateway::with(&json!({"services": [service]})).await
}

/// Accepts a request that waits, and lets it go on.
async fn welcome(upstream: &Raw) -> (Wire, Message) {
    let mut server = upstream.accept().await;
    let head = server.head().await.unwrap();
    if head.header("expect").is_some() {
        server.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    }
    (server, head)
}

#[tokio::test]
async fn a_client_that_waits_is_told_to_go_on_and_its_body_arrives() {
    let upstream = Raw::start().await;
    let gateway = gateway(&upstream, json!({})).await;
    let mut client = gateway.connect().await;
    client.send(HEAD).await;
    let (interim, (mut server, seen)) = tokio::join!(client.head(), welcome(&upstream));
    assert_eq!(interim.unwrap().code(), 100);
    client.send("body").await;
    assert_eq!(server.bytes(4).await, b"body", "{seen:?}");
    server.send(OK).await;
    assert_eq!(client.answer().await.code(), 200);
}

#[tokio::test]
async fn a_request_that_is_refused_is_never_told_to_go_on() {
    // Over its limit, too large, for nobody: the client must not be asked for a body that is thrown away.
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
    // Whatever that one spent: the second of these two is refused.
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
async fn a_refusal_of_the_upstream_goes_to_the_client_before_its_body() {
    let upstream = Raw::start().await;
    let gateway = gateway(&upstream, json!({})).await;
    let mut client = gateway.connect().await;
    client.send(HEAD).await;
    let mut server = upstream.accept().await;
    server.head().await.unwrap();
    server.send("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
    let mut answer = client.answer().await;
    if answer.code() == 100 {
        // A gateway that spoke for itself has to go on to the real answer all the same.
        answer = client.answer().await;
    }
    assert_eq!((answer.code(), answer.text()), (403, "no"));
}

#[tokio::test]
async fn an_expectation_that_nobody_knows_is_not_a_reason_to_hang() {
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
async fn curl_sends_a_large_body_after_it_waited() {
    let upstream = crate::harness::Echo::start().await;
    let gateway = Gateway::with(
        &json!({"max_body": "100MB", "services": [{"id": "app", "upstream": url(upstream.address)}]}),
    )
    .await;
    let body = gateway.path().join("body");
    std::fs::write(&body, vec![b'x'; 5_000_000]).unwrap();
    let (from, to) = (format!("@{}", body.display()), format!("http://{}/count", gateway.listen));
    let arguments = ["-sS", "-v", "--stderr", "-", "-H", "Expect: 100-continue", "--data-binary", &from, &to];
    let said = run("curl", &arguments).await;
    assert!(said.contains("HTTP/1.1 100"), "{said}");
    assert!(
        said.trim_end().ends_with("5000000") || said.contains("5000000\n") || said.contains("5000000*"),
        "{said}"
    );
}
