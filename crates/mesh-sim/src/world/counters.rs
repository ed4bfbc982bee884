//! Counters of a simulated mesh: key, limit per node, traffic source and tally.

use super::{World, WorldEvent, at};
use crate::tally::AdmissionTally;
use crate::traffic::{TrafficShape, TrafficSource};
use hivemind_core::Limit;
use hivemind_core::store::Key;
use hivemind_mesh::testing::Random;
use std::collections::BTreeMap;

pub(super) struct SimCounter {
    pub(super) key: Key,
    pub(super) limit: Limit,
    /// Limits of nodes that were reloaded.
    pub(super) reloaded: BTreeMap<usize, Limit>,
    pub(super) had: BTreeMap<usize, Vec<Limit>>,
    pub(super) traffic: TrafficSource,
    pub(super) tally: AdmissionTally,
}

impl World {
    pub(crate) fn add_counter(&mut self, key: Key, limit: Limit, mut traffic: TrafficSource) {
        let first = traffic.next(0);
        let (reloaded, had) = (BTreeMap::new(), BTreeMap::new());
        self.counters.push(SimCounter {
            key,
            limit,
            reloaded,
            had,
            traffic,
            tally: AdmissionTally::new(limit),
        });
        self.push(self.start + first, WorldEvent::Request { counter: self.counters.len() - 1 });
    }

    /// Distributes the requests of all counters over this many nodes.
    pub fn spread_traffic(&mut self, nodes: usize) {
        self.counters.iter_mut().for_each(|counter| counter.traffic.nodes = nodes);
    }

    /// The tally of a counter.
    #[must_use]
    pub fn tally(&self, counter: usize) -> Option<&AdmissionTally> {
        self.counters.get(counter).map(|counter| &counter.tally)
    }

    /// Adds a counter without traffic, for [`World::hit`]. Returns its index.
    pub fn add_limit(&mut self, key: Key, limit: Limit) -> usize {
        let traffic = TrafficSource::new(TrafficShape::Uniform, 0.0, 1, 1, 1, Random::new(0));
        let (reloaded, had) = (BTreeMap::new(), BTreeMap::new());
        self.counters.push(SimCounter {
            key,
            limit,
            reloaded,
            had,
            traffic,
            tally: AdmissionTally::new(limit),
        });
        self.counters.len() - 1
    }

    /// Reloads a node with another limit.
    pub fn reload(&mut self, node: usize, counter: usize, limit: Limit) {
        let now = self.now;
        let Some(counter) = self.counters.get_mut(counter) else { return };
        counter.reloaded.insert(node, limit);
        if let Some(Some(sim_node)) = self
            .nodes
            .get_mut(node)
            .filter(|sim_node| sim_node.as_ref().is_some_and(|sim_node| sim_node.alive))
        {
            let fingerprint = limit.requests().max(1).wrapping_add(limit.burst().wrapping_mul(65_537));
            sim_node.node.reload(fingerprint, at(now, sim_node.skew));
            self.carry_out(node);
        }
    }

    /// Reloads a node with another limit, unless it was reloaded with it before.
    pub(crate) fn reload_once(&mut self, node: usize, counter: usize, limit: Limit) {
        let Some(known) = self.counters.get_mut(counter) else { return };
        let has_had = known.had.entry(node).or_default();
        if !has_had.contains(&limit) {
            has_had.push(limit);
            self.reload(node, counter, limit);
        }
    }
}
