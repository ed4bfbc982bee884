//! How the clocks of peers stand to ours.

use super::{Peer, Peers};
use crate::clock::{self, Sample};
use crate::frame::{Echo, Header};
use crate::member::Generation;
use crate::owner::NodeId;
use hivemind_core::{Limit, Timestamp};
use std::time::Duration;

impl Peers {
    /// Compares clocks with a peer that said when it heard which frame of ours. Our mesh clock is so far ahead of our own.
    pub(crate) fn compare(&mut self, from: &NodeId, now: Timestamp, header: &Header, slew: i64) {
        let (Some(peer), Some(echo)) = (self.all.get_mut(from), header.echo) else { return };
        let spoke = Timestamp::from_nanos(echo.time_us.saturating_mul(1_000));
        let held = Duration::from_micros(echo.held_us);
        if let Some(sample) = Sample::of(spoke, held, header.time, now) {
            let theirs = header.slew_us.saturating_mul(1_000);
            peer.exchanges.hear(sample.moved(slew.saturating_neg(), theirs.saturating_neg()));
        }
    }

    /// The newest frame of this run of a peer, to be told to it.
    pub(crate) fn echo(&self, id: &NodeId, generation: Generation, now: Timestamp) -> Option<Echo> {
        let peer = self.all.get(id).filter(|peer| peer.generation == generation)?;
        let held_us = u64::try_from(now.since(peer.arrived).as_micros()).unwrap_or(u64::MAX);
        Some(Echo { time_us: peer.time.as_nanos() / 1_000, held_us })
    }

    /// The middle of our own clock and of theirs that spoke lately, as far as they were compared.
    pub(crate) fn middle(&self, now: Timestamp) -> Sample {
        clock::middle(self.heard(now).filter_map(|(_, peer)| peer.exchanges.best()))
    }

    /// Our own clock was moved by so much.
    pub(crate) fn move_ours(&mut self, by: i64) {
        self.all.values_mut().for_each(|peer| peer.exchanges.move_ours(by));
    }

    /// Whether a peer's mesh clock is too far from ours, which is so far ahead of our own, to share windows of this
    /// length with it.
    pub(crate) fn is_apart(&self, id: &NodeId, limit: &Limit, slew: i64) -> bool {
        let offset = self.all.get(id).and_then(|peer| peer.offset(slew));
        offset.is_some_and(|offset| clock::is_too_far(Duration::from_nanos(offset.unsigned_abs()), limit))
    }

    /// What the clocks of those that spoke lately show, in order.
    fn clocks(&self, now: Timestamp) -> Vec<Timestamp> {
        // After this node's own clock stepped back it cannot be said how long ago a frame came.
        let shows = |peer: &Peer| {
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

    /// The clocks of this node and of those it hears, in order.
    fn all_clocks(&self, now: Timestamp) -> Vec<Timestamp> {
        let mut clocks = self.clocks(now);
        let place = clocks.partition_point(|clock| *clock < now);
        clocks.insert(place, now);
        clocks
    }

    /// The time that this node and those it hears have in common: the earlier middle of their clocks.
    pub(crate) fn common_time(&self, now: Timestamp) -> Timestamp {
        let clocks = self.all_clocks(now);
        clocks.get((clocks.len() - 1) / 2).copied().unwrap_or(now)
    }

    /// The later middle of the clocks of this node and of those it hears.
    pub(crate) fn later_time(&self, now: Timestamp) -> Timestamp {
        let clocks = self.all_clocks(now);
        clocks.get(clocks.len() / 2).copied().unwrap_or(now)
    }

    /// What the clocks of the others show, the later middle of them; nothing if nobody is heard.
    pub(crate) fn others_time(&self, now: Timestamp) -> Option<Timestamp> {
        let clocks = self.clocks(now);
        clocks.get(clocks.len() / 2).copied()
    }
}
