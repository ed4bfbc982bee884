//! A gateway in front of an app that responds with the request it got.

use crate::receiver::Receiver;
use hivemind_testkit::{Log, Page, exchange, within};
use std::net::SocketAddr;
use std::process::Stdio;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

pub(crate) struct Gateway {
    _folder: tempfile::TempDir,
    child: Child,
    address: SocketAddr,
    /// Read continuously, because a full pipe would block the process.
    _logs: [Log; 2],
}

impl Gateway {
    /// A gateway with a limit of `limit` requests.
    pub(crate) async fn start(receiver: &Receiver, app: SocketAddr, limit: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hivemind.yaml");
        let url = &receiver.url;
        let configuration = format!(
            "server: {{grpc_port: off, admin_port: off, metrics_port: off}}
observability: {{otel: {{tracing: {{endpoint: '{url}'}}}}}}
gateway:
  listen: 127.0.0.1:0
  services:
    - {{id: app, upstream: 'http://{app}', limits: {{requests: {limit}, window: 24h, burst: {limit}}}}}
"
        );
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
        command.args(["serve", "--config"]).arg(&path).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let log = Log::of(child.stderr.take().unwrap());
        let mut screen = Log::of(child.stdout.take().unwrap());
        let line = screen.next("gateway ").await;
        let address = line.split_once("://").unwrap().1.split(['/', ' ']).next().unwrap().parse().unwrap();
        screen.next("Stop it with").await;
        Self { _folder: folder, child, address, _logs: [log, screen] }
    }

    /// Sends one request with these headers. The request that the app got is the body of the response.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Page {
        self.ask("GET", path, headers).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Page {
        let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let path = format!("{path} HTTP/1.1\r\n{}x-rest:", lines.concat());
        let connection = TcpStream::connect(self.address).await.unwrap();
        within("an answer", exchange(connection, method, &path, "")).await
    }

    /// Stops it; by then it has exported everything.
    pub(crate) async fn end(mut self) {
        let command = format!("kill -TERM {}", self.child.id().expect("it runs"));
        assert!(Command::new("sh").args(["-c", &command]).status().await.unwrap().success());
        assert!(within("its end", self.child.wait()).await.unwrap().success());
    }
}

/// A header that the app got, at most once.
pub(crate) fn received_header<'p>(page: &'p Page, name: &str) -> Option<&'p str> {
    let pairs = page.body.lines().filter_map(|line| line.split_once(": "));
    let lines: Vec<&str> = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).collect();
    assert!(lines.len() <= 1, "{}", page.body);
    lines.first().copied()
}

/// An app that responds with the head of the request, for as long as the test runs.
pub(crate) async fn app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut head, mut bytes) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    head.extend_from_slice(&bytes[..read]);
                    if head.ends_with(b"\r\n\r\n") {
                        let length = head.len();
                        let start = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                        let _ = stream.write_all(&[start.as_bytes(), &head].concat()).await;
                        head.clear();
                    }
                }
            });
        }
    });
    address
}
