//! Graceful shutdown: requests in flight are finished, idle connections are closed, and the process exits with
//! 0.

use crate::harness::{Echo, Gateway, OK, Raw, Setup, Wire, request, url};
use crate::protocols::headers;
use hivemind_testkit::http2::{Connection, Frame};
use serde_json::json;
use tokio::net::TcpStream;

#[tokio::test]
async fn request_in_flight_is_answered_before_shutdown() {
    for signal in ["TERM", "INT"] {
        let upstream = Raw::start().await;
        let mut gateway = Gateway::before(upstream.address).await;
        let (mut busy, mut idle) = (gateway.connect().await, gateway.connect().await);
        idle.send("GET /warm HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut server = upstream.accept().await;
        server.request().await.unwrap();
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await;
        assert_eq!(idle.answer().await.code(), 200);
        drop(server);
        busy.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf").await;
        let mut server = upstream.accept().await;
        server.head().await.unwrap();
        assert_eq!(server.bytes(4).await, b"half");
        gateway.signal(signal).await;
        // Idle connections are closed at once, and new ones are not accepted.
        idle.closed().await;
        let refused = async { while TcpStream::connect(gateway.listen).await.is_ok() {} };
        hivemind_testkit::within("the closed listener", refused).await;
        busy.send("half").await;
        assert_eq!(server.bytes(4).await, b"half");
        server.send(OK).await;
        let answer = busy.answer().await;
        assert_eq!((answer.code(), answer.text()), (200, "ok"));
        busy.closed().await;
        assert_eq!(gateway.ended().await.code(), Some(0), "{signal}");
    }
}

#[tokio::test]
async fn http2_streams_are_finished_after_goaway() {
    let upstream = Raw::start().await;
    let mut gateway = Gateway::before(upstream.address).await;
    let mut client = Connection::open_at(gateway.listen, &[]).await;
    let stream = client.stream();
    client.send(&[headers("POST", "/").frame(stream), Frame::data(stream, "a").end()]).await;
    let mut server = upstream.accept().await;
    server.head().await.unwrap();
    gateway.signal("TERM").await;
    assert_eq!(client.gone_away().await, 0);
    server.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate").await;
    assert_eq!(client.answer(stream).await.body, b"late");
    assert_eq!(gateway.ended().await.code(), Some(0));
}

#[tokio::test]
async fn endless_request_is_cut_at_the_end_of_the_grace() {
    let upstream = Raw::start().await;
    let setup = Setup::new(&json!({"services": [{"id": "app", "upstream": url(upstream.address)}]}));
    let mut gateway = setup.with(&json!({"server": {"shutdown_grace": "500ms"}})).start().await;
    let mut client = gateway.connect().await;
    client.send(request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    gateway.signal("TERM").await;
    assert_eq!(gateway.ended().await.code(), Some(0));
    client.rest().await;
}

#[tokio::test]
async fn incomplete_request_head_does_not_delay_shutdown() {
    let upstream = Echo::start().await;
    let mut gateway = Gateway::before(upstream.address).await;
    let mut client = Wire::to(gateway.listen).await;
    client.send("GET / HTTP/1.1\r\nhost:").await;
    assert_eq!(gateway.get("/").await.code(), 200);
    gateway.signal("TERM").await;
    client.rest().await;
    assert_eq!(gateway.ended().await.code(), Some(0));
}
