//! Simulated mesh: nodes with clocks, the frames between them, and requests.

use super::digest::record;
use super::network::Network;
use hivemind_core::Timestamp;
use hivemind_mesh::MeshOptions;
use hivemind_mesh::NodeId;
use hivemind_mesh::testing::Random;
use hivemind_mesh::{Lane, Node, Ticket};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

mod counters;
mod requests;

use counters::SimCounter;
use hivemind_mesh::testing::{form_mesh, named};

/// True start time of runs: the start of a day, so windows of every length start there.
pub(super) const START_US: u64 = 1_700_006_400 * 1_000_000;

/// How long a node ticks at the short interval after an event.
const BUSY_US: u64 = 100_000;

/// Options for the grid: membership is stable and causes little traffic.
///
/// ```
/// use hivemind_mesh::MeshOptions;
/// use hivemind_mesh_sim::grid_options;
///
/// assert!(grid_options().membership.staleness > MeshOptions::default().membership.staleness);
/// ```
#[must_use]
pub fn grid_options() -> MeshOptions {
    let mut options = MeshOptions::default();
    options.membership.staleness = Duration::from_secs(5);
    options
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WorldEvent {
    Tick { node: usize, run: u64 },
    Mail { to: usize, from: usize, lane: Lane, frame: Vec<u8> },
    Request { counter: usize },
}

struct SimNode {
    node: Node,
    /// Clock offset in microseconds.
    skew: i64,
    alive: bool,
    run: u64,
    /// Next tick, and end of the short tick interval.
    next_tick: u64,
    busy_until: u64,
    open: BTreeMap<Ticket, (usize, u64, Timestamp, Timestamp)>,
}

/// A simulated mesh.
///
/// ```
/// use hivemind_core::{Limit, Period, store::Key};
/// use hivemind_mesh::MeshOptions;
/// use hivemind_mesh_sim::{Network, World};
///
/// let mut world = World::new(1, Network::bad(), MeshOptions::default(), 5_000);
/// world.begin_at(1_000_000); // A second after midnight.
/// world.tick_every(10_000, 50_000);
/// world.start_together(3);
/// world.step_clock(1, 200_000);
/// world.crash(2);
/// world.discover(&[0, 1]);
/// let counter = world.add_limit(Key::from_bits(7, 11), Limit::fixed_window(5, Period::DAY));
/// (0..9).for_each(|request| world.hit(request % 2, counter, 1));
/// world.run_until(1_000_000); // The others are still a mesh.
/// assert!(world.tally(counter).is_some_and(|tally| tally.max_excess() == 0));
/// assert!(world.node(0).is_some_and(|node| node.is_ready()));
/// assert_eq!(world.elapsed_us(), 1_000_000);
/// world.start(2); // It restarts, another leaves, and one reloads.
/// world.leave(1);
/// world.reload(0, counter, Limit::fixed_window(7, Period::DAY));
/// world.spread_traffic(2);
/// assert!(world.node_mut(2).is_some_and(|node| !node.is_ready())); // It has to discover the others first.
/// ```
pub struct World {
    /// The network, which may change during a run.
    pub network: Network,
    random: Random,
    nodes: Vec<Option<SimNode>>,
    counters: Vec<SimCounter>,
    events: BinaryHeap<Reverse<(u64, u64, WorldEvent)>>,
    sequence: u64,
    start: u64,
    now: u64,
    runs: u64,
    tick_us: u64,
    quiet_tick_us: u64,
    most_skew_us: u64,
    options: MeshOptions,
    /// Bytes sent, frames sent, requests, and requests that waited.
    pub sent: (u64, u64, u64, u64),
}

impl World {
    /// Creates a world without nodes.
    #[must_use]
    pub fn new(seed: u64, network: Network, options: MeshOptions, most_skew_us: u64) -> Self {
        Self {
            network,
            random: Random::new(seed),
            nodes: Vec::new(),
            counters: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            start: START_US,
            now: START_US,
            runs: 0,
            tick_us: 5_000,
            quiet_tick_us: 5_000,
            most_skew_us,
            options,
            sent: (0, 0, 0, 0),
        }
    }

    /// Sets the start time within the day; call it before starting nodes.
    pub fn begin_at(&mut self, us: u64) {
        (self.start, self.now) = (START_US + us, START_US + us);
    }

    /// Sets the tick intervals of busy and idle nodes.
    pub fn tick_every(&mut self, us: u64, quiet_us: u64) {
        (self.tick_us, self.quiet_tick_us) = (us, quiet_us);
    }

    /// Starts or restarts a node.
    pub fn start(&mut self, index: usize) {
        self.runs += 1;
        let spread = self.random.below(2 * self.most_skew_us + 1);
        let skew = i64::try_from(spread).unwrap_or(0) - i64::try_from(self.most_skew_us).unwrap_or(0);
        let now = at(self.now, skew);
        let mut node = Node::new(named(index), self.now + self.runs, self.options.clone(), now);
        while self.nodes.len() <= index {
            self.nodes.push(None);
        }
        let known = (0..self.nodes.len()).filter(|other| *other != index).map(named);
        known.for_each(|other| node.meet(other));
        for sim_node in self.nodes.iter_mut().flatten() {
            sim_node.node.meet(named(index));
        }
        let run = self.runs;
        let next_tick = self.now + self.random.below(self.tick_us);
        let sim_node =
            SimNode { node, skew, alive: true, run, next_tick, busy_until: 0, open: BTreeMap::new() };
        if let Some(place) = self.nodes.get_mut(index) {
            *place = Some(sim_node);
        }
        self.push(next_tick, WorldEvent::Tick { node: index, run });
    }

    /// Starts nodes that are members of one view from the start.
    pub fn start_together(&mut self, count: usize) {
        (0..count).for_each(|index| self.start(index));
        let mut nodes: Vec<(&mut Node, Timestamp)> = Vec::new();
        for sim_node in self.nodes.iter_mut().flatten() {
            nodes.push((&mut sim_node.node, at(self.now, sim_node.skew)));
        }
        form_mesh(&mut nodes);
    }

    /// Crashes a node.
    pub fn crash(&mut self, index: usize) {
        if let Some(Some(sim_node)) = self.nodes.get_mut(index) {
            sim_node.alive = false;
        }
    }

    pub(super) fn is_alive(&self, index: usize) -> bool {
        self.nodes.get(index).is_some_and(|sim_node| sim_node.as_ref().is_some_and(|sim_node| sim_node.alive))
    }

    /// Makes a node leave.
    pub fn leave(&mut self, index: usize) {
        if let Some(node) = self.node_mut(index) {
            node.leave();
        }
    }

    /// Sets the names that discovery reports to all nodes.
    pub fn discover(&mut self, indices: &[usize]) {
        for sim_node in self.nodes.iter_mut().flatten() {
            sim_node.node.discover(indices.iter().copied().map(named));
        }
    }

    /// Changes a node's clock offset.
    pub fn step_clock(&mut self, index: usize, by_us: i64) {
        if let Some(Some(sim_node)) = self.nodes.get_mut(index) {
            sim_node.skew += by_us;
        }
    }

    /// A node.
    #[must_use]
    pub fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)?.as_ref().map(|sim_node| &sim_node.node)
    }

    /// A node, mutable.
    pub fn node_mut(&mut self, index: usize) -> Option<&mut Node> {
        self.nodes.get_mut(index)?.as_mut().map(|sim_node| &mut sim_node.node)
    }

    /// Time since the start, in microseconds.
    #[must_use]
    pub fn elapsed_us(&self) -> u64 {
        self.now - self.start
    }

    pub(super) fn started_us(&self) -> u64 {
        self.start
    }

    fn push(&mut self, at: u64, event: WorldEvent) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Advances the simulation to this time after the start.
    pub fn run_until(&mut self, us: u64) {
        let end = self.start + us;
        while let Some(Reverse((at, _, _))) = self.events.peek()
            && *at < end
        {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Tick { node, run } => {
                let Some(Some(sim_node)) = self.nodes.get_mut(node) else { return };
                if sim_node.run != run || !sim_node.alive || sim_node.next_tick != self.now {
                    return;
                }
                sim_node.node.on_tick(at(self.now, sim_node.skew));
                let pause = if sim_node.busy_until > self.now { self.tick_us } else { self.quiet_tick_us };
                let next = self.now + pause;
                sim_node.next_tick = next;
                self.push(next, WorldEvent::Tick { node, run });
                self.carry_out(node);
            }
            WorldEvent::Mail { to, from, lane, frame } => {
                if lane == Lane::Ask {
                    self.wake(to);
                }
                let Some(Some(sim_node)) = self.nodes.get_mut(to) else { return };
                if sim_node.alive {
                    sim_node.node.on_frame(at(self.now, sim_node.skew), &named(from), &frame);
                    self.carry_out(to);
                }
            }
            WorldEvent::Request { counter } => self.request(counter),
        }
    }

    /// Makes a node tick at the short interval for a while, because it may have to wait for answers.
    fn wake(&mut self, index: usize) {
        let (soon, until) = (self.now + self.tick_us, self.now + BUSY_US);
        let Some(Some(sim_node)) = self.nodes.get_mut(index) else { return };
        sim_node.busy_until = until;
        if sim_node.next_tick > soon {
            sim_node.next_tick = soon;
            let run = sim_node.run;
            self.push(soon, WorldEvent::Tick { node: index, run });
        }
    }

    fn post(&mut self, from: usize, to: &NodeId, lane: Lane, frame: &[u8]) {
        let Some(to) = to.as_str().strip_prefix('n').and_then(|index| index.parse::<usize>().ok()) else {
            return;
        };
        record(&[self.now, from as u64, to as u64, u64::from(lane == Lane::Ask)], frame);
        self.sent.0 += frame.len() as u64;
        self.sent.1 += 1;
        for delay in self.network.arrivals(&mut self.random, lane, from, to) {
            self.push(self.now + delay, WorldEvent::Mail { to, from, lane, frame: frame.to_vec() });
        }
    }
}

/// The true time as shown by a clock with this offset.
fn at(us: u64, skew: i64) -> Timestamp {
    Timestamp::from_nanos(us.saturating_add_signed(skew).saturating_mul(1_000))
}
