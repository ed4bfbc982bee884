//! A node of the mesh, as a state machine without I/O: requests, frames and ticks go in, with
//! the time; decisions and frames come out. Whoever drives it carries the frames, and brings
//! the time and the news of discovery. Nothing here reads a clock or draws a random number,
//! so a run can be played again.

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

/// How often at most rights are told early, and how often what waits is looked at.
pub(crate) const EARLY: std::time::Duration = std::time::Duration::from_millis(10);

/// A request that waits.
#[derive(Clone, Debug)]
struct Waiting {
    batch: Vec<Owed>,
    context: Context,
    until: Timestamp,
    stage: remote::Stage,
    /// Whether an operator asks, who is told what somebody knows or nothing.
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
/// assert!(!node.is_ready()); // It looks for a mesh.
/// node.found(now);
/// assert!(node.is_ready() && node.standing(now).is_member);
///
/// let peer = NodeId::parse("b")?;
/// node.meet(peer.clone()); // Discovery named it ...
/// node.discover([node.member().id.clone(), peer.clone()]); // ... and will say when it is gone.
/// node.reload(7, now); // It goes by rules of this fingerprint.
/// node.on_tick(now);
/// let frames = node.outputs().count(); // To be carried to the peer.
/// assert!(node.run_of(&peer).is_none() && !node.is_leaving(&peer)); // It has not spoken yet.
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
    /// How many dictionaries this run has begun.
    dictionaries: u64,
    clock: MeshClock,
    synced: Timestamp,
    /// One that leaves: the view in which it has looked for what it holds, and after how many intervals it looks again.
    gave_back: Option<ViewId>,
    looks_in: usize,
    swept: Timestamp,
    upheavals: u64,
    version: u64,
    /// What was admitted past the rights held, as `on_unreachable` allows.
    beyond_rights: u64,
    /// Asks that were sent to owners, and decisions that waited.
    asked: u64,
    waited: u64,
    unreadable: u64,
    /// A larger number than this run's that peers know under its name.
    outdated_by: Option<Generation>,
    /// Whether this run has taken a larger number once.
    renewed: bool,
}

impl Node {
    /// A node that knows nobody yet. `generation` is larger than that of all its runs before.
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

    /// Founds a mesh at once, of which this node is the only member: for one that has no peers.
    pub fn found(&mut self, now: Timestamp) {
        self.council.found(self.mesh_time(now));
    }

    /// Looks for a mesh from this moment on, which may be ahead: one is founded so long after it as the options say,
    /// where none was found. For names that cannot be looked up yet.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{MeshOptions, Node, NodeId};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
    /// node.seek_from(now);
    /// assert!(!node.is_ready()); // Not before it has found one, or founded it.
    /// # Ok::<(), hivemind_mesh::UnusableName>(())
    /// ```
    pub fn seek_from(&mut self, moment: Timestamp) {
        self.council.seek_from(self.mesh_time(moment));
    }

    /// A peer that can be spoken to: discovery named it, or it called. It is forgotten a minute after discovery
    /// withdrew its name, and where there is no discovery, ten minutes after it was last heard; to meet it again
    /// at each new connection is enough.
    pub fn meet(&mut self, peer: NodeId) {
        let is_new = peer != self.council.me.id && !self.links.contains_key(&peer);
        if is_new && self.links.len() < 4 * View::MOST_MEMBERS {
            self.links
                .insert(peer, Link { spoken: begin_dictionary(&mut self.dictionaries), ..Link::default() });
        }
    }

    /// The names of all nodes that discovery knows now, this one's among them.
    ///
    /// A member is taken for dead, and a view agreed on without it, once it is silent and discovery has
    /// *withdrawn* its name: an earlier list of this call had it, and the last one has not. So nobody dies of a
    /// list that was always too short, and nothing is needed of a name that was only ever heard of from peers: such
    /// a member ends by a goodbye, by a new run of its name, or by the word of a member whose discovery knew it.
    /// Both sides of a cut keep the view they have, unless discovery withdraws the other side's names.
    ///
    /// What an adapter has to see to:
    /// - Call it with what can say who is gone: a headless service, an endpoints list, SRV records. A static list of
    ///   peers to begin with cannot: for that do not call it at all. Then there is no discovery that could say who
    ///   is gone, and silence only ever holds a share.
    /// - Addresses are not names. A name is withdrawn when its last known address is; keep the name of an address
    ///   from its greeting, and hand in the names of all addresses of the answer.
    /// - A look-up that failed, or that answered in part, is no news: do not call. A list without this node's
    ///   own name is of another mesh or half of an answer, and is not listened to.
    pub fn discover(&mut self, names: impl IntoIterator<Item = NodeId>) {
        let names: Vec<NodeId> = names.into_iter().collect();
        if names.contains(&self.council.me.id) {
            self.peers.discover(names);
        }
    }

    /// Leaves: the next view is without this node, and what it holds goes back.
    pub fn leave(&mut self) {
        self.council.leaving = true;
    }

    /// Whether a peer has said that it leaves.
    #[must_use]
    pub fn is_leaving(&self, peer: &NodeId) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.leaving)
    }

    /// The rules were reloaded: equal rules have equal fingerprints on all nodes. It is told at once, since
    /// nodes that go by different rules share limits with more care. What it is told before its first reload
    /// matters too: nodes that start with other rules must not be taken for equals.
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

    /// What is to be done, in order.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output> {
        self.outputs.drain(..)
    }

    /// The newest view.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        self.council.head().map(AsRef::as_ref)
    }

    /// Whether it may serve: it is in the view, or a guest of one.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.council.chain().is_some()
    }

    /// Its counters, for whoever decides beside it with what is held.
    pub(crate) fn parts(&self) -> &Arc<Parts> {
        self.shelf.books.parts()
    }

    /// The counters that are not shared, for whoever decides beside it.
    pub(crate) fn local(&self) -> &Arc<MemoryStore> {
        &self.local.0
    }

    pub(crate) fn consistency(&self) -> Consistency {
        self.options.consistency
    }

    /// This run of this node.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.council.me
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Remembers to tell the owner, or the members, of what changed.
    fn list(&mut self, key: Key) {
        self.shelf.books.list(key);
    }
}

#[cfg(test)]
mod views_tests;
