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
mod hear;
mod held;
#[cfg(any(test, feature = "sim"))]
pub(crate) mod probe;
mod recall;
mod record;
mod remote;
mod reset;
mod tell;
#[cfg(test)]
mod tests;
mod waits;

use crate::batch::Owed;
use crate::clock::MeshClock;
use crate::council::Council;
use crate::dictionary::{Heard, Spoken};
use crate::frame::Item;
use crate::member::{Generation, Member};
use crate::options::{Consistency, MeshOptions};
use crate::owner::NodeId;
use crate::parts::Parts;
use crate::peers::Peers;
use crate::replay::Replay;
use crate::shelf::Shelf;
use crate::view::{View, ViewId};
use asks::{Ask, Parked};
pub use clocks::PeerClock;
use hivemind_core::Timestamp;
use hivemind_core::store::{Context, Key, MemoryStore, StoreOptions, Verdicts};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How often at most rights are told early, and how often what waits is looked at.
pub(crate) const EARLY: std::time::Duration = std::time::Duration::from_millis(10);

/// A decision that waits for the owner of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// It is decided.
    Now(Verdicts),
    /// It will be among the outputs under this number, at the latest at the end of its time.
    Later(Ticket),
}

/// Which way a frame is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Somebody waits for it.
    Ask,
    /// It has time.
    Sync,
}

/// What a node wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A frame for a peer.
    Send {
        /// Whom it is for.
        to: NodeId,
        /// Which way.
        lane: Lane,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A decision that was waited for.
    Decided(Ticket, Verdicts),
}

/// One direction each of what two runs tell each other.
#[derive(Clone, Debug, Default)]
struct Link {
    generation: Generation,
    spoken: Spoken,
    heard: Heard,
    /// Which of its asks were served.
    replay: Replay,
    /// What was spent for its asks, the last of them: the number, the counter, the window, and how much.
    done: VecDeque<(u64, Key, u64, u64)>,
    urgent: Vec<Item>,
    items: Vec<Item>,
    /// For how many seconds nothing was known of this peer but its name.
    unknown_for: u32,
}

/// A request that waits.
#[derive(Clone, Debug)]
struct Waiting {
    batch: Vec<Owed>,
    context: Context,
    until: Timestamp,
    stage: remote::Stage,
}

/// A node of the mesh.
#[derive(Debug)]
#[cfg_attr(any(test, feature = "sim"), derive(Clone))]
pub struct Node {
    options: MeshOptions,
    council: Council,
    peers: Peers,
    shelf: Shelf,
    links: BTreeMap<NodeId, Link>,
    asks: BTreeMap<u64, Ask>,
    waiting: BTreeMap<Ticket, Waiting>,
    parked: Vec<Parked>,
    outputs: Vec<Output>,
    budget: budget::Budget,
    local: LocalCounters,
    next_number: u64,
    clock: MeshClock,
    synced: Timestamp,
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

struct LocalCounters(MemoryStore);

impl std::fmt::Debug for LocalCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocalCounters(..)")
    }
}

impl Node {
    /// A node that knows nobody yet. `generation` is larger than that of all its runs before.
    #[must_use]
    pub fn new(id: NodeId, generation: u64, options: MeshOptions, now: Timestamp) -> Self {
        let me = Member::new(id, generation);
        let local = MemoryStore::new(StoreOptions::default());
        Self {
            council: Council::new(me, options.council.clone(), now),
            peers: Peers::new(options.council.staleness, 4 * View::MOST_MEMBERS),
            shelf: Shelf::new(),
            links: BTreeMap::new(),
            asks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            parked: Vec::new(),
            outputs: Vec::new(),
            budget: budget::Budget::new(options.bandwidth_limit),
            local: LocalCounters(local),
            next_number: 0,
            clock: MeshClock::default(),
            synced: Timestamp::EPOCH,
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

    /// A peer that can be spoken to: discovery named it, or it called. It is forgotten a minute after discovery
    /// withdrew its name, and where there is no discovery, ten minutes after it was last heard; to meet it again
    /// at each new connection is enough.
    pub fn meet(&mut self, peer: NodeId) {
        if peer != self.council.me.id && self.links.len() < 4 * View::MOST_MEMBERS {
            self.links.entry(peer).or_default();
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
            slip.book.own = false;
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

    /// How the mesh stands, as this node sees it.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        let now = self.mesh_time(now);
        let ages = self.peers.iter().map(|(id, peer)| (id.clone(), now.since(peer.heard)));
        let head = self.council.head();
        let others = self.peers.iter().map(|(id, _)| id).filter(|id| !self.council.rules.agree(id));
        Standing {
            view: head.map(|head| head.id()),
            members: head.map_or_else(Vec::new, |head| head.members().to_vec()),
            other_rules: others.cloned().collect(),
            news_within: 2 * self.options.sync_interval,
            is_member: self.council.is_member(),
            overlaps: self.council.overlaps,
            keys: self.shelf.books.len(),
            unshared: self.shelf.unshared,
            beyond_rights: self.beyond_rights,
            overadmission: self.shelf.overadmission,
            asked: self.asked,
            waited: self.waited,
            unreadable: self.unreadable,
            is_in_doubt: self.council.is_in_doubt(now),
            outdated_by: self.outdated_by,
            ages: ages.collect(),
            clocks: self.clocks(),
            is_outlier: self.is_outlier(now),
            slew_us: self.clock.slew / 1_000,
        }
    }

    /// Its counters, for whoever decides beside it with what is held.
    pub(crate) fn parts(&self) -> &Arc<Parts> {
        self.shelf.books.parts()
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

/// How the mesh stands, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// The newest view.
    pub view: Option<ViewId>,
    /// Its members, in the order of their names.
    pub members: Vec<Member>,
    /// Peers that go by other rules: until they have reloaded too, a window begins with no shares between them
    /// and this node.
    pub other_rules: Vec<NodeId>,
    /// What another node admits counts here after so long and two ways through the network, where a limit is
    /// `eventual`. In that time each of the others may admit as much as it is offered, at most what it believes
    /// to be left: a window may exceed its limit by the rate of what the others admit times this.
    pub news_within: std::time::Duration,
    /// Whether this run is in the newest view.
    pub is_member: bool,
    /// How often two views were found for the same windows: each such time a limit may have been admitted twice.
    pub overlaps: u64,
    /// Counters that are shared.
    pub keys: usize,
    /// Decisions made alone because too many counters were shared already.
    pub unshared: u64,
    /// What was admitted past the rights held, because an owner could not be reached.
    pub beyond_rights: u64,
    /// What was admitted above limits, of windows that are over and were this node's, as far as members told it.
    pub overadmission: u64,
    /// Asks that this node sent to owners of counters.
    pub asked: u64,
    /// Decisions that had to wait: for an owner that was asked, or for rights that this owner recalled.
    pub waited: u64,
    /// Frames that could not be read.
    pub unreadable: u64,
    /// Whether it consented to a view whose fence has passed and cannot hear what became of it, so that it
    /// begins no window: those that it waits for have to come back, or discovery to withdraw their names.
    pub is_in_doubt: bool,
    /// A later run of this node's name that peers know and listen to, instead of this one: two nodes have one
    /// name, or the clock that the number of this run was taken from was set back.
    pub outdated_by: Option<Generation>,
    /// How long ago each peer was heard.
    pub ages: Vec<(NodeId, std::time::Duration)>,
    /// How the clock of each peer stands to this node's, of those that it was compared with.
    pub clocks: Vec<PeerClock>,
    /// Whether it is this node whose clock is off: the middle of the others' is more than two seconds from it.
    pub is_outlier: bool,
    /// How far the mesh clock is ahead of the one that this node is handed, in microseconds.
    pub slew_us: i64,
}

#[cfg(test)]
mod views_tests;
