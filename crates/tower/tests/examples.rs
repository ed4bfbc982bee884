//! The examples, each started and tested over a socket.
#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use futures_util::{SinkExt, StreamExt};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpSocket;
use tokio::process::{Child, Command};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// A second client. A server that does not see addresses would treat both as one.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A running example, killed at the end of the test.
struct Example {
    address: String,
    _process: Child,
}

impl Example {
    async fn start(name: &str) -> Self {
        // Cargo builds examples into a sibling of the tests' folder.
        let tests = std::env::current_exe().unwrap();
        let path: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
        let mut process = Command::new(path).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await.unwrap();
        let address = line.unwrap().unwrap().strip_prefix("http://").unwrap().to_owned();
        Self { address, _process: process }
    }

    async fn status(&self, path: &str, header: &str) -> u16 {
        self.status_from(Ipv4Addr::LOCALHOST, path, header).await
    }

    async fn status_from(&self, from: Ipv4Addr, path: &str, header: &str) -> u16 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let mut stream = socket.connect(self.address.parse().unwrap()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

/// Fails when the server does not record addresses.
#[tokio::test]
async fn axum_example_limits_only_its_login() {
    let example = Example::start("axum").await;
    for status in [200, 200, 429] {
        assert_eq!(example.status("/login", "").await, status);
    }
    assert_eq!(example.status_from(OTHER, "/login", "").await, 200);
    assert_eq!(example.status("/", "").await, 200);
}

/// Fails without a peer in the extensions.
#[tokio::test]
async fn hyper_example_limits_each_address() {
    let example = Example::start("hyper").await;
    for status in [200, 200, 429] {
        assert_eq!(example.status("/", "").await, status);
    }
    assert_eq!(example.status_from(OTHER, "/", "").await, 200);
}

#[tokio::test]
async fn tonic_returns_resource_exhausted_over_the_limit() {
    let example = Example::start("tonic").await;
    for from in [Ipv4Addr::LOCALHOST, OTHER] {
        let channel = Channel::from_shared(format!("http://{}", example.address)).unwrap();
        let channel = channel.local_address(Some(from.into()));
        let mut client = HealthClient::new(channel.connect().await.unwrap());
        let mut codes = Vec::new();
        for _ in 0..3 {
            let answer = client.check(HealthCheckRequest { service: String::new() }).await;
            codes.push(answer.map_or_else(|status| status.code(), |_| tonic::Code::Ok));
        }
        assert_eq!(codes, [tonic::Code::Ok, tonic::Code::Ok, tonic::Code::ResourceExhausted], "{from}");
    }
}

#[tokio::test]
async fn custom_identity_separates_tenants_behind_a_proxy() {
    let example = Example::start("custom_identity").await;
    for (path, status) in [("/acme/a", 200), ("/acme/b", 200), ("/acme/c", 429), ("/other/a", 200)] {
        assert_eq!(example.status(path, "").await, status, "{path}");
    }
    for (forwarded, status) in
        [("192.0.2.1", 200), ("192.0.2.1", 200), ("192.0.2.1", 429), ("192.0.2.2", 200)]
    {
        let header = format!("X-Forwarded-For: {forwarded}\r\n");
        assert_eq!(example.status("/", &header).await, status, "{forwarded}");
    }
}

/// Sends a hundred messages; returns the number of echoes and the close code.
async fn flood(example: &Example) -> (usize, u16) {
    let (mut client, _) = connect_async(format!("ws://{}/", example.address)).await.unwrap();
    // Pings are free; binary messages count.
    client.send(Message::Ping("hello".into())).await.unwrap();
    for _ in 0..50 {
        client.send(Message::text("hello")).await.unwrap();
        client.send(Message::binary("hello")).await.unwrap();
    }
    let replies = async {
        let mut echoes = 0;
        loop {
            match client.next().await.unwrap().unwrap() {
                Message::Close(Some(frame)) => return (echoes, u16::from(frame.code)),
                Message::Text(_) | Message::Binary(_) => echoes += 1,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), replies).await.unwrap()
}

/// Keeps the code in the guide equal to the example that is compiled and tested.
#[test]
fn guide_chat_code_equals_the_example() {
    let example = include_str!("../examples/websocket_chat.rs");
    let (_, handlers) = example.split_once("async fn join(").unwrap();
    let (handlers, _) = handlers.split_once("#[tokio::main]").unwrap();
    let guide = include_str!("../../../docs/guide/http.md");
    assert!(guide.contains(handlers.trim_end()), "copy it into the guide:\nasync fn join({handlers}");
}

/// Hangs when only text messages are charged.
#[tokio::test]
async fn chat_closes_flooding_client() {
    let (echoes, code) = flood(&Example::start("websocket_chat").await).await;
    // The last messages may not have been passed on yet.
    assert!(echoes <= 3 && code == 4429, "{echoes} echoes, {code}");
}

/// Fails with a reset when the socket is dropped right after the close.
#[tokio::test]
async fn tungstenite_socket_of_flooding_client_is_closed() {
    assert_eq!(flood(&Example::start("tungstenite").await).await, (3, 4429));
}
