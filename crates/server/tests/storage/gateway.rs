//! Gateways that share limits in Redis: each a process of its own, in front of one app.

use crate::nodes::{LONG_TIMEOUT_MS, TIMEOUT_MS};
use hivemind_testkit::app::app;
use hivemind_testkit::redis::Redis;
use hivemind_testkit::{Log, get};
use std::net::SocketAddr;
use std::process::Stdio;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

struct Gateway {
    _folder: tempfile::TempDir,
    _child: Child,
    address: SocketAddr,
    log: Log,
    /// Read continuously, because a full pipe would block the process.
    _screen: Log,
}

impl Gateway {
    /// A gateway that is connected to its Redis.
    async fn start(app: SocketAddr, redis: &Redis, limit: u32, (on_error, timeout_ms): (&str, &str)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hivemind.yaml");
        let url = redis.url();
        let configuration = format!(
            "server: {{grpc_port: off, admin_port: 0, metrics_port: 0}}
storage: {{kind: redis, on_error: {on_error}, redis: {{url: '{url}', timeout_ms: {timeout_ms}}}}}
gateway:
  listen: 127.0.0.1:0
  services:
    - {{id: app, upstream: 'http://{app}', limits: {{requests: {limit}, window: 1h, burst: {limit}}}}}
"
        );
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
        command.args(["serve", "--config"]).arg(&path).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut log = Log::of(child.stderr.take().unwrap());
        let mut screen = Log::of(child.stdout.take().unwrap());
        log.next("shared store connected").await;
        let line = screen.next("gateway ").await;
        let address = line.split_once("://").unwrap().1.split(['/', ' ']).next().unwrap().parse().unwrap();
        Self { _folder: folder, _child: child, address, log, _screen: screen }
    }

    /// The status codes of this many requests in sequence.
    async fn codes(&self, times: usize) -> Vec<u16> {
        let mut codes = Vec::new();
        for _ in 0..times {
            codes.push(get(self.address, "/").await.code);
        }
        codes
    }
}

#[tokio::test]
async fn two_gateways_together_admit_exactly_the_limit() {
    let (app, redis) = (app().await, Redis::start().await);
    let policy = ("closed", LONG_TIMEOUT_MS);
    let gateways =
        [Gateway::start(app, &redis, 10, policy).await, Gateway::start(app, &redis, 10, policy).await];
    let mut running = JoinSet::new();
    for call in 0..30 {
        let address = gateways[call % 2].address;
        running.spawn(async move { get(address, "/").await.code });
    }
    let codes = running.join_all().await;
    let count = |code: u16| codes.iter().filter(|answered| **answered == code).count();
    assert_eq!((count(200), count(429)), (10, 20), "{codes:?}");
    let keys = redis.command(&["--scan"]).await;
    assert!(keys.lines().any(|key| key.starts_with("hivemind:ratelimit:http:app:")), "{keys}");
}

#[tokio::test]
async fn gateway_applies_on_error_until_redis_is_back() {
    for (on_error, expected) in
        [("open", [200; 5]), ("closed", [503; 5]), ("local", [200, 200, 200, 429, 429])]
    {
        let (app, mut redis) = (app().await, Redis::start().await);
        let mut gateway = Gateway::start(app, &redis, 3, (on_error, TIMEOUT_MS)).await;
        redis.kill().await;
        gateway.log.next("shared store lost").await;
        assert_eq!(gateway.codes(5).await, expected, "{on_error}");
        redis.restart().await;
        gateway.log.next("shared store reconnected").await;
        assert_eq!(gateway.codes(4).await, [200, 200, 200, 429], "{on_error}: Redis counts, and from 0");
    }
}
