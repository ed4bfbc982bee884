//! Clock offsets of peers.

use super::{KnownPeer, Peers};
use crate::clock::{self, Sample};
use crate::frame::{Echo, Header};
use crate::view::Generation;
use crate::view::NodeId;
use hivemind_core::{Limit, Timestamp};
use std::time::Duration;

impl Peers {
    /// Compares clocks with a peer that acknowledged a frame of ours. Our mesh clock is `slew` ahead of our
    /// local clock.
    pub(crate) fn compare(&mut self, from: &NodeId, now: Timestamp, header: &Header, slew: i64) {
        let (Some(peer), Some(echo)) = (self.all.get_mut(from), header.echo) else { return };
        let sent_at = Timestamp::from_nanos(echo.time_us.saturating_mul(1_000));
        let held = Duration::from_micros(echo.held_us);
        if let Some(sample) = Sample::of(sent_at, held, header.time, now) {
            let theirs = header.slew_us.saturating_mul(1_000);
            peer.exchanges.hear(sample.moved(slew.saturating_neg(), theirs.saturating_neg()));
        }
    }

    /// The acknowledgement of the newest frame of this generation of a peer.
    pub(crate) fn echo(&self, id: &NodeId, generation: Generation, now: Timestamp) -> Option<Echo> {
        let peer = self.all.get(id).filter(|peer| peer.generation == generation)?;
        let held_us = u64::try_from(now.since(peer.arrived).as_micros()).unwrap_or(u64::MAX);
        Some(Echo { time_us: peer.time.as_nanos() / 1_000, held_us })
    }

    /// The median of our own clock and of the recently heard and measured ones.
    pub(crate) fn middle(&self, now: Timestamp) -> Sample {
        clock::middle(self.heard(now).filter_map(|(_, peer)| peer.exchanges.best()))
    }

    /// Our own clock was adjusted by this amount.
    pub(crate) fn move_ours(&mut self, by: i64) {
        self.all.values_mut().for_each(|peer| peer.exchanges.move_ours(by));
    }

    /// Whether a peer's mesh clock is too far from ours to share windows of this length with it. Ours is `slew`
    /// ahead of our local clock.
    pub(crate) fn is_apart(&self, id: &NodeId, limit: &Limit, slew: i64) -> bool {
        let offset = self.all.get(id).and_then(|peer| peer.offset(slew));
        offset.is_some_and(|offset| clock::is_too_far(Duration::from_nanos(offset.unsigned_abs()), limit))
    }

    /// The clocks of recently heard peers, in order.
    fn clocks(&self, now: Timestamp) -> Vec<Timestamp> {
        // After this node's own clock stepped back, the age of a frame is unknown.
        let shows = |peer: &KnownPeer| {
            if peer.arrived > now {
                peer.time.max(now)
            } else {
                peer.time.saturating_add(now.since(peer.arrived))
            }
        };
        let clocks = self.heard(now).map(|(_, peer)| shows(peer));
        let mut clocks: Vec<Timestamp> = clocks.collect();
        clocks.sort_unstable();
        clocks
    }

    /// The clocks of this node and of recently heard peers, in order.
    fn all_clocks(&self, now: Timestamp) -> Vec<Timestamp> {
        let mut clocks = self.clocks(now);
        let place = clocks.partition_point(|clock| *clock < now);
        clocks.insert(place, now);
        clocks
    }

    /// The common time of this node and recently heard peers: the earlier median of their clocks.
    pub(crate) fn common_time(&self, now: Timestamp) -> Timestamp {
        let clocks = self.all_clocks(now);
        clocks.get((clocks.len() - 1) / 2).copied().unwrap_or(now)
    }

    /// The later median of the clocks of this node and of recently heard peers.
    pub(crate) fn later_time(&self, now: Timestamp) -> Timestamp {
        let clocks = self.all_clocks(now);
        clocks.get(clocks.len() / 2).copied().unwrap_or(now)
    }

    /// The later median of the others' clocks; none if no peer was heard.
    pub(crate) fn others_time(&self, now: Timestamp) -> Option<Timestamp> {
        let clocks = self.clocks(now);
        clocks.get(clocks.len() / 2).copied()
    }
}
