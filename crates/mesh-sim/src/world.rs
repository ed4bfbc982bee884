//! Nodes, their clocks, the mail between them, and the requests.

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

use counters::Counter;
use hivemind_mesh::testing::{named, seat};

/// The true time at which runs begin: the start of a day, so that windows of every length begin there.
pub(super) const START_US: u64 = 1_700_006_400 * 1_000_000;

/// How long a node to which something happened is told the time often.
const BUSY_US: u64 = 100_000;

/// Options under which nodes agree at once and say little but what a grid measures.
///
/// ```
/// use hivemind_mesh::MeshOptions;
/// use hivemind_mesh_sim::options_for_a_grid;
///
/// assert!(options_for_a_grid().council.staleness > MeshOptions::default().council.staleness);
/// ```
#[must_use]
pub fn options_for_a_grid() -> MeshOptions {
    let mut options = MeshOptions::default();
    options.council.staleness = Duration::from_secs(5);
    options
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick { node: usize, run: u64 },
    Mail { to: usize, from: usize, lane: Lane, frame: Vec<u8> },
    Request { counter: usize },
}

struct Seat {
    node: Node,
    /// How far its clock is off, in microseconds.
    skew: i64,
    alive: bool,
    run: u64,
    /// When it is told the time next; and until when it has something to wait for.
    next_tick: u64,
    busy_until: u64,
    open: BTreeMap<Ticket, (usize, u64, Timestamp, Timestamp)>,
}

/// A mesh and all that happens to it.
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
/// world.run_until(1_000_000); // A second later the others still are a mesh.
/// assert!(world.tally(counter).is_some_and(|tally| tally.most_over() == 0));
/// assert!(world.node(0).is_some_and(|node| node.is_ready()));
/// assert_eq!(world.elapsed_us(), 1_000_000);
/// world.start(2); // It comes back, another goes, and one has other rules.
/// world.leave(1);
/// world.reload(0, counter, Limit::fixed_window(7, Period::DAY));
/// world.spread_over(2);
/// assert!(world.node_mut(2).is_some_and(|node| !node.is_ready())); // It has to find the others first.
/// ```
pub struct World {
    /// The network, which may change while it runs.
    pub network: Network,
    random: Random,
    seats: Vec<Option<Seat>>,
    counters: Vec<Counter>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
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
    /// A world without nodes.
    #[must_use]
    pub fn new(seed: u64, network: Network, options: MeshOptions, most_skew_us: u64) -> Self {
        Self {
            network,
            random: Random::new(seed),
            seats: Vec::new(),
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

    /// Begins so long after the start of a day. Before anything is started.
    pub fn begin_at(&mut self, us: u64) {
        (self.start, self.now) = (START_US + us, START_US + us);
    }

    /// How often nodes are told the time, and how often those to which nothing happens.
    pub fn tick_every(&mut self, us: u64, quiet_us: u64) {
        (self.tick_us, self.quiet_tick_us) = (us, quiet_us);
    }

    /// Starts a node, or starts it anew.
    pub fn start(&mut self, index: usize) {
        self.runs += 1;
        let spread = self.random.below(2 * self.most_skew_us + 1);
        let skew = i64::try_from(spread).unwrap_or(0) - i64::try_from(self.most_skew_us).unwrap_or(0);
        let now = at(self.now, skew);
        let mut node = Node::new(named(index), self.now + self.runs, self.options.clone(), now);
        while self.seats.len() <= index {
            self.seats.push(None);
        }
        let known = (0..self.seats.len()).filter(|other| *other != index).map(named);
        known.for_each(|other| node.meet(other));
        for seat in self.seats.iter_mut().flatten() {
            seat.node.meet(named(index));
        }
        let run = self.runs;
        let next_tick = self.now + self.random.below(self.tick_us);
        let seat = Seat { node, skew, alive: true, run, next_tick, busy_until: 0, open: BTreeMap::new() };
        if let Some(place) = self.seats.get_mut(index) {
            *place = Some(seat);
        }
        self.push(next_tick, Event::Tick { node: index, run });
    }

    /// Starts so many nodes that are members of one view from the first moment on.
    pub fn start_together(&mut self, count: usize) {
        (0..count).for_each(|index| self.start(index));
        let mut nodes: Vec<(&mut Node, Timestamp)> = Vec::new();
        for seat in self.seats.iter_mut().flatten() {
            nodes.push((&mut seat.node, at(self.now, seat.skew)));
        }
        seat(&mut nodes);
    }

    /// A node stops without a word.
    pub fn crash(&mut self, index: usize) {
        if let Some(Some(seat)) = self.seats.get_mut(index) {
            seat.alive = false;
        }
    }

    pub(super) fn is_alive(&self, index: usize) -> bool {
        self.seats.get(index).is_some_and(|seat| seat.as_ref().is_some_and(|seat| seat.alive))
    }

    /// A node begins to leave.
    pub fn leave(&mut self, index: usize) {
        if let Some(node) = self.node_mut(index) {
            node.leave();
        }
    }

    /// Tells all nodes which names discovery knows.
    pub fn discover(&mut self, indices: &[usize]) {
        for seat in self.seats.iter_mut().flatten() {
            seat.node.discover(indices.iter().copied().map(named));
        }
    }

    /// Sets a node's clock off by so much more.
    pub fn step_clock(&mut self, index: usize, by_us: i64) {
        if let Some(Some(seat)) = self.seats.get_mut(index) {
            seat.skew += by_us;
        }
    }

    /// A node.
    #[must_use]
    pub fn node(&self, index: usize) -> Option<&Node> {
        self.seats.get(index)?.as_ref().map(|seat| &seat.node)
    }

    /// A node, to tell it something.
    pub fn node_mut(&mut self, index: usize) -> Option<&mut Node> {
        self.seats.get_mut(index)?.as_mut().map(|seat| &mut seat.node)
    }

    /// Time since the start, in microseconds.
    #[must_use]
    pub fn elapsed_us(&self) -> u64 {
        self.now - self.start
    }

    pub(super) fn started_us(&self) -> u64 {
        self.start
    }

    fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Lets time pass until so long after the start.
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

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick { node, run } => {
                let Some(Some(seat)) = self.seats.get_mut(node) else { return };
                if seat.run != run || !seat.alive || seat.next_tick != self.now {
                    return;
                }
                seat.node.on_tick(at(self.now, seat.skew));
                let pause = if seat.busy_until > self.now { self.tick_us } else { self.quiet_tick_us };
                let next = self.now + pause;
                seat.next_tick = next;
                self.push(next, Event::Tick { node, run });
                self.carry_out(node);
            }
            Event::Mail { to, from, lane, frame } => {
                if lane == Lane::Ask {
                    self.wake(to);
                }
                let Some(Some(seat)) = self.seats.get_mut(to) else { return };
                if seat.alive {
                    seat.node.on_frame(at(self.now, seat.skew), &named(from), &frame);
                    self.carry_out(to);
                }
            }
            Event::Request { counter } => self.request(counter),
        }
    }

    /// Something happens at a node that it may have to wait for: it is told the time more often for a while.
    fn wake(&mut self, index: usize) {
        let (soon, until) = (self.now + self.tick_us, self.now + BUSY_US);
        let Some(Some(seat)) = self.seats.get_mut(index) else { return };
        seat.busy_until = until;
        if seat.next_tick > soon {
            seat.next_tick = soon;
            let run = seat.run;
            self.push(soon, Event::Tick { node: index, run });
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
            self.push(self.now + delay, Event::Mail { to, from, lane, frame: frame.to_vec() });
        }
    }
}

/// A true time as a clock that is so far off shows it.
fn at(us: u64, skew: i64) -> Timestamp {
    Timestamp::from_nanos(us.saturating_add_signed(skew).saturating_mul(1_000))
}
