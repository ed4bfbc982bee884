//! Each example is started and asked over a socket, as its reader would.
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

/// A second client, which a server that knows no addresses would take for the first.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A running example; it ends with the test.
struct Example {
    address: String,
    _process: Child,
}

impl Example {
    async fn start(name: &str) -> Self {
        // Cargo builds examples beside the folder of the tests.
        let tests = std::env::current_exe().unwrap();
        let path: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
        let mut process = Command::new(path).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await.unwrap();
        let address = said.unwrap().unwrap().strip_prefix("http://").unwrap().to_owned();
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

/// Fails with a server that notes no addresses.
#[tokio::test]
async fn axum_limits_its_login_and_leaves_the_rest() {
    let example = Example::start("axum").await;
    for status in [200, 200, 429] {
        assert_eq!(example.status("/login", "").await, status);
    }
    assert_eq!(example.status_from(OTHER, "/login", "").await, 200);
    assert_eq!(example.status("/", "").await, 200);
}

/// Fails without a peer in the extensions.
#[tokio::test]
async fn hyper_alone_limits_each_address() {
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

/// How many echoes come back for a hundred messages, and the code that the connection is then closed with.
async fn flooded(example: &Example) -> (usize, u16) {
    let (mut client, _) = connect_async(format!("ws://{}/", example.address)).await.unwrap();
    // A ping is free, and a binary message is one like any other.
    client.send(Message::Ping("hello".into())).await.unwrap();
    for _ in 0..50 {
        client.send(Message::text("hello")).await.unwrap();
        client.send(Message::binary("hello")).await.unwrap();
    }
    let heard = async {
        let mut echoes = 0;
        loop {
            match client.next().await.unwrap().unwrap() {
                Message::Close(Some(frame)) => return (echoes, u16::from(frame.code)),
                Message::Text(_) | Message::Binary(_) => echoes += 1,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), heard).await.unwrap()
}

/// What the guide shows is compiled and run as the example.
#[test]
fn guide_chat_code_equals_the_example() {
    let example = include_str!("../examples/websocket_chat.rs");
    let (_, handlers) = example.split_once("async fn join(").unwrap();
    let (handlers, _) = handlers.split_once("#[tokio::main]").unwrap();
    let guide = include_str!("../../../docs/guide/http.md");
    assert!(guide.contains(handlers.trim_end()), "copy it anew:\nasync fn join({handlers}");
}

/// Seen hanging with text alone charged.
#[tokio::test]
async fn chat_closes_flooding_client() {
    let (echoes, code) = flooded(&Example::start("websocket_chat").await).await;
    // What was said last may not have been passed on yet.
    assert!(echoes <= 3 && code == 4429, "{echoes} echoes, {code}");
}

/// Fails with the socket dropped right after the close, by a reset.
#[tokio::test]
async fn tungstenite_socket_of_flooding_client_is_closed() {
    assert_eq!(flooded(&Example::start("tungstenite").await).await, (3, 4429));
}
