//! A node of the mesh as a state machine without I/O: requests, frames and ticks enter with the time; decisions
//! and frames come out. The driver carries the frames and supplies the time and discovery results. Nothing here
//! reads a clock or draws a random number, so a run can be replayed.

mod batch;
mod clocks;
mod decide;
mod forget_peer;
mod handoff;
mod inspect;
mod inspection;
mod local_counters;
mod lookup;
mod operate;
mod output;
mod owner_requests;
mod parked_grants;
mod peer_link;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod probe;
mod recall;
mod receive;
mod record;
mod remote;
mod reset;
mod send;
mod send_budget;
mod serve;
mod standing;
#[cfg(test)]
mod tests;
mod tick;
mod undecided_view;
mod updates;
mod waiting;

use crate::clock::MeshClock;
use crate::counter::LimitSource;
use crate::counter::counter_table::CounterTable;
use crate::counter::shards::Shards;
use crate::membership::Membership;
use crate::membership::peers::Peers;
use crate::node::batch::OwnedCharge;
use crate::options::{Consistency, MeshOptions};
use crate::view::NodeId;
use crate::view::{Generation, Member};
use crate::view::{View, ViewId};
pub use clocks::PeerClock;
pub use forget_peer::{ForgetError, ForgetOutcome};
use hivemind_core::Timestamp;
use hivemind_core::store::{Context, Key, MemoryStore, StoreOptions};
pub use inspection::{Holding, Inspection};
use local_counters::LocalCounters;
pub use output::{Lane, NodeDecision, Output, Ticket};
use owner_requests::Ask;
use parked_grants::ParkedGrant;
use peer_link::{PeerLink, begin_interner};
pub use reset::Reset;
pub use standing::Standing;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The shortest interval for early updates, and for checks of waiting requests.
pub(crate) const EARLY: std::time::Duration = std::time::Duration::from_millis(10);

/// A request that waits for an owner.
#[derive(Clone, Debug)]
struct WaitingRequest {
    batch: Vec<OwnedCharge>,
    context: Context,
    until: Timestamp,
    stage: remote::WaitStage,
    /// Whether an operator asks: an operator gets the owner's answer or none.
    is_operators: bool,
}

/// A node of the mesh.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MeshOptions, Node, NodeId};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
/// assert!(!node.is_ready()); // It searches for a mesh.
/// node.found(now);
/// assert!(node.is_ready() && node.standing(now).is_member);
///
/// let peer = NodeId::parse("b")?;
/// node.meet(peer.clone()); // Discovery named it ...
/// node.discover([node.member().id.clone(), peer.clone()]); // ... and will say when it is gone.
/// node.reload(7, now); // Its rules have this fingerprint.
/// node.on_tick(now);
/// let frames = node.outputs().count(); // To be carried to the peer.
/// assert!(node.generation_of(&peer).is_none() && !node.is_leaving(&peer)); // It has not sent a frame yet.
/// assert!(!node.has_waiting() && node.view().is_some_and(|view| view.members().len() == 1));
/// node.leave();
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Debug)]
#[cfg_attr(any(test, feature = "testing"), derive(Clone))]
pub struct Node {
    options: MeshOptions,
    membership: Membership,
    peers: Peers,
    table: CounterTable,
    links: BTreeMap<NodeId, PeerLink>,
    asks: BTreeMap<u64, Ask>,
    waiting: BTreeMap<Ticket, WaitingRequest>,
    resets: BTreeMap<Ticket, reset::Resetting>,
    parked: Vec<ParkedGrant>,
    outputs: Vec<Output>,
    budget: send_budget::SendBudget,
    handoff: handoff::Handoff,
    local: LocalCounters,
    next_number: u64,
    /// How many interners this generation has created.
    interners: u64,
    clock: MeshClock,
    synced: Timestamp,
    /// While leaving: the view in which it has returned its holdings, and after how many intervals it checks
    /// again.
    gave_back: Option<ViewId>,
    looks_in: usize,
    swept: Timestamp,
    upheavals: u64,
    version: u64,
    /// What was admitted beyond the held allowance, as `on_unreachable` permits.
    beyond_rights: u64,
    /// Requests sent to owners, and decisions that waited.
    asked: u64,
    waited: u64,
    unreadable: u64,
    /// A larger generation that peers know under this node's name.
    outdated_by: Option<Generation>,
    /// Whether this node has taken a larger generation once.
    renewed: bool,
}

impl Node {
    /// A node without known peers. `generation` is larger than all earlier generations of the node.
    #[must_use]
    pub fn new(id: NodeId, generation: u64, options: MeshOptions, now: Timestamp) -> Self {
        let me = Member::new(id, generation);
        let local = Arc::new(MemoryStore::new(StoreOptions::default()));
        Self {
            membership: Membership::new(me, options.membership.clone(), now),
            peers: Peers::new(options.membership.staleness, 4 * View::MOST_MEMBERS),
            table: CounterTable::new(),
            links: BTreeMap::new(),
            asks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            resets: BTreeMap::new(),
            parked: Vec::new(),
            outputs: Vec::new(),
            budget: send_budget::SendBudget::new(options.bandwidth_limit),
            handoff: handoff::Handoff::new(),
            local: LocalCounters(local),
            next_number: 0,
            interners: 0,
            clock: MeshClock::default(),
            synced: Timestamp::EPOCH,
            gave_back: None,
            looks_in: 0,
            swept: now,
            upheavals: 0,
            version: 0,
            beyond_rights: 0,
            asked: 0,
            waited: 0,
            unreadable: 0,
            outdated_by: None,
            renewed: false,
            options,
        }
    }

    /// Founds a mesh immediately, with this node as the only member: for a node without peers.
    pub fn found(&mut self, now: Timestamp) {
        self.membership.found(self.mesh_time(now));
    }

    /// Searches for a mesh from this time on, which may be in the future. If none is found, one is founded
    /// after the configured delay. For names that cannot be resolved yet.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{MeshOptions, Node, NodeId};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
    /// node.seek_from(now);
    /// assert!(!node.is_ready()); // Not before it has found or founded one.
    /// # Ok::<(), hivemind_mesh::UnusableName>(())
    /// ```
    pub fn seek_from(&mut self, moment: Timestamp) {
        self.membership.seek_from(self.mesh_time(moment));
    }

    /// Adds a peer that discovery named, or that connected. It is forgotten a minute after discovery withdrew
    /// its name; without discovery, ten minutes after its last frame. Adding it again at each new connection is
    /// enough.
    pub fn meet(&mut self, peer: NodeId) {
        let is_new = peer != self.membership.me.id && !self.links.contains_key(&peer);
        if is_new && self.links.len() < 4 * View::MOST_MEMBERS {
            self.links.insert(
                peer,
                PeerLink { send_interner: begin_interner(&mut self.interners), ..PeerLink::default() },
            );
        }
    }

    /// Sets the names of all nodes that discovery knows now, including this one's.
    ///
    /// A member is declared dead, and a view agreed without it, once it is silent and discovery has *withdrawn*
    /// its name: an earlier list of this call contained it, and the last one does not. A list that was always
    /// too short therefore kills no member. A name known only from peers needs nothing: such a member ends by
    /// leaving, by a new generation of its name, or by the statement of a member whose discovery knew it. Both
    /// sides of a cut keep their view, unless discovery withdraws the other side's names.
    ///
    /// Requirements for an adapter:
    /// - Call it with a source that can report removals: a headless service, an endpoints list, SRV records. A
    ///   static list of seed peers cannot: then do not call it at all. Without discovery, silence only reserves a
    ///   share.
    /// - Addresses are not names. A name is withdrawn when its last known address is; keep the name of an
    ///   address from its handshake, and pass the names of all addresses of the answer.
    /// - A failed or partial lookup is not a result: do not call. A list without this node's own name belongs
    ///   to another mesh or is incomplete, and is ignored.
    pub fn discover(&mut self, names: impl IntoIterator<Item = NodeId>) {
        let names: Vec<NodeId> = names.into_iter().collect();
        if names.contains(&self.membership.me.id) {
            self.peers.discover(names);
        }
    }

    /// Leaves: the next view excludes this node, and its holdings are returned.
    pub fn leave(&mut self) {
        self.membership.leaving = true;
    }

    /// Whether a peer has announced that it leaves.
    #[must_use]
    pub fn is_leaving(&self, peer: &NodeId) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.leaving)
    }

    /// The rules were reloaded: equal rules have equal fingerprints on all nodes. Peers are notified
    /// immediately, since nodes with different rules share limits more carefully. The fingerprint before the
    /// first reload matters too: nodes that start with other rules must not count as equal.
    pub fn reload(&mut self, fingerprint: u32, now: Timestamp) {
        if fingerprint == self.membership.rules.here() {
            return;
        }
        let now = self.mesh_time(now);
        self.membership.rules.reload(fingerprint, now);
        self.table.counters.retain(|entry| {
            entry.counter.source = LimitSource::Others;
            true
        });
        let peers: Vec<NodeId> = self.links.keys().cloned().collect();
        for peer in peers {
            self.send(&peer, Lane::Ask, &[], now);
        }
    }

    /// The pending outputs, in order.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output> {
        self.outputs.drain(..)
    }

    /// The newest view.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        self.membership.head().map(AsRef::as_ref)
    }

    /// Whether it may serve: it is a member or an observer of a view.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.membership.view_log().is_some()
    }

    /// Its counters, for fast-path decisions outside the node.
    pub(crate) fn shards(&self) -> &Arc<Shards> {
        self.table.counters.shards()
    }

    /// The counters that are not shared, for decisions outside the node.
    pub(crate) fn local(&self) -> &Arc<MemoryStore> {
        &self.local.0
    }

    pub(crate) fn consistency(&self) -> Consistency {
        self.options.consistency
    }

    /// This generation of this node.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.membership.me
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Queues a counter for an update to its owner or members.
    fn queue(&mut self, key: Key) {
        self.table.counters.queue(key);
    }
}
