//! Nodes in this process, each with sockets of its own.

use super::authority::Authority;
use hivemind_core::SystemClock;
use hivemind_mesh::net::{Discovery, Mesh, MeshSettings};
use hivemind_mesh::{MeshOptions, NodeId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{interval, timeout};

/// In which everything happens that ever will, on a loaded machine too.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Nodes {
    pub(crate) list: Vec<Mesh>,
    _authority: Authority,
}

impl Nodes {
    /// Nodes that all know the first.
    pub(crate) async fn started(count: usize) -> Self {
        let authority = Authority::new();
        let mut list: Vec<Mesh> = Vec::new();
        for index in 0..count {
            let first = list.first().map(|first| first.address().to_string());
            let peers: Vec<String> = first.into_iter().collect();
            let name = format!("node-{index}");
            let settings = MeshSettings {
                tls: authority.node(&name),
                name: NodeId::new(name),
                cluster: "test".to_owned(),
                bind: SocketAddr::from(([127, 0, 0, 1], 0)),
                advertise: None,
                advertise_port: None,
                discovery: Discovery { peers, ..Discovery::default() },
                max_peers: 100,
                options: MeshOptions { ask_timeout: Duration::from_secs(5), ..MeshOptions::default() },
            };
            list.push(Mesh::start(settings, Arc::new(SystemClock)).await.unwrap());
        }
        Self { list, _authority: authority }
    }

    /// Waits until every node is in the view, and knows all others.
    pub(crate) async fn all_are_members(&self) {
        let waiting = async {
            let mut ticks = interval(Duration::from_millis(10));
            let others = self.list.len() - 1;
            while !self.list.iter().all(|node| {
                let connected = node.peers().iter().filter(|peer| peer.transport.is_some()).count();
                node.standing().is_member && connected == others
            }) {
                ticks.tick().await;
            }
        };
        if timeout(PATIENCE, waiting).await.is_err() {
            let seen: Vec<_> = self.list.iter().map(|node| (node.standing(), node.peers())).collect();
            panic!("not all became members: {seen:#?}");
        }
    }

    pub(crate) async fn leave(self) {
        for node in self.list {
            node.leave(Duration::ZERO).await;
        }
    }
}
