//! A node of the mesh as a state machine without I/O: requests, frames and ticks enter with the time; decisions
//! and frames come out. The driver carries the frames and supplies the time and discovery results. Nothing here
//! reads a clock or draws a random number, so a run can be replayed.

mod alone;
mod asks;
mod budget;
mod clocks;
mod decide;
mod doubt;
mod find;
mod given_up;
mod handover;
mod hear;
mod held;
mod link;
mod operate;
mod output;
mod parked;
mod post;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod probe;
mod recall;
mod record;
mod remote;
mod reset;
mod service;
mod sight;
mod standing;
mod survey;
mod tell;
#[cfg(test)]
mod tests;
mod totals;
mod waits;

use crate::batch::Owed;
use crate::book::Source;
use crate::clock::MeshClock;
use crate::council::Council;
use crate::member::{Generation, Member};
use crate::options::{Consistency, MeshOptions};
use crate::owner::NodeId;
use crate::parts::Parts;
use crate::peers::Peers;
use crate::shelf::Shelf;
use crate::view::{View, ViewId};
use alone::LocalCounters;
use asks::Ask;
pub use clocks::PeerClock;
pub use given_up::{GivenUp, NotGivenUp};
use hivemind_core::Timestamp;
use hivemind_core::store::{Context, Key, MemoryStore, StoreOptions};
use link::{Link, begin_dictionary};
pub use output::{Decided, Lane, Output, Ticket};
use parked::Parked;
pub use reset::Reset;
pub use sight::{Holding, Sight};
pub use standing::Standing;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The shortest interval for early updates, and for checks of waiting requests.
pub(crate) const EARLY: std::time::Duration = std::time::Duration::from_millis(10);

/// A request that waits for an owner.
#[derive(Clone, Debug)]
struct Waiting {
    batch: Vec<Owed>,
    context: Context,
    until: Timestamp,
    stage: remote::Stage,
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
/// assert!(node.run_of(&peer).is_none() && !node.is_leaving(&peer)); // It has not sent a frame yet.
/// assert!(!node.has_waiting() && node.view().is_some_and(|view| view.members().len() == 1));
/// node.leave();
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Debug)]
#[cfg_attr(any(test, feature = "testing"), derive(Clone))]
pub struct Node {
    options: MeshOptions,
    council: Council,
    peers: Peers,
    shelf: Shelf,
    links: BTreeMap<NodeId, Link>,
    asks: BTreeMap<u64, Ask>,
    waiting: BTreeMap<Ticket, Waiting>,
    resets: BTreeMap<Ticket, reset::Resetting>,
    parked: Vec<Parked>,
    outputs: Vec<Output>,
    budget: budget::Budget,
    handover: handover::Handover,
    local: LocalCounters,
    next_number: u64,
    /// How many interners this generation has created.
    dictionaries: u64,
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
            council: Council::new(me, options.council.clone(), now),
            peers: Peers::new(options.council.staleness, 4 * View::MOST_MEMBERS),
            shelf: Shelf::new(),
            links: BTreeMap::new(),
            asks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            resets: BTreeMap::new(),
            parked: Vec::new(),
            outputs: Vec::new(),
            budget: budget::Budget::new(options.bandwidth_limit),
            handover: handover::Handover::new(),
            local: LocalCounters(local),
            next_number: 0,
            dictionaries: 0,
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
        self.council.found(self.mesh_time(now));
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
        self.council.seek_from(self.mesh_time(moment));
    }

    /// Adds a peer that discovery named, or that connected. It is forgotten a minute after discovery withdrew
    /// its name; without discovery, ten minutes after its last frame. Adding it again at each new connection is
    /// enough.
    pub fn meet(&mut self, peer: NodeId) {
        let is_new = peer != self.council.me.id && !self.links.contains_key(&peer);
        if is_new && self.links.len() < 4 * View::MOST_MEMBERS {
            self.links
                .insert(peer, Link { spoken: begin_dictionary(&mut self.dictionaries), ..Link::default() });
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
        if names.contains(&self.council.me.id) {
            self.peers.discover(names);
        }
    }

    /// Leaves: the next view excludes this node, and its holdings are returned.
    pub fn leave(&mut self) {
        self.council.leaving = true;
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
        if fingerprint == self.council.rules.here() {
            return;
        }
        let now = self.mesh_time(now);
        self.council.rules.reload(fingerprint, now);
        self.shelf.books.retain(|slip| {
            slip.book.source = Source::Others;
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
        self.council.head().map(AsRef::as_ref)
    }

    /// Whether it may serve: it is a member or a guest of a view.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.council.chain().is_some()
    }

    /// Its counters, for fast-path decisions outside the node.
    pub(crate) fn parts(&self) -> &Arc<Parts> {
        self.shelf.books.parts()
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
        &self.council.me
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Queues a counter for an update to its owner or members.
    fn list(&mut self, key: Key) {
        self.shelf.books.list(key);
    }
}

#[cfg(test)]
mod views_tests;
