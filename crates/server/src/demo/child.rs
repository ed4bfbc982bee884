//! Node process of the demonstration: this program as a child, located by its startup banner.

use super::load::Caller;
use super::scene::Scene;
use anyhow::{Context, bail};
use hyper::Method;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};

/// Time limit for the start and the end of a node.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Child {
    pub(super) name: String,
    pub(super) mesh: SocketAddr,
    pub(super) admin: SocketAddr,
    process: tokio::process::Child,
    /// Closed when this process ends for any reason; the node ends with it.
    _lifeline: ChildStdin,
    /// Kept open, so that the node can always write its banner.
    _screen: Lines<BufReader<ChildStdout>>,
}

/// The name of a node.
pub(super) fn name(index: usize) -> String {
    format!("node-{}", index + 1)
}

impl Child {
    /// Starts a node that bootstraps from this peer.
    pub(super) async fn start(scene: &Scene, index: usize, peer: Option<SocketAddr>) -> anyhow::Result<Self> {
        let name = name(index);
        let log = scene.path(&format!("{name}.log"));
        let mut process = command(scene, &name, peer)?
            .stderr(File::create(&log).context("writing the log of a node")?)
            .spawn()
            .context("starting a node")?;
        let out = process.stdout.take().context("a node has no standard output")?;
        let lifeline = process.stdin.take().context("a node has no standard input")?;
        let mut screen = BufReader::new(out).lines();
        let shown = tokio::time::timeout(PATIENCE, addresses(&mut screen)).await;
        let Ok(Ok(Some((mesh, admin)))) = shown else {
            let _ = process.start_kill();
            let output = std::fs::read_to_string(&log).unwrap_or_default();
            bail!("{name} did not start:\n{output}");
        };
        Ok(Self { name, mesh, admin, process, _lifeline: lifeline, _screen: screen })
    }

    /// Returns when the node is ready, and a member of a mesh of this size.
    pub(super) async fn is_among(&self, nodes: usize) -> anyhow::Result<()> {
        let mut caller = Caller::connect(self.admin).await?;
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        loop {
            ticks.tick().await;
            let (_, body) = caller.call(Method::GET, "/api/v1/peers", String::new()).await?;
            let answer: serde_json::Value = serde_json::from_slice(&body)?;
            let peers = answer.get("peers").and_then(|peers| peers.as_array().cloned()).unwrap_or_default();
            let is_member = |peer: &&serde_json::Value| {
                peer.get("member").is_some_and(|is| is == true)
                    && peer.get("state").is_some_and(|is| is == "alive")
            };
            let (status, _) = caller.call(Method::GET, "/readyz", String::new()).await?;
            if status.is_success() && peers.iter().filter(is_member).count() + 1 == nodes {
                return Ok(());
            }
        }
    }
}

fn command(scene: &Scene, name: &str, peer: Option<SocketAddr>) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["serve", "--end-with-stdin", "--rules"]).arg(scene.path("rules.yaml"));
    // Variables in the shell for another node must not affect these.
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"HIVEMIND_") {
            command.env_remove(variable);
        }
    }
    let file = |file: &str| scene.path(name).join(file).display().to_string();
    for (key, value) in [
        ("SERVER__GRPC_PORT", "0".to_owned()),
        ("SERVER__ADMIN_PORT", "0".to_owned()),
        ("SERVER__METRICS_PORT", "off".to_owned()),
        ("SERVER__SHUTDOWN_GRACE", "2s".to_owned()),
        ("STORAGE__KIND", "mesh".to_owned()),
        ("MESH__NODE_ID", name.to_owned()),
        ("MESH__CLUSTER_ID", "demo".to_owned()),
        ("MESH__BIND", "127.0.0.1:0".to_owned()),
        ("MESH__BOOTSTRAP_PEERS", peer.map(|peer| peer.to_string()).unwrap_or_default()),
        ("MESH__TLS__CA", file("ca.crt")),
        ("MESH__TLS__CERT", file("node.crt")),
        ("MESH__TLS__KEY", file("node.key")),
    ] {
        command.env(format!("HIVEMIND_{key}"), value);
    }
    command.current_dir(scene.folder()).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

/// The mesh and admin addresses of a node, parsed from its startup banner.
async fn addresses(
    screen: &mut Lines<BufReader<ChildStdout>>,
) -> std::io::Result<Option<(SocketAddr, SocketAddr)>> {
    let (mut mesh, mut admin) = (None, None);
    while let Some(line) = screen.next_line().await? {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("mesh"), Some(at)) => mesh = at.parse().ok(),
            (Some("admin"), Some(at)) => admin = at.trim_start_matches("http://").parse().ok(),
            (Some("Stop"), _) => return Ok(mesh.zip(admin)),
            _ => {}
        }
    }
    Ok(None)
}

/// Stops all nodes; those that do not end within the time limit are killed.
pub(super) async fn end_all(nodes: &mut Vec<Child>) {
    for node in nodes.iter() {
        let pid = node.process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM); // It may have ended already.
        }
    }
    for mut node in nodes.drain(..) {
        if tokio::time::timeout(PATIENCE, node.process.wait()).await.is_err() {
            let _ = node.process.kill().await;
        }
    }
}
