//! `hivemind demo mesh`: three nodes of this very program, in processes of their own, with certificates that are
//! thrown away; load at all three, and what became of it, second by second.

mod child;
mod load;
mod scene;
mod table;

use crate::mesh::certs::{Authority, Term};
use crate::mesh::name::CertifiedName;
use anyhow::Context;
use child::Child;
use hivemind_core::{Clock, SystemClock};
use load::{Load, Second};
use scene::Scene;
use std::io::IsTerminal;
use std::time::Duration;
use table::Table;
use tokio::signal::unix::{SignalKind, signal};

/// How many nodes there are.
pub(crate) const NODES: usize = 3;
/// How long nodes have to find each other; a second or two is usual.
const FOUND_WITHIN: Duration = Duration::from_secs(30);

/// What is to be shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demo {
    /// Requests in a second that pass.
    pub(crate) limit: u32,
    /// Requests in a second that are made, at all nodes together.
    pub(crate) rate: u32,
    /// For how many seconds; none: until it is ended.
    pub(crate) seconds: Option<u32>,
}

/// Shows it; says whether the limit held.
pub(crate) async fn run(demo: Demo) -> anyhow::Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for signals")?;
    // The terminal is closed. To the nodes, which hear of it too, it means that rules are to be loaded anew.
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
    // Also where it went wrong: nothing is left behind.
    child::end_all(&mut nodes).await;
    shown
}

/// A CA and certificates of it, for an hour or two.
fn certify(scene: &Scene) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let term = Term { now, days: 1 };
    let folder = scene.path("ca");
    let authority = Authority::make(&folder, term, false)?;
    for index in 0..NODES {
        let name = child::name(index);
        authority.issue(&[CertifiedName::parse(&name)?], &scene.path(&name), term, false)?;
    }
    // Nobody needs the key to this mesh any more, and whatever ends this process cannot leave it behind.
    std::fs::remove_dir_all(&folder).context("removing the CA")
}

async fn show(demo: Demo, scene: &Scene, nodes: &mut Vec<Child>) -> anyhow::Result<bool> {
    let table = Table { limit: demo.limit, is_terminal: std::io::stdout().is_terminal() };
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
    Table::found(nodes)?;
    let mut load = Load::start(nodes, demo.rate);
    let (mut is_held, mut shown) = (true, 0);
    while demo.seconds.is_none_or(|seconds| shown < seconds) {
        let Some(second) = load.next().await else { anyhow::bail!("a node does not answer any more") };
        // Nobody knows what was admitted before the first whole second.
        shown += 1;
        is_held &= second.together().passed <= u64::from(demo.limit);
        table.add(&second, shown == 1)?;
    }
    table.end(is_held, shown)?;
    Ok(is_held)
}

impl Second {
    fn together(&self) -> load::Counted {
        self.nodes.iter().fold(load::Counted::default(), load::Counted::plus)
    }
}
