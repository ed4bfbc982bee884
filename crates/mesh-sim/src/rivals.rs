//! What others do, on the same requests: their policies in a few lines, over the same delays.
//! No loss and no wrong clocks, so this is their good side.
//!
//! ```
//! use hivemind_mesh_sim::rivals::{Rival, run};
//! use hivemind_mesh_sim::{Cell, Network, Shape, options_for_a_grid};
//!
//! let (options, network) = (options_for_a_grid(), Network::default());
//! let (limit, seconds, load) = (30, 1, 10.0);
//! let cell = Cell { nodes: 3, limit, seconds, load, shape: Shape::Uniform, most_cost: 1, options, network };
//! assert!(run(&cell, Rival::Gossip, 1).over > 0); // What is heard late is admitted twice.
//! assert_eq!(cell.run(1).over, 0);
//! ```

use super::cell::{Cell, Outcome};
use super::traffic::Traffic;
use hivemind_mesh::testing::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// How another limiter shares a limit.
///
/// ```
/// use hivemind_mesh_sim::rivals::Rival;
///
/// assert_eq!(Rival::ALL.len(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Every node gossips its count, and adds what it last heard of the others: a G-Counter.
    Gossip,
    /// Hits go to the key's owner in batches; its total comes back and takes the place of what a node had.
    Global,
    /// Every node has an even share, and no word passes.
    EvenShares,
}

impl Rival {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gossip, Self::Global, Self::EvenShares];
}

const PERIOD_US: u64 = 50_000;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Request,
    Sync(usize),
    /// (to, from, window, count)
    Count(usize, usize, u64, u64),
    /// (to, window, total)
    Total(usize, u64, u64),
}

struct Model<'a> {
    rival: Rival,
    cell: &'a Cell,
    window: Vec<u64>,
    /// What each node admitted in its window, and of that, what its owner does not know.
    own: Vec<u64>,
    unsent: Vec<u64>,
    /// What each node heard of the others, or the owner's total.
    heard: Vec<Vec<u64>>,
    totals: Vec<u64>,
}

impl Model<'_> {
    fn roll(&mut self, node: usize, window: u64) {
        let Some(current) = self.window.get_mut(node).filter(|current| **current != window) else { return };
        *current = window;
        for counts in [&mut self.own, &mut self.unsent, &mut self.totals] {
            if let Some(count) = counts.get_mut(node) {
                *count = 0;
            }
        }
        if let Some(heard) = self.heard.get_mut(node) {
            heard.fill(0);
        }
    }

    fn admits(&mut self, node: usize, cost: u64) -> bool {
        let limit = u64::from(self.cell.limit);
        let own = self.own.get(node).copied().unwrap_or(0);
        let used = match self.rival {
            Rival::Gossip => own + self.heard.get(node).map_or(0, |heard| heard.iter().sum()),
            Rival::Global => self.totals.get(node).copied().unwrap_or(0),
            Rival::EvenShares => {
                let nodes = self.cell.nodes as u64;
                return own + cost <= limit / nodes + u64::from((node as u64) < limit % nodes)
                    && self.take(node, cost);
            }
        };
        used + cost <= limit && self.take(node, cost)
    }

    fn take(&mut self, node: usize, cost: u64) -> bool {
        for counts in [&mut self.own, &mut self.unsent, &mut self.totals] {
            if let Some(count) = counts.get_mut(node) {
                *count += cost;
            }
        }
        true
    }
}

/// Runs a cell as a rival would have it.
///
/// ```
/// use hivemind_mesh_sim::rivals::{Rival, run};
/// use hivemind_mesh_sim::{Cell, Network, Shape, options_for_a_grid};
///
/// let (options, network) = (options_for_a_grid(), Network::default());
/// let (limit, seconds, load) = (30, 1, 1.0);
/// let cell = Cell { nodes: 3, limit, seconds, load, shape: Shape::Single, most_cost: 1, options, network };
/// // All requests come to one node, which has a third of the limit.
/// assert!(run(&cell, Rival::EvenShares, 1).under > 0.5);
/// ```
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "figures to be read")]
pub fn run(cell: &Cell, rival: Rival, seed: u64) -> Outcome {
    let mut random = Random::new(seed ^ 0x5eed);
    let window_us = u64::from(cell.seconds) * 1_000_000;
    let end = cell.windows() * window_us;
    let rate = cell.load * f64::from(cell.limit) / f64::from(cell.seconds);
    let mut traffic = Traffic::new(cell.shape, rate, cell.nodes, window_us, 1, random.clone());
    let nodes = cell.nodes;
    let mut model = Model {
        rival,
        cell,
        window: vec![0; nodes],
        own: vec![0; nodes],
        unsent: vec![0; nodes],
        heard: vec![vec![0; nodes]; nodes],
        totals: vec![0; nodes],
    };
    let mut counted: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut events = BinaryHeap::from([Reverse((traffic.next(0), Event::Request))]);
    if rival != Rival::EvenShares {
        events.extend((0..nodes).map(|node| Reverse((random.below(PERIOD_US), Event::Sync(node)))));
    }
    while let Some(Reverse((now, event))) = events.pop()
        && now < end
    {
        let window = now / window_us;
        match event {
            Event::Request => {
                let (node, cost) = traffic.request(now);
                model.roll(node, window);
                let count = counted.entry(window).or_default();
                count.0 += cost;
                if model.admits(node, cost) {
                    count.1 += cost;
                }
                events.push(Reverse((traffic.next(now), Event::Request)));
            }
            Event::Sync(node) => {
                model.roll(node, window);
                model.sync(node, window, now, &mut random, &mut events);
                events.push(Reverse((now + PERIOD_US, Event::Sync(node))));
            }
            Event::Count(to, from, of, count) => model.hear_count(to, from, of, count, window),
            Event::Total(to, of, total) => {
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
    Outcome { over, under: missed as f64 / could.max(1) as f64, ..Outcome::default() }
}

impl Model<'_> {
    fn sync(
        &mut self,
        node: usize,
        window: u64,
        now: u64,
        random: &mut Random,
        events: &mut BinaryHeap<Reverse<(u64, Event)>>,
    ) {
        let mean = self.cell.network.sync_us;
        let mut later = || now + mean / 2 + random.below(mean + 1);
        let own = self.own.get(node).copied().unwrap_or(0);
        let others = (0..self.cell.nodes).filter(|other| *other != node);
        match self.rival {
            Rival::Gossip => {
                for other in others {
                    events.push(Reverse((later(), Event::Count(other, node, window, own))));
                }
            }
            // The owner is the last node.
            Rival::Global if node + 1 == self.cell.nodes => {
                let total = self.totals.get(node).copied().unwrap_or(0);
                for other in others {
                    events.push(Reverse((later(), Event::Total(other, window, total))));
                }
            }
            Rival::Global => {
                let unsent = self.unsent.get_mut(node).map_or(0, std::mem::take);
                if unsent > 0 {
                    events.push(Reverse((later(), Event::Count(self.cell.nodes - 1, node, window, unsent))));
                }
            }
            Rival::EvenShares => {}
        }
    }

    fn hear_count(&mut self, to: usize, from: usize, of: u64, count: u64, window: u64) {
        self.roll(to, window);
        if of != window {
            return;
        }
        if self.rival == Rival::Global {
            if let Some(total) = self.totals.get_mut(to) {
                *total += count;
            }
        } else if let Some(heard) = self.heard.get_mut(to).and_then(|heard| heard.get_mut(from)) {
            *heard = (*heard).max(count);
        }
    }
}
