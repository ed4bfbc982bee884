//! What all the tasks of a node share: its name and certificate, its sockets and connections, the
//! peers it knows of, and the state machine.

use super::dialer::Dialer;
use super::door::Door;
use super::hello::Hello;
use super::identity::Identity;
use super::links::Links;
use super::lock;
use super::lookout::Lookout;
use super::roster::Roster;
use super::round::{Rounds, next};
use hivemind_core::Clock;
use hivemind_mesh::Generation;
use hivemind_mesh::MeshOptions;
use hivemind_mesh::MeshStore;
use hivemind_mesh::NodeId;
use hivemind_mesh::bulletin::Board;
use quinn::Endpoint;
use rustls::{ClientConfig, ServerConfig};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// How often the state machine is told the time, and how many times as seldom while nothing waits for it: at rest a
/// node does little else.
pub(super) const TICK: Duration = Duration::from_millis(5);
const AT_REST: u32 = 2;
/// How often peers are told what is new of who there is, and after how many such turns all of it.
const ROSTER: Duration = Duration::from_secs(1);
const WHOLE_ROSTER: u64 = 30;

/// What all the tasks of a node share.
pub(super) struct Host {
    pub(super) name: NodeId,
    pub(super) cluster: String,
    /// Where peers can call it; without an address, where they see it call from.
    pub(super) advertised: (Option<IpAddr>, u16),
    pub(super) options: MeshOptions,
    pub(super) identity: Identity,
    pub(super) endpoint: Endpoint,
    pub(super) tcp_server: Arc<ServerConfig>,
    pub(super) tcp_client: Arc<ClientConfig>,
    pub(super) links: Arc<Links>,
    pub(super) roster: Mutex<Roster>,
    pub(super) board: Arc<Board>,
    pub(super) dialer: Mutex<Dialer>,
    pub(super) lookout: Lookout,
    pub(super) store: Arc<MeshStore<Arc<Links>>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) door: Door,
    pub(super) rounds: Mutex<Rounds>,
    /// Places for calls that this node makes.
    pub(super) calls: Arc<Semaphore>,
    /// Whether anybody was ever connected.
    pub(super) has_met: AtomicBool,
    /// The run of this node's name that was last told of.
    pub(super) namesake: Mutex<Option<Generation>>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Something that happens again and again, and not twice at once after a delay.
pub(super) fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Host {
    /// The first words of this node. The number of its run may change once (decision 012).
    pub(super) fn hello(&self, renews: bool) -> Hello {
        let member = self.store.with(|node| node.member().clone());
        let (address, port) = self.advertised;
        Hello { cluster: self.cluster.clone(), member, address, port, renews }
    }

    /// Another process has this node's name: the later run counts, and the other one says so.
    pub(super) fn hear_of_namesake(&self, run: Generation) {
        let now = self.clock.now();
        let is_outdated = self.store.with(|node| node.hear_of_run(now, run));
        if is_outdated && lock(&self.namesake).replace(run) != Some(run) {
            tracing::warn!(
                run = run.0,
                remedy = "give each node a name of its own; see `mesh.node_id` and `MESH_NODE_ID`",
                "another process has this node's name and started later: peers listen to that one"
            );
        }
    }

    pub(super) async fn tick(self: Arc<Self>) {
        loop {
            let began = self.clock.now();
            let sent = self.store.on_tick(began);
            if sent.peers > 0 {
                let mut rounds = lock(&self.rounds);
                rounds.sync = next(rounds.sync, (began, self.clock.now()), (sent.peers, sent.bytes));
            }
            self.tell_notes();
            let waits = self.store.with(|node| node.has_waiting());
            let pause = if waits { TICK } else { TICK * AT_REST };
            let _ = timeout(pause, std::future::pending::<()>()).await;
        }
    }

    /// Tells everybody who else there is, and forgets who is gone for long.
    pub(super) async fn spread_roster(self: Arc<Self>) {
        let mut again = every(ROSTER);
        // Nodes that start together do not tell it together.
        let mut turn = self.clock.now().as_nanos() / 1_000 % WHOLE_ROSTER;
        loop {
            again.tick().await;
            turn += 1;
            self.tell_names();
            let now = self.clock.now();
            let members = self.store.with(|node| node.view().map(|view| view.members().to_vec()));
            let is_member = |name: &NodeId| {
                members.as_ref().is_some_and(|list| list.iter().any(|known| known.id == *name))
            };
            let (links, told) = {
                let mut roster = lock(&self.roster);
                let links = self.links.list();
                for link in &links {
                    roster.learn(&link.party.member, link.party.address, now);
                }
                roster.forget_old(now, is_member);
                self.links.keep_only(|name| roster.knows(name));
                let news = roster.write_news(now);
                (links, if turn.is_multiple_of(WHOLE_ROSTER) { Some(roster.write(now)) } else { news })
            };
            let Some(told) = self.with_digest(told, now) else { continue };
            for link in &links {
                link.send_roster(&told);
            }
            let mut rounds = lock(&self.rounds);
            let sent = (links.len(), links.len() * told.len());
            rounds.gossip = next(rounds.gossip, (now, self.clock.now()), sent);
        }
    }
}
