//! Mesh demonstration: three nodes of this program in their own processes, with temporary certificates. Sends load to
//! all three, and shows the result second by second.

mod child;
mod load;
mod rules;
mod scene;
mod table;

use anyhow::Context;
use child::Child;
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::mesh::certs::{CertificateAuthority, Term};
use hivemind_engine::mesh::name::CertifiedName;
use load::{Load, Second};
pub(crate) use rules::demo_rules;
use scene::Scene;
use std::io::IsTerminal;
use std::time::Duration;
use table::DemoTable;
use tokio::signal::unix::{SignalKind, signal};

/// The number of nodes.
pub(crate) const NODES: usize = 3;
/// Time limit for the nodes to find each other; a second or two is usual.
const FOUND_WITHIN: Duration = Duration::from_secs(30);

/// Parameters of the demonstration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DemoOptions {
    /// Requests per second that may pass.
    pub(crate) limit: u32,
    /// Requests per second that are sent, to all nodes together.
    pub(crate) rate: u32,
    /// Duration in seconds; `None` runs until a signal.
    pub(crate) seconds: Option<u32>,
}

/// Runs the demonstration, and returns whether the limit held.
pub(crate) async fn run(demo: DemoOptions) -> anyhow::Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for signals")?;
    // The terminal was closed. The nodes receive the signal too, and reload their rules.
    let mut hangup = signal(SignalKind::hangup()).context("listening for signals")?;
    let scene = Scene::set(demo.limit)?;
    certify(&scene)?;
    let mut nodes = Vec::new();
    let shown = tokio::select! {
        shown = show(demo, &scene, &mut nodes) => shown,
        _ = interrupt.recv() => Ok(true),
        _ = terminate.recv() => Ok(true),
        _ = hangup.recv() => Ok(true),
    };
    // Also after an error: the nodes and their files are removed.
    child::end_all(&mut nodes).await;
    shown
}

/// Creates a CA and the nodes' certificates, valid for a day.
fn certify(scene: &Scene) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let term = Term { now, days: 1 };
    let folder = scene.path("ca");
    let authority = CertificateAuthority::make(&folder, term, false)?;
    for index in 0..NODES {
        let name = child::name(index);
        authority.issue(&[CertifiedName::parse(&name)?], &scene.path(&name), term, false)?;
    }
    // The key is not needed any more, and an abrupt end of this process cannot leave it behind.
    std::fs::remove_dir_all(&folder).context("removing the CA")
}

async fn show(demo: DemoOptions, scene: &Scene, nodes: &mut Vec<Child>) -> anyhow::Result<bool> {
    let table = DemoTable { limit: demo.limit, is_terminal: std::io::stdout().is_terminal() };
    table.begin(demo.rate)?;
    for index in 0..NODES {
        let first = nodes.first().map(|first: &Child| first.mesh);
        nodes.push(Child::start(scene, index, first).await?);
    }
    let together = async {
        for node in nodes.iter() {
            node.is_among(NODES).await?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(FOUND_WITHIN, together).await.context("the nodes did not find each other")??;
    DemoTable::found(nodes)?;
    let mut load = Load::start(nodes, demo.rate);
    let (mut is_held, mut shown) = (true, 0);
    while demo.seconds.is_none_or(|seconds| shown < seconds) {
        let Some(second) = load.next().await else { anyhow::bail!("a node no longer answers") };
        // What was admitted before the first whole second is unknown.
        shown += 1;
        is_held &= second.together().passed <= u64::from(demo.limit);
        table.add(&second, shown == 1)?;
    }
    table.end(is_held, shown)?;
    Ok(is_held)
}

impl Second {
    fn together(&self) -> load::RequestCounts {
        self.nodes.iter().fold(load::RequestCounts::default(), load::RequestCounts::plus)
    }
}
