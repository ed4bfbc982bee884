//! Nodes, their clocks, the mail between them, and the requests.

use super::network::Network;
use super::random::Random;
use super::tally::Tally;
use super::traffic::Traffic;
use crate::chain::Chain;
use crate::member::Member;
use crate::node::{Decided, Lane, Node, Output, Ticket};
use crate::options::MeshOptions;
use crate::owner::NodeId;
use crate::view::{Round, View};
use hivemind_core::store::{Charge, Context, Key, Parts};
use hivemind_core::{Cost, Limit, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// The true time at which runs begin: the start of a day, so that windows of every length begin there.
pub(super) const START_US: u64 = 1_700_006_400 * 1_000_000;

/// How long a node to which something happened is told the time often.
const BUSY_US: u64 = 100_000;

/// Options under which nodes agree at once and say little but what a grid measures.
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

struct Counter {
    key: Key,
    limit: Limit,
    /// The limits of nodes that were given another one.
    reloaded: BTreeMap<usize, Limit>,
    had: BTreeMap<usize, Vec<Limit>>,
    traffic: Traffic,
    tally: Tally,
}

/// A mesh and all that happens to it.
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

pub(super) fn named(index: usize) -> NodeId {
    NodeId::new(format!("n{index:03}"))
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

    pub(super) fn add_counter(&mut self, key: Key, limit: Limit, mut traffic: Traffic) {
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

    fn request(&mut self, index: usize) {
        let elapsed = self.elapsed_us();
        let Some(counter) = self.counters.get_mut(index) else { return };
        let (mut node, cost) = counter.traffic.request(elapsed);
        let next = counter.traffic.next(elapsed);
        self.push(self.start + next, Event::Request { counter: index });
        // What comes to a dead node goes to the next that lives.
        for _ in 0..self.seats.len() {
            if self.is_alive(node) {
                break;
            }
            node = (node + 1) % self.seats.len();
        }
        self.hit(node, index, cost);
    }

    /// A counter without traffic of its own, for requests made by hand. Says its index.
    pub fn add_limit(&mut self, key: Key, limit: Limit) -> usize {
        let traffic = Traffic::new(super::Shape::Uniform, 0.0, 1, 1, 1, Random::new(0));
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
    pub(super) fn reload_once(&mut self, node: usize, counter: usize, limit: Limit) {
        let Some(known) = self.counters.get_mut(counter) else { return };
        let has_had = known.had.entry(node).or_default();
        if !has_had.contains(&limit) {
            has_had.push(limit);
            self.reload(node, counter, limit);
        }
    }

    /// A request comes to a node.
    pub fn hit(&mut self, node: usize, index: usize, cost: u64) {
        let Some(counter) = self.counters.get(index) else { return };
        let (key, limit) = (counter.key, *counter.reloaded.get(&node).unwrap_or(&counter.limit));
        let (now, truly) = (self.now, at(self.now, 0));
        let Some(Some(seat)) = self.seats.get_mut(node) else { return };
        if !seat.alive {
            return;
        }
        let local = at(now, seat.skew);
        self.wake(node);
        let Some(Some(seat)) = self.seats.get_mut(node) else { return };
        let parts = Parts { domain: "sim", entries: &[] };
        let charge = Charge { cost: Cost::new(cost), ..Charge::spend(key, parts, &limit) };
        let decided = seat.node.decide(&[charge], Context::at(local));
        // Windows are those of the mesh clock.
        let local = seat.node.mesh_time(local);
        self.sent.2 += 1;
        match decided {
            Decided::Now(verdicts) => {
                if let Some(counter) = self.counters.get_mut(index) {
                    counter.tally.offer(cost, local, truly);
                }
                if let Some(counter) = self.counters.get_mut(index).filter(|_| verdicts.committed) {
                    counter.tally.admit(cost, local, truly, truly);
                }
            }
            Decided::Later(ticket) => {
                self.sent.3 += 1;
                seat.open.insert(ticket, (index, cost, truly, local));
            }
        }
        self.carry_out(node);
    }

    fn carry_out(&mut self, from: usize) {
        let Some(Some(seat)) = self.seats.get_mut(from) else { return };
        let outputs: Vec<Output> = seat.node.outputs().collect();
        let local = seat.node.mesh_time(at(self.now, seat.skew));
        for output in outputs {
            match output {
                Output::Decided(ticket, verdicts) => {
                    let open = self
                        .seats
                        .get_mut(from)
                        .and_then(Option::as_mut)
                        .and_then(|seat| seat.open.remove(&ticket));
                    let Some((index, cost, asked, then)) = open else { continue };
                    // A clock that stepped back meanwhile does not take the decision along.
                    let local = local.max(then);
                    let truly = at(self.now, 0);
                    // It belongs to the window that it was decided in.
                    if let Some(counter) = self.counters.get_mut(index) {
                        counter.tally.offer(cost, local, asked);
                    }
                    if let Some(counter) = self.counters.get_mut(index).filter(|_| verdicts.committed) {
                        counter.tally.admit(cost, local, asked, truly);
                    }
                }
                Output::Send { to, lane, frame } => self.post(from, &to, lane, &frame),
            }
        }
    }

    fn post(&mut self, from: usize, to: &NodeId, lane: Lane, frame: &[u8]) {
        let Some(to) = to.as_str().strip_prefix('n').and_then(|index| index.parse::<usize>().ok()) else {
            return;
        };
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

/// Makes nodes the members of one view.
fn seat(nodes: &mut [(&mut Node, Timestamp)]) {
    let members: Vec<Member> = nodes.iter().map(|(node, _)| node.member().clone()).collect();
    let Some(first) = members.first() else { return };
    let round = Round { number: 1, proposer: first.id.clone() };
    let view = View::new(None, Timestamp::EPOCH, round, members.clone(), []);
    let chain = Chain::founded(view, Timestamp::EPOCH);
    for (node, now) in nodes {
        node.seat(chain.clone(), &members, *now);
    }
}

/// So many nodes that are members of one view.
#[must_use]
pub fn seated(count: usize, options: &MeshOptions, now: Timestamp) -> Vec<Node> {
    let mut nodes: Vec<Node> =
        (0..count).map(|index| Node::new(named(index), 1, options.clone(), now)).collect();
    let mut seats: Vec<_> = nodes.iter_mut().map(|node| (node, now)).collect();
    seat(&mut seats);
    nodes
}
