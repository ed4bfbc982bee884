//! Baselines: simplified policies of other rate limiters on the same requests and latencies. Without loss and clock offsets,
//! these are their best cases.

use super::grid::{GridCell, GridResult};
use super::traffic::TrafficSource;
use hivemind_mesh::testing::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A policy of another rate limiter.
///
/// ```
/// use hivemind_mesh_sim::baselines::Baseline;
///
/// assert_eq!(Baseline::ALL.len(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Each node gossips its count and adds the latest counts of the others: a G-Counter.
    Gossip,
    /// Nodes send hits to the owner in batches, and its total replaces theirs.
    Global,
    /// Each node has an even share, without communication.
    EvenShares,
}

impl Baseline {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gossip, Self::Global, Self::EvenShares];
}

const PERIOD_US: u64 = 50_000;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BaselineEvent {
    Request,
    Sync(usize),
    /// (to, from, window, count)
    Count(usize, usize, u64, u64),
    /// (to, window, total)
    Total(usize, u64, u64),
}

struct BaselineModel<'a> {
    baseline: Baseline,
    cell: &'a GridCell,
    window: Vec<u64>,
    /// Admissions of each node in its window, and those not sent to the owner yet.
    own: Vec<u64>,
    unsent: Vec<u64>,
    /// Received counts of other nodes, or the owner's total.
    received: Vec<Vec<u64>>,
    totals: Vec<u64>,
}

impl BaselineModel<'_> {
    fn roll(&mut self, node: usize, window: u64) {
        let Some(current) = self.window.get_mut(node).filter(|current| **current != window) else { return };
        *current = window;
        for counts in [&mut self.own, &mut self.unsent, &mut self.totals] {
            if let Some(count) = counts.get_mut(node) {
                *count = 0;
            }
        }
        if let Some(received) = self.received.get_mut(node) {
            received.fill(0);
        }
    }

    fn try_admit(&mut self, node: usize, cost: u64) -> bool {
        let limit = u64::from(self.cell.limit);
        let own = self.own.get(node).copied().unwrap_or(0);
        let used = match self.baseline {
            Baseline::Gossip => own + self.received.get(node).map_or(0, |received| received.iter().sum()),
            Baseline::Global => self.totals.get(node).copied().unwrap_or(0),
            Baseline::EvenShares => {
                let nodes = self.cell.nodes as u64;
                return own + cost <= limit / nodes + u64::from((node as u64) < limit % nodes)
                    && self.record(node, cost);
            }
        };
        used + cost <= limit && self.record(node, cost)
    }

    fn record(&mut self, node: usize, cost: u64) -> bool {
        for counts in [&mut self.own, &mut self.unsent, &mut self.totals] {
            if let Some(count) = counts.get_mut(node) {
                *count += cost;
            }
        }
        true
    }
}

/// Runs a grid cell with a baseline policy.
///
/// ```
/// use hivemind_mesh_sim::baselines::{Baseline, run};
/// use hivemind_mesh_sim::{GridCell, Network, TrafficShape, grid_options};
///
/// let (options, network) = (grid_options(), Network::default());
/// let (limit, seconds, load) = (30, 1, 1.0);
/// let cell = GridCell { nodes: 3, limit, seconds, load, shape: TrafficShape::Single, max_cost: 1, options, network };
/// // All requests go to one node, which has a third of the limit.
/// assert!(run(&cell, Baseline::EvenShares, 1).under > 0.5);
/// ```
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "printed values")]
pub fn run(cell: &GridCell, baseline: Baseline, seed: u64) -> GridResult {
    let mut random = Random::new(seed ^ 0x5eed);
    let window_us = u64::from(cell.seconds) * 1_000_000;
    let end = cell.windows() * window_us;
    let rate = cell.load * f64::from(cell.limit) / f64::from(cell.seconds);
    let mut traffic = TrafficSource::new(cell.shape, rate, cell.nodes, window_us, 1, random.clone());
    let nodes = cell.nodes;
    let mut model = BaselineModel {
        baseline,
        cell,
        window: vec![0; nodes],
        own: vec![0; nodes],
        unsent: vec![0; nodes],
        received: vec![vec![0; nodes]; nodes],
        totals: vec![0; nodes],
    };
    let mut counted: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut events = BinaryHeap::from([Reverse((traffic.next(0), BaselineEvent::Request))]);
    if baseline != Baseline::EvenShares {
        events.extend((0..nodes).map(|node| Reverse((random.below(PERIOD_US), BaselineEvent::Sync(node)))));
    }
    while let Some(Reverse((now, event))) = events.pop()
        && now < end
    {
        let window = now / window_us;
        match event {
            BaselineEvent::Request => {
                let (node, cost) = traffic.request(now);
                model.roll(node, window);
                let count = counted.entry(window).or_default();
                count.0 += cost;
                if model.try_admit(node, cost) {
                    count.1 += cost;
                }
                events.push(Reverse((traffic.next(now), BaselineEvent::Request)));
            }
            BaselineEvent::Sync(node) => {
                model.roll(node, window);
                model.sync(node, window, now, &mut random, &mut events);
                events.push(Reverse((now + PERIOD_US, BaselineEvent::Sync(node))));
            }
            BaselineEvent::Count(to, from, of, count) => model.receive_count(to, from, of, count, window),
            BaselineEvent::Total(to, of, total) => {
                model.roll(to, window);
                if let Some(known) = model.totals.get_mut(to).filter(|_| of == window) {
                    *known = total;
                }
            }
        }
    }
    let limit = u64::from(cell.limit);
    let over = counted.values().map(|(_, admitted)| admitted.saturating_sub(limit)).max().unwrap_or(0);
    let (missed, could) = counted.range(cell.counted()).fold((0, 0), |sum, (_, (offered, admitted))| {
        let could = (*offered).min(limit);
        (sum.0 + could.saturating_sub(*admitted), sum.1 + could)
    });
    GridResult { over, under: missed as f64 / could.max(1) as f64, ..GridResult::default() }
}

impl BaselineModel<'_> {
    fn sync(
        &mut self,
        node: usize,
        window: u64,
        now: u64,
        random: &mut Random,
        events: &mut BinaryHeap<Reverse<(u64, BaselineEvent)>>,
    ) {
        let mean = self.cell.network.sync_us;
        let mut later = || now + mean / 2 + random.below(mean + 1);
        let own = self.own.get(node).copied().unwrap_or(0);
        let others = (0..self.cell.nodes).filter(|other| *other != node);
        match self.baseline {
            Baseline::Gossip => {
                for other in others {
                    events.push(Reverse((later(), BaselineEvent::Count(other, node, window, own))));
                }
            }
            // The owner is the last node.
            Baseline::Global if node + 1 == self.cell.nodes => {
                let total = self.totals.get(node).copied().unwrap_or(0);
                for other in others {
                    events.push(Reverse((later(), BaselineEvent::Total(other, window, total))));
                }
            }
            Baseline::Global => {
                let unsent = self.unsent.get_mut(node).map_or(0, std::mem::take);
                if unsent > 0 {
                    events.push(Reverse((
                        later(),
                        BaselineEvent::Count(self.cell.nodes - 1, node, window, unsent),
                    )));
                }
            }
            Baseline::EvenShares => {}
        }
    }

    fn receive_count(&mut self, to: usize, from: usize, of: u64, count: u64, window: u64) {
        self.roll(to, window);
        if of != window {
            return;
        }
        if self.baseline == Baseline::Global {
            if let Some(total) = self.totals.get_mut(to) {
                *total += count;
            }
        } else if let Some(received) = self.received.get_mut(to).and_then(|received| received.get_mut(from)) {
            *received = (*received).max(count);
        }
    }
}
