//! How the mesh stands.

use super::{Node, PeerClock};
use crate::member::{Generation, Member};
use crate::owner::NodeId;
use crate::view::ViewId;
use hivemind_core::Timestamp;

/// How the mesh stands, as one node sees it.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MeshOptions, testing::seated};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let standing = seated(3, &MeshOptions::default(), now)[0].standing(now);
/// assert!(standing.is_member && !standing.is_in_doubt && !standing.is_outlier);
/// assert_eq!((standing.members.len(), standing.overlaps), (3, 0));
/// ```
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

impl Node {
    /// The run of a peer that its frames name, if it was ever heard.
    #[must_use]
    pub fn run_of(&self, peer: &NodeId) -> Option<Generation> {
        self.peers.get(peer).map(|peer| peer.generation)
    }

    /// Whether something waits for time to pass: a request, an ask, or somebody who asked.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !(self.waiting.is_empty() && self.asks.is_empty() && self.parked.is_empty() && self.resets.is_empty())
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
}
