//! Nodes of one mesh: a test CA and processes that join each other.

use crate::{Server, Setup, get, hivemind, within};
use serde_json::Value;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const RULES: &str = "
domain: d
descriptors:
- {key: five, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: ten, rate_limit: {unit: minute, requests_per_unit: 10}}
- {key: second, rate_limit: {unit: second, requests_per_unit: 60}}
- {key: three_seconds, rate_limit: {unit: second, unit_multiplier: 3, requests_per_unit: 600000}}
- {key: day, rate_limit: {unit: day, requests_per_unit: 600}}
- {key: loose, rate_limit: {unit: second, requests_per_unit: 5, consistency: eventual}}
";

/// A CA and a folder for its certificates.
pub struct MeshAuthority {
    folder: tempfile::TempDir,
}

impl MeshAuthority {
    pub fn new() -> Self {
        Self::with_validity_days("3650")
    }

    /// A CA that expires after `days` days.
    pub fn with_validity_days(days: &str) -> Self {
        let authority = Self { folder: tempfile::tempdir().unwrap() };
        run_ok(&["certs", "ca", "--days", days, "--out", authority.path("ca").to_str().unwrap()]);
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of a node's certificate, which is created if it is missing.
    pub fn certificate_folder(&self, name: &str, more: &[&str]) -> PathBuf {
        let out = self.path(name);
        if !out.join("node.crt").exists() || !more.is_empty() {
            let (ca, out) = (self.path("ca"), out.to_str().unwrap());
            let line = ["certs", "node", "--ca", ca.to_str().unwrap(), "--name", name, "--out", out];
            run_ok(&[&line[..], more].concat());
        }
        out
    }

    /// A node with these bootstrap peers.
    pub fn node(&self, name: &str, peers: &[SocketAddr]) -> Setup {
        with_files(Setup::rules(RULES), &self.certificate_folder(name, &[]), peers)
    }

    /// Starts `count` nodes and waits until all are members of one view.
    pub async fn nodes(&self, count: usize) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for index in 0..count {
            let first: Vec<SocketAddr> = nodes.first().map(|node| node.mesh).into_iter().collect();
            nodes.push(Node::start(self.node(&format!("node-{index}"), &first)).await);
        }
        all_are_members(&nodes).await;
        nodes
    }
}

/// A running node.
pub struct Node {
    server: Server,
    /// The address for its peers.
    pub mesh: SocketAddr,
}

impl Node {
    pub async fn start(setup: Setup) -> Self {
        let mut server = setup.start().await;
        let line: Value = serde_json::from_str(&server.log.next("mesh node started").await).unwrap();
        let mesh = line["fields"]["address"].as_str().expect("an address").parse().unwrap();
        Self { server, mesh }
    }
}

impl Deref for Node {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}

/// A node with the certificate in a folder. Its timeout for owners is longer than the default, because many
/// tests share the machine's cores.
pub fn with_files(setup: Setup, files: &Path, peers: &[SocketAddr]) -> Setup {
    let peers: Vec<String> = peers.iter().map(ToString::to_string).collect();
    let file = |name: &str| files.join(name).to_str().unwrap().to_owned();
    setup
        .with("storage.kind", "mesh")
        .with("mesh.bind", "127.0.0.1:0")
        .with("mesh.ask_timeout_ms", "5000")
        .with("mesh.bootstrap_peers", &peers.join(","))
        .with("mesh.tls.ca", &file("ca.crt"))
        .with("mesh.tls.cert", &file("node.crt"))
        .with("mesh.tls.key", &file("node.key"))
        .with("rate_limiting.staleness_threshold_ms", "5000")
}

/// Runs a command that must succeed.
pub fn run_ok(arguments: &[&str]) {
    let (code, output) = hivemind(arguments);
    assert_eq!(code, Some(0), "{output}");
}

/// The peers that a node reports.
pub async fn peers(node: &Server) -> Vec<Value> {
    let page = get(node.admin, "/api/v1/peers").await;
    assert_eq!(page.code, 200, "{}", page.body);
    let body: Value = serde_json::from_str(&page.body).unwrap();
    body["peers"].as_array().expect("a list of peers").clone()
}

/// Polls until a condition is true.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    within(what, async {
        while !condition().await {
            ticks.tick().await;
        }
    })
    .await;
}

/// Waits until every node is ready and lists all others as alive members.
pub async fn all_are_members(nodes: &[Node]) {
    let is_whole = |peer: &Value| peer["state"] == "alive" && peer["member"] == true;
    for node in nodes {
        until("all nodes to be members", async || {
            let is_ready = get(node.admin, "/readyz").await.code == 200;
            is_ready && peers(node).await.iter().filter(|peer| is_whole(peer)).count() == nodes.len() - 1
        })
        .await;
    }
}
