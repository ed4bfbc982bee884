//! Failing upstreams: unreachable, slow, disconnecting, or sending invalid responses.

use crate::harness::{Echo, Gateway, Message, Raw, request, url};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};

async fn gateway(upstream: std::net::SocketAddr, timeouts: Value) -> Gateway {
    Gateway::with(&json!({"services": [{"id": "app", "upstream": url(upstream), "timeouts": timeouts}]}))
        .await
}

fn assert_problem(answer: &Message, code: u16) {
    assert_eq!(
        (answer.code(), answer.problem()["status"].as_u64()),
        (code, Some(u64::from(code))),
        "{answer:?}"
    );
}

#[tokio::test]
async fn unreachable_upstream_is_a_502_until_it_listens() {
    let upstream = Echo::start().await;
    let unused_address = Raw::unused_address().await;
    let gateway = Gateway::with(&json!({"services": [
        {"id": "dead", "path_prefix": "/dead", "upstream": url(unused_address)},
        {"id": "app", "path_prefix": "/app", "upstream": url(upstream.address)},
    ]}))
    .await;
    for _ in 0..3 {
        assert_problem(&gateway.get("/dead").await, 502);
        assert_eq!(gateway.get("/app").await.code(), 200, "the other service is not affected");
    }
    // The upstream starts.
    let listener = tokio::net::TcpListener::bind(unused_address).await.unwrap();
    let answered = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut wire = crate::harness::Wire::over(socket);
        wire.request().await.unwrap();
        wire.send(crate::harness::OK).await;
        wire.rest().await;
    });
    gateway.until("/dead", "it is up", |answer| answer.code() == 200).await;
    drop(gateway);
    answered.await.unwrap();
}

#[tokio::test]
async fn slow_upstream_is_a_504_and_is_disconnected() {
    let upstream = Raw::start().await;
    let gateway = gateway(upstream.address, json!({"response": "300ms"})).await;
    let mut client = gateway.connect().await;
    client.send(request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    assert_problem(&client.answer().await, 504);
    server.closed().await;
}

#[tokio::test]
async fn upstream_that_stalls_within_its_response_is_closed() {
    let upstream = Raw::start().await;
    let gateway = gateway(upstream.address, json!({"idle": "300ms"})).await;
    let mut client = gateway.connect().await;
    client.send(request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
    assert_eq!(client.head().await.unwrap().code(), 200);
    assert_eq!(client.rest().await, b"half", "and closed, so that the client detects the truncation");
    server.closed().await;
}

#[tokio::test]
async fn request_timeout_covers_the_whole_exchange() {
    let upstream = Raw::start().await;
    let gateway =
        gateway(upstream.address, json!({"total": "600ms", "idle": "30s", "response": "30s"})).await;
    let mut client = gateway.connect().await;
    client.send(request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    // It sends continuously and is never idle.
    let drip = async {
        while server.try_send("1\r\nx\r\n").await.is_ok() {
            if !server.is_quiet(std::time::Duration::from_millis(20)).await {
                break;
            }
        }
    };
    hivemind_testkit::within("its end", drip).await;
    let rest = client.rest().await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "cut off, not ended");

    let mut client = gateway.connect().await;
    client.send(request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    assert_problem(&client.answer().await, 504);
}

#[tokio::test]
async fn upstream_that_does_not_accept_times_out() {
    // A full accept queue: the kernel ignores further connections.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    let brief = std::time::Duration::from_millis(200);
    while let Ok(Ok(socket)) = tokio::time::timeout(brief, TcpStream::connect(address)).await {
        waiting.push(socket);
        assert!(waiting.len() < 100, "the accept queue never fills");
    }
    let gateway = gateway(address, json!({"connect": "300ms"})).await;
    let answer = gateway.get("/").await;
    assert!([502, 504].contains(&answer.code()), "{answer:?}");
    assert_eq!(answer.problem()["status"], answer.code());
}

#[tokio::test]
async fn invalid_upstream_response_is_a_502_without_its_bytes() {
    let upstream = Raw::start().await;
    let gateway = gateway(upstream.address, json!({})).await;
    let large = format!("HTTP/1.1 200 OK\r\nx-large: {}\r\n\r\n", "x".repeat(2 << 20));
    for nonsense in [
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx-a: b\0c\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: evil\r\n\r\n",
        large.as_str(),
        "",
    ] {
        let mut client = gateway.connect().await;
        // Not idempotent, so it is tried once.
        client.send(request("POST", "/", &[], "x")).await;
        let mut server = upstream.accept().await;
        server.request().await.unwrap();
        let _ = server.try_send(nonsense).await;
        drop(server);
        let answer = client.answer().await;
        assert_eq!(answer.code(), 502, "{nonsense:.60}");
    }
}

#[tokio::test]
async fn truncated_chunked_response_is_not_completed() {
    let upstream = Raw::start().await;
    let gateway = gateway(upstream.address, json!({})).await;
    for cut in
        ["5\r\nab", "5\r\nabcde\r\n", "0\r\n", "zz\r\n", "3\r\nabcd\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\nab"]
    {
        let mut client = gateway.connect().await;
        client.send(request("GET", "/", &[], "")).await;
        let mut server = upstream.accept().await;
        server.request().await.unwrap();
        server.send(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{cut}")).await;
        drop(server);
        let rest = client.rest().await;
        let text = String::from_utf8_lossy(&rest);
        assert!(!text.ends_with("0\r\n\r\n") || text.starts_with("HTTP/1.1 502"), "{cut:?}: {text}");
    }
}

#[tokio::test]
async fn early_response_is_forwarded_during_the_request_body() {
    // An upstream may refuse an upload that it has not read.
    let upstream = Raw::start().await;
    let gateway = gateway(upstream.address, json!({})).await;
    let mut client = gateway.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nbegin").await;
    let mut server = upstream.accept().await;
    server.head().await.unwrap();
    server.send("HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
    let answer = client.answer().await;
    assert_eq!((answer.code(), answer.text()), (401, "no"));
}

// Seen failing on: a response timeout that begins with the request.
#[tokio::test]
async fn response_timeout_starts_after_the_request_body() {
    let upstream = Raw::start().await;
    let gateway = gateway(upstream.address, json!({"response": "400ms"})).await;
    let mut client = gateway.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf").await;
    let mut server = upstream.accept().await;
    server.head().await.unwrap();
    assert!(
        client.is_quiet(std::time::Duration::from_millis(900)).await,
        "the client is slow, not the upstream"
    );
    client.send("half").await;
    assert_eq!(server.bytes(8).await, b"halfhalf");
    assert!(client.is_quiet(std::time::Duration::from_millis(100)).await, "the timeout begins now");
    server.send(crate::harness::OK).await;
    assert_eq!(client.answer().await.code(), 200);
    // An upstream that does not answer then has no more than the timeout.
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nok").await;
    server.request().await.unwrap();
    assert_problem(&client.answer().await, 504);
}

// Seen failing on: a 502 without a log line.
#[tokio::test]
async fn invalid_upstream_response_is_logged_with_its_address() {
    for (response, why) in [
        ("HTTP/1.1 200 OK\r\nno header\r\n\r\n", "invalid HTTP header"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok", "ambiguous"),
        ("", "connection closed"),
    ] {
        let upstream = Raw::start().await;
        let mut gateway = Gateway::before(upstream.address).await;
        let mut client = gateway.connect().await;
        client.send(request("POST", "/", &[], "x")).await;
        let mut server = upstream.accept().await;
        server.request().await.unwrap();
        server.send(response).await;
        drop(server);
        assert_problem(&client.answer().await, 502);
        let line = gateway.log.next("sent no valid response").await;
        assert!(line.contains(&upstream.address.to_string()) && line.contains(why), "{line}");
    }
}
