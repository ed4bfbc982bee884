//! Mesh time at the edge of a node: local times are converted where they enter. Peers whose clock differs too much do
//! not take part in windows that are too short for the difference.

use super::Node;
use crate::clock;
use crate::frame::Item;
use crate::view::NodeId;
use hivemind_core::Timestamp;
use hivemind_core::store::Context;
use std::time::Duration;

/// The clock of a peer relative to this node's.
///
/// ```
/// use hivemind_mesh::PeerClock;
///
/// fn warning(clock: &PeerClock) -> Option<String> {
///     clock.is_far.then(|| format!("the clock of {} is off by {} µs", clock.id, clock.offset_us))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerClock {
    /// The peer.
    pub id: NodeId,
    /// How far its mesh clock is ahead of this node's, in microseconds; negative if behind.
    pub offset_us: i64,
    /// The maximum error of the offset.
    pub within: Duration,
    /// More than half a second: its clock should be checked.
    pub is_far: bool,
    /// Whether it is excluded from the shortest windows here: those shorter than four times its offset, from an
    /// offset of two seconds on.
    pub is_quarantined: bool,
}

impl Node {
    /// The mesh time when this node's clock shows `local`: windows begin and end by it.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{MeshOptions, testing::mesh_nodes};
    /// let now = Timestamp::from_millis(1_700_000_000_000);
    /// assert_eq!(mesh_nodes(1, &MeshOptions::default(), now)[0].mesh_time(now), now); // A single clock is right.
    /// ```
    #[must_use]
    pub fn mesh_time(&self, local: Timestamp) -> Timestamp {
        self.clock.at(local)
    }

    /// A request's time and deadline by the mesh clock.
    pub(super) fn by_mesh_clock(&self, context: Context) -> Context {
        let now = self.mesh_time(context.now);
        let deadline = context.deadline.map(|deadline| now.saturating_add(deadline.since(context.now)));
        Context { now, deadline, ..context }
    }

    /// Advances the mesh clock.
    pub(super) fn tick_clock(&mut self, local: Timestamp) -> Timestamp {
        let before = self.clock.reached;
        let middle = self.peers.middle(self.mesh_time(local));
        let set_by = self.clock.tick(local, middle, self.options.slew);
        if set_by != 0 {
            self.peers.move_ours(set_by);
        }
        self.shards().set_clock(&self.clock);
        self.table.counters.wait_for(self.clock.gained);
        let now = self.mesh_time(local);
        if now < before {
            self.set_back(before.since(now), now);
        }
        now
    }

    /// The clock was wrong and has been set back: waits keep their remaining duration.
    fn set_back(&mut self, by: Duration, now: Timestamp) {
        let earlier = |moment: &mut Timestamp| {
            *moment = Timestamp::EPOCH.saturating_add(moment.since(Timestamp::EPOCH.saturating_add(by)));
        };
        earlier(&mut self.synced);
        earlier(&mut self.swept);
        for waiting in self.waiting.values_mut() {
            earlier(&mut waiting.until);
            earlier(&mut waiting.context.now);
        }
        self.asks.values_mut().for_each(|ask| earlier(&mut ask.sent));
        self.resets.values_mut().for_each(|reset| reset.set_back(earlier));
        self.parked.iter_mut().for_each(|parked| earlier(&mut parked.until));
        self.table.counters.retain(|entry| {
            entry.counter.set_back(earlier, now);
            true
        });
        self.membership.set_back(earlier);
        self.budget.set_back(earlier);
        self.handoff.set_back(earlier);
        self.peers.set_back(earlier);
    }

    /// Whether a message is about windows that are too short for the sender's clock offset.
    pub(super) fn is_quarantined(&self, from: &NodeId, item: &Item) -> bool {
        let window_ref = match item {
            Item::Report(window_ref, _)
            | Item::Update(window_ref, _)
            | Item::Ask { window_ref, .. }
            | Item::Answer { window_ref, .. } => window_ref,
            // Buckets change their owner by the median of all clocks.
            Item::ViewLog { .. }
            | Item::Proposal { .. }
            | Item::Vote { .. }
            | Item::Levels(_)
            | Item::Taken { .. } => return false,
        };
        self.peers.is_apart(from, &window_ref.counter.limit, self.clock.slew)
    }

    pub(super) fn clocks(&self) -> Vec<PeerClock> {
        let clocks = self.peers.iter().filter_map(|(id, peer)| {
            let offset = peer.offset(self.clock.slew)?;
            let apart = Duration::from_nanos(offset.unsigned_abs());
            Some(PeerClock {
                id: id.clone(),
                offset_us: offset / 1_000,
                within: peer.doubt(),
                is_far: clock::is_far(apart),
                is_quarantined: clock::is_too_far_for_any(apart),
            })
        });
        clocks.collect()
    }

    /// Whether the median of the others' clocks is too far from this node's.
    #[doc(hidden)]
    #[must_use]
    pub fn is_outlier(&self, now: Timestamp) -> bool {
        let heard = self.peers.heard(now).filter_map(|(_, peer)| peer.offset(self.clock.slew));
        let mut offsets: Vec<i64> = heard.collect();
        offsets.sort_unstable();
        // With two nodes neither knows which clock is wrong; of two medians the nearer one counts.
        let middles =
            [offsets.len().saturating_sub(1) / 2, offsets.len() / 2].map(|index| offsets.get(index));
        let is_too_far =
            |offset: &i64| clock::is_too_far_for_any(Duration::from_nanos(offset.unsigned_abs()));
        offsets.len() > 1 && middles.iter().flatten().all(|offset| is_too_far(offset))
    }
}
