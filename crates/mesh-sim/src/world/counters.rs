//! Counters of a world: a key, its limit on each node, where requests on it come from, and what was admitted of it.

use super::{Event, World, at};
use crate::tally::Tally;
use crate::traffic::{Shape, Traffic};
use hivemind_core::Limit;
use hivemind_core::store::Key;
use hivemind_mesh::testing::Random;
use std::collections::BTreeMap;

pub(super) struct Counter {
    pub(super) key: Key,
    pub(super) limit: Limit,
    /// The limits of nodes that were given another one.
    pub(super) reloaded: BTreeMap<usize, Limit>,
    pub(super) had: BTreeMap<usize, Vec<Limit>>,
    pub(super) traffic: Traffic,
    pub(super) tally: Tally,
}

impl World {
    pub(crate) fn add_counter(&mut self, key: Key, limit: Limit, mut traffic: Traffic) {
        let first = traffic.next(0);
        let (reloaded, had) = (BTreeMap::new(), BTreeMap::new());
        self.counters.push(Counter { key, limit, reloaded, had, traffic, tally: Tally::new(limit) });
        self.push(self.start + first, Event::Request { counter: self.counters.len() - 1 });
    }

    /// Where requests on a counter come from is changed to so many nodes.
    pub fn spread_over(&mut self, nodes: usize) {
        self.counters.iter_mut().for_each(|counter| counter.traffic.nodes = nodes);
    }

    /// The count of a counter.
    #[must_use]
    pub fn tally(&self, counter: usize) -> Option<&Tally> {
        self.counters.get(counter).map(|counter| &counter.tally)
    }

    /// A counter without traffic of its own, for requests made by hand. Says its index.
    pub fn add_limit(&mut self, key: Key, limit: Limit) -> usize {
        let traffic = Traffic::new(Shape::Uniform, 0.0, 1, 1, 1, Random::new(0));
        let (reloaded, had) = (BTreeMap::new(), BTreeMap::new());
        self.counters.push(Counter { key, limit, reloaded, had, traffic, tally: Tally::new(limit) });
        self.counters.len() - 1
    }

    /// A node has another limit from now on: its rules were reloaded.
    pub fn reload(&mut self, node: usize, counter: usize, limit: Limit) {
        let now = self.now;
        let Some(counter) = self.counters.get_mut(counter) else { return };
        counter.reloaded.insert(node, limit);
        if let Some(Some(seat)) =
            self.seats.get_mut(node).filter(|seat| seat.as_ref().is_some_and(|seat| seat.alive))
        {
            let fingerprint = limit.requests().max(1).wrapping_add(limit.burst().wrapping_mul(65_537));
            seat.node.reload(fingerprint, at(now, seat.skew));
            self.carry_out(node);
        }
    }

    /// The same, unless it has had this one since its start.
    pub(crate) fn reload_once(&mut self, node: usize, counter: usize, limit: Limit) {
        let Some(known) = self.counters.get_mut(counter) else { return };
        let has_had = known.had.entry(node).or_default();
        if !has_had.contains(&limit) {
            has_had.push(limit);
            self.reload(node, counter, limit);
        }
    }
}
