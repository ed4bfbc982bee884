//! Gateways that share their limits as a mesh: each a process of its own, in front of one app.

use hivemind_testkit::app::app;
use hivemind_testkit::mesh::{MeshAuthority, until};
use hivemind_testkit::{Log, get};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, Command};

struct Gateway {
    _child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    mesh: SocketAddr,
    /// Read continuously, because a full pipe would block the process.
    _logs: [Log; 2],
}

/// The address in a banner line.
fn address_in(line: &str) -> SocketAddr {
    line.split_once("://").unwrap().1.split(['/', ' ']).next().unwrap().parse().unwrap()
}

impl Gateway {
    async fn start(app: SocketAddr, files: &Path, peers: &[SocketAddr]) -> Self {
        let peers: Vec<String> = peers.iter().map(|peer| format!("'{peer}'")).collect();
        let file = |name: &str| files.join(name).display().to_string();
        let (ca, cert, key) = (file("ca.crt"), file("node.crt"), file("node.key"));
        let configuration = format!(
            "server: {{grpc_port: off, admin_port: 0, metrics_port: off}}
storage: {{kind: mesh}}
rate_limiting: {{staleness_threshold_ms: 5000}}
mesh:
  bind: 127.0.0.1:0
  ask_timeout_ms: 5000
  bootstrap_peers: [{}]
  tls: {{ca: '{ca}', cert: '{cert}', key: '{key}'}}
gateway:
  listen: 127.0.0.1:0
  services:
    - {{id: app, upstream: 'http://{app}', limits: {{requests: 10, window: 1h, algorithm: fixed_window}}}}
",
            peers.join(", ")
        );
        let path = files.join("hivemind.yaml");
        std::fs::write(&path, configuration).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
        command.args(["serve", "--config"]).arg(&path).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut log = Log::of(child.stderr.take().unwrap());
        let mut screen = Log::of(child.stdout.take().unwrap());
        let line: Value = serde_json::from_str(&log.next("mesh node started").await).unwrap();
        let mesh = line["fields"]["address"].as_str().unwrap().parse().unwrap();
        let (address, admin) =
            (address_in(&screen.next("gateway ").await), address_in(&screen.next("admin ").await));
        Self { _child: child, address, admin, mesh, _logs: [log, screen] }
    }
}

#[tokio::test]
async fn three_gateways_together_admit_exactly_the_limit() {
    let (app, authority) = (app().await, MeshAuthority::new());
    let mut gateways: Vec<Gateway> = Vec::new();
    for index in 0..3 {
        let first: Vec<SocketAddr> = gateways.first().map(|first| first.mesh).into_iter().collect();
        let files = authority.certificate_folder(&format!("node-{index}"), &[]);
        gateways.push(Gateway::start(app, &files, &first).await);
    }
    for gateway in &gateways {
        until("all gateways to be members", async || {
            let body: Value = serde_json::from_str(&get(gateway.admin, "/api/v1/peers").await.body).unwrap();
            let peers = body["peers"].as_array().unwrap();
            peers.len() == 2 && peers.iter().all(|peer| peer["member"] == true)
        })
        .await;
    }
    let mut codes = Vec::new();
    for call in 0..30 {
        codes.push(get(gateways[call % 3].address, "/").await.code);
    }
    // If the hour ends meanwhile, the next hour has a limit of its own.
    let passed = codes.iter().filter(|code| **code == 200).count();
    assert!(
        passed == 10 || passed == 20 && codes.iter().rev().take(10).any(|code| *code == 200),
        "{codes:?}"
    );
    assert!(codes.iter().all(|code| [200, 429].contains(code)), "{codes:?}");
}
