//! State shared by all tasks of a node: name and certificate, sockets and connections, known peers, and the state
//! machine.

use super::caller_limits::CallerLimits;
use super::dial_schedule::DialSchedule;
use super::handshake::Hello;
use super::identity::NodeIdentity;
use super::links::Links;
use super::lock;
use super::name_lookup::NameLookups;
use super::peer_table::PeerTable;
use super::tick_report::TickReports;
use hivemind_core::Clock;
use hivemind_mesh::Generation;
use hivemind_mesh::MeshOptions;
use hivemind_mesh::MeshStore;
use hivemind_mesh::NodeId;
use hivemind_mesh::replicated_map::MapHandle;
use quinn::Endpoint;
use rustls::{ClientConfig, ServerConfig};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// State shared by all tasks of a node.
pub(super) struct NodeContext {
    pub(super) name: NodeId,
    pub(super) cluster: String,
    /// Address and port that peers connect to. Without an address, peers use the source address of its connections.
    pub(super) advertised: (Option<IpAddr>, u16),
    pub(super) options: MeshOptions,
    pub(super) identity: NodeIdentity,
    pub(super) endpoint: Endpoint,
    pub(super) tcp_server: Arc<ServerConfig>,
    pub(super) tcp_client: Arc<ClientConfig>,
    pub(super) links: Arc<Links>,
    pub(super) peer_table: Mutex<PeerTable>,
    pub(super) board: Arc<MapHandle>,
    pub(super) dial_schedule: Mutex<DialSchedule>,
    pub(super) lookups: NameLookups,
    pub(super) store: Arc<MeshStore<Arc<Links>>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) caller_limits: CallerLimits,
    pub(super) tick_reports: Mutex<TickReports>,
    /// Limits concurrent outbound connection attempts.
    pub(super) dial_permits: Arc<Semaphore>,
    /// Whether any peer was ever connected.
    pub(super) has_connected: AtomicBool,
    /// The last logged generation of another process with this node's name.
    pub(super) reported_namesake: Mutex<Option<Generation>>,
}

impl std::fmt::Debug for NodeContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeContext").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A timer that does not catch up on ticks missed during a delay.
pub(super) fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl NodeContext {
    /// The hello of this node. Its generation may change once (decision 012).
    pub(super) fn hello(&self, renews: bool) -> Hello {
        let member = self.store.with(|node| node.member().clone());
        let (address, port) = self.advertised;
        Hello { cluster: self.cluster.clone(), member, address, port, renews }
    }

    /// Handles that another process uses this node's name. The later generation wins; the other process logs a warning.
    pub(super) fn handle_namesake(&self, run: Generation) {
        let now = self.clock.now();
        let is_outdated = self.store.with(|node| node.observe_generation(now, run));
        if is_outdated && lock(&self.reported_namesake).replace(run) != Some(run) {
            tracing::warn!(
                run = run.0,
                remedy = "give each node its own name with `mesh.node_id` or `MESH_NODE_ID`",
                "another process uses this node's name and started later; peers follow that one"
            );
        }
    }
}
