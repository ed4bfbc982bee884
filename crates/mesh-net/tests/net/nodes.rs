//! Nodes in this process, each with its own sockets.

use super::authority::Authority;
use hivemind_core::store::{Charge, Context, Key, Parts, Store};
use hivemind_core::{Clock, Limit, SystemClock, Timestamp};
use hivemind_mesh::{MeshOptions, NodeId};
use hivemind_mesh_net::{Discovery, Mesh, MeshSettings, MeshTlsFiles, Peer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{interval, timeout};

/// Timeout of waits, with room for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Settings of a node with one bootstrap peer, or none.
pub(crate) fn settings(tls: MeshTlsFiles, name: &str, peer: Option<SocketAddr>) -> MeshSettings {
    let peers = peer.map(|address| address.to_string()).into_iter().collect();
    MeshSettings {
        tls,
        name: NodeId::new(name),
        cluster: "test".to_owned(),
        bind: SocketAddr::from(([127, 0, 0, 1], 0)),
        advertise: None,
        advertise_port: None,
        discovery: Discovery { peers, ..Discovery::default() },
        max_peers: 100,
        options: MeshOptions { ask_timeout: Duration::from_secs(5), ..MeshOptions::default() },
    }
}

/// The system clock, shifted ahead by tests.
#[derive(Clone, Default)]
pub(crate) struct ShiftedClock(Arc<AtomicU64>);

impl ShiftedClock {
    pub(crate) fn advance(&self, span: Duration) {
        self.0.fetch_add(u64::try_from(span.as_millis()).unwrap(), Relaxed);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().saturating_add(Duration::from_millis(self.0.load(Relaxed)))
    }
}

pub(crate) async fn start_by(settings: MeshSettings, clock: &ShiftedClock) -> Mesh {
    Mesh::start(settings, Arc::new(clock.clone())).await.unwrap()
}

pub(crate) async fn start(settings: MeshSettings) -> Mesh {
    Mesh::start(settings, Arc::new(SystemClock)).await.unwrap()
}

/// Starts a node at an address that another has just released.
pub(crate) async fn start_when_free(settings: MeshSettings) -> Mesh {
    let starting = async {
        let mut ticks = interval(Duration::from_millis(50));
        loop {
            ticks.tick().await;
            if let Ok(mesh) = Mesh::start(settings.clone(), Arc::new(SystemClock)).await {
                return mesh;
            }
        }
    };
    timeout(TIMEOUT, starting).await.expect("the address is released")
}

/// Waits until a condition holds.
pub(crate) async fn wait_until(what: &str, mut is_met: impl FnMut() -> bool) {
    let waiting = async {
        let mut ticks = interval(Duration::from_millis(10));
        while !is_met() {
            ticks.tick().await;
        }
    };
    assert!(timeout(TIMEOUT, waiting).await.is_ok(), "timeout: {what}");
}

/// A peer as seen by a node.
pub(crate) fn peer(node: &Mesh, name: &str) -> Option<Peer> {
    node.peers().into_iter().find(|peer| peer.name.as_str() == name)
}

/// Whether a request is admitted.
pub(crate) async fn is_admitted(node: &Mesh, key: u64, limit: &Limit) -> bool {
    let charge = Charge::spend(Key::from_bits(key, key), Parts { domain: "test", entries: &[] }, limit);
    let context = Context::at(SystemClock.now());
    node.store().decide(&[charge], context).await.unwrap().committed
}

pub(crate) struct Nodes {
    pub(crate) list: Vec<Mesh>,
    pub(crate) authority: Authority,
}

impl Nodes {
    /// Starts nodes that know the first, and waits until all are members.
    pub(crate) async fn start(count: usize) -> Self {
        let authority = Authority::new();
        let mut list: Vec<Mesh> = Vec::new();
        for index in 0..count {
            let first = list.first().map(Mesh::address);
            let name = format!("node-{index}");
            list.push(start(settings(authority.node(&name), &name, first)).await);
        }
        let nodes = Self { list, authority };
        nodes.wait_for_members().await;
        nodes
    }

    /// Waits until every node is a member and connected to all others.
    pub(crate) async fn wait_for_members(&self) {
        self.wait_for_members_of(self.list.len()).await;
    }

    pub(crate) async fn wait_for_members_of(&self, members: usize) {
        wait_until("all nodes are members and connected", || {
            self.list.iter().all(|node| {
                let connected = node.peers().iter().filter(|peer| peer.transport.is_some()).count();
                let standing = node.standing();
                standing.is_member && standing.members.len() == members && connected == self.list.len() - 1
            })
        })
        .await;
    }

    /// Sends requests round robin and returns the number of admitted ones.
    pub(crate) async fn admitted(&self, requests: usize, key: u64, limit: &Limit) -> usize {
        let mut admitted = 0;
        for index in 0..requests {
            admitted += usize::from(is_admitted(&self.list[index % self.list.len()], key, limit).await);
        }
        admitted
    }

    pub(crate) async fn leave(self) {
        for node in self.list {
            node.leave(Duration::ZERO).await;
        }
    }
}
