//! Status of the mesh.

use super::{Node, PeerClock};
use crate::view::NodeId;
use crate::view::ViewId;
use crate::view::{Generation, Member};
use hivemind_core::Timestamp;

/// The status of the mesh, as one node sees it.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MeshOptions, testing::mesh_nodes};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let standing = mesh_nodes(3, &MeshOptions::default(), now)[0].standing(now);
/// assert!(standing.is_member && !standing.is_in_doubt && !standing.is_outlier);
/// assert_eq!((standing.members.len(), standing.overlaps), (3, 0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// The newest view.
    pub view: Option<ViewId>,
    /// Its members, sorted by name.
    pub members: Vec<Member>,
    /// Peers with other rules: until they have reloaded too, a window begins without shares between them and
    /// this node.
    pub other_rules: Vec<NodeId>,
    /// The delay after which admissions of another node count here, plus two network transits, where a limit is
    /// `eventual`. In that time each of the others may admit as much as it is offered, up to what it considers
    /// left: a window may exceed its limit by the admission rate of the others times this delay.
    pub updates_within: std::time::Duration,
    /// Whether this generation is in the newest view.
    pub is_member: bool,
    /// How often two views were found for the same windows: each time a limit may have been admitted twice.
    pub overlaps: u64,
    /// Shared counters.
    pub keys: usize,
    /// Decisions made alone because the maximum number of counters was shared.
    pub unshared: u64,
    /// What was admitted beyond the held allowance, because an owner could not be reached.
    pub beyond_rights: u64,
    /// What was admitted above limits, in closed windows that this node owned, as far as members reported it.
    pub overadmission: u64,
    /// Requests that this node sent to owners.
    pub asked: u64,
    /// Decisions that had to wait: for an owner's reply, or for allowance that this owner recalled.
    pub waited: u64,
    /// Frames that could not be decoded.
    pub unreadable: u64,
    /// Whether it consented to a view that should be effective by now, and does not know the result. It begins no
    /// window until the missing members return, or discovery withdraws their names.
    pub is_in_doubt: bool,
    /// A later generation of this node's name that peers accept instead of this one: two nodes have one name,
    /// or the clock that the generation is based on was set back.
    pub outdated_by: Option<Generation>,
    /// How long ago each peer's last frame arrived.
    pub ages: Vec<(NodeId, std::time::Duration)>,
    /// The clock of each peer relative to this node's, where it was measured.
    pub clocks: Vec<PeerClock>,
    /// Whether this node's clock is the wrong one: the median of the others' is more than two seconds from it.
    pub is_outlier: bool,
    /// How far the mesh clock is ahead of the local clock, in microseconds.
    pub slew_us: i64,
}

impl Node {
    /// The generation of a peer in its frames, if any arrived.
    #[must_use]
    pub fn generation_of(&self, peer: &NodeId) -> Option<Generation> {
        self.peers.get(peer).map(|peer| peer.generation)
    }

    /// Whether something waits for time to pass: a decision, a request, or a pending grant.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !(self.waiting.is_empty() && self.asks.is_empty() && self.parked.is_empty() && self.resets.is_empty())
    }

    /// The status of the mesh, as this node sees it.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        let now = self.mesh_time(now);
        let ages = self.peers.iter().map(|(id, peer)| (id.clone(), now.since(peer.heard)));
        let head = self.membership.head();
        let others = self.peers.iter().map(|(id, _)| id).filter(|id| !self.membership.rules.agree(id));
        Standing {
            view: head.map(|head| head.id()),
            members: head.map_or_else(Vec::new, |head| head.members().to_vec()),
            other_rules: others.cloned().collect(),
            updates_within: 2 * self.options.sync_interval,
            is_member: self.membership.is_member(),
            overlaps: self.membership.overlaps,
            keys: self.table.counters.len(),
            unshared: self.table.unshared,
            beyond_rights: self.beyond_rights,
            overadmission: self.table.overadmission,
            asked: self.asked,
            waited: self.waited,
            unreadable: self.unreadable,
            is_in_doubt: self.membership.is_in_doubt(now),
            outdated_by: self.outdated_by,
            ages: ages.collect(),
            clocks: self.clocks(),
            is_outlier: self.is_outlier(now),
            slew_us: self.clock.slew / 1_000,
        }
    }
}
