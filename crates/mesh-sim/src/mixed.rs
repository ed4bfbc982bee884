//! Requests of all kinds at once, over a bad network: several limits in one, refunds, debits, peeks and resets. Then the
//! network is good again, and the whole of every limit must be there.

use super::digest::{record, record_verdicts};
use super::network::Network;
use super::world::START_US;
use hivemind_core::store::{Charge, Context, Key, Op, Parts, Sharing};
use hivemind_core::{Cost, Limit, Timestamp};
use hivemind_mesh::testing::Random;
use hivemind_mesh::testing::seated;
use hivemind_mesh::window::tag_at;
use hivemind_mesh::{Consistency, MeshOptions, OnUnreachable};
use hivemind_mesh::{Decided, Lane, Node, Output, Ticket};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const NODES: usize = 4;
const SECOND: u64 = 1_000_000;
/// The network is bad until then.
const HEALS_US: u64 = 6 * SECOND;
/// Windows that begin from then on must be used as a whole.
const HEALED_US: u64 = 8 * SECOND;
const ENDS_US: u64 = 12 * SECOND;

/// What came of a run.
///
/// ```
/// use hivemind_mesh_sim::Mixed;
///
/// assert_eq!(Mixed::default().over, 0); // What a run has to come to.
/// ```
#[derive(Clone, Debug, Default)]
pub struct Mixed {
    /// The most that a window admitted beyond its limit, refunds and resets counted in; for a bucket, over the run.
    pub over: u64,
    /// Of what could have been admitted after the healing, so much was, in a thousand: the least of all limits.
    pub used_after: u64,
    /// Admitted in all.
    pub admitted: u64,
    /// Batches that were refused although one of their limits passed.
    pub torn: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick(usize),
    Mail { to: usize, from: usize, frame: Vec<u8> },
    Request,
}

/// One limit and what was done to it: spent, and allowed beyond the limit, by window.
struct Account {
    key: Key,
    limit: Limit,
    windows: BTreeMap<u64, (u64, u64)>,
    after: u64,
}

impl Account {
    fn window(&mut self, at_us: u64) -> &mut (u64, u64) {
        self.windows.entry(tag_at(&self.limit, moment(at_us))).or_default()
    }

    /// What is given back or reset at the end of a window may count in the next.
    fn allow(&mut self, at_us: u64, amount: u64) {
        self.window(at_us).1 += amount;
        if !matches!(self.limit, Limit::TokenBucket(_)) {
            self.window(at_us + period_us(&self.limit)).1 += amount;
        }
    }

    fn over(&self) -> u64 {
        let earned = if matches!(self.limit, Limit::TokenBucket(_)) {
            u64::from(self.limit.requests()) * (ENDS_US / period_us(&self.limit) + 1)
        } else {
            0
        };
        let most = u64::from(self.limit.burst()) + earned;
        self.windows.values().map(|(spent, allowed)| spent.saturating_sub(most + allowed)).max().unwrap_or(0)
    }

    /// In a thousand, of what it could admit after the healing.
    fn used_after(&self) -> u64 {
        let could = u64::from(self.limit.requests()) * ((ENDS_US - HEALED_US) / period_us(&self.limit));
        1_000 * self.after / could.max(1)
    }
}

fn moment(us: u64) -> Timestamp {
    Timestamp::from_nanos((START_US + us) * 1_000)
}

fn period_us(limit: &Limit) -> u64 {
    u64::try_from(limit.period().length().as_micros()).unwrap_or(u64::MAX)
}

type Asked = Vec<(usize, Op, u64)>;

struct Run {
    nodes: Vec<Node>,
    accounts: Vec<Account>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    open: BTreeMap<(usize, Ticket), Asked>,
    network: Network,
    random: Random,
    sequence: u64,
    consistency: Consistency,
    /// Resets in one run of three, refunds in another: what they allow hides what comes of nothing.
    kind: u64,
    mixed: Mixed,
}

/// Plays a run of these limits with this seed.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_mesh::Consistency;
/// use hivemind_mesh_sim::mixed;
///
/// let run = mixed(1, &[Limit::fixed_window(20, Period::SECOND)], Consistency::Exact);
/// assert!(run.over == 0 && run.admitted > 0);
/// ```
#[must_use]
pub fn mixed(seed: u64, limits: &[Limit], consistency: Consistency) -> Mixed {
    let mut random = Random::new(seed ^ 0x317d);
    let options = MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() };
    let accounts = limits.iter().map(|limit| {
        let key = Key::from_bits(random.draw(), random.draw());
        Account { key, limit: *limit, windows: BTreeMap::new(), after: 0 }
    });
    let accounts = accounts.collect();
    let mut run = Run {
        nodes: seated(NODES, &options, moment(0)),
        accounts,
        events: BinaryHeap::new(),
        open: BTreeMap::new(),
        network: Network::bad(),
        random,
        sequence: 0,
        consistency,
        kind: seed % 3,
        mixed: Mixed::default(),
    };
    for node in 0..NODES {
        run.push(node as u64 * 1_000, Event::Tick(node));
    }
    run.push(0, Event::Request);
    run.play();
    run.mixed.over = run.accounts.iter().map(Account::over).max().unwrap_or(0);
    run.mixed.used_after = run.accounts.iter().map(Account::used_after).min().unwrap_or(0);
    run.mixed
}

impl Run {
    fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.random.below(below as u64)).unwrap_or(0)
    }

    fn play(&mut self) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at >= ENDS_US {
                return;
            }
            if at >= HEALS_US {
                self.network = Network::default();
            }
            match event {
                Event::Tick(index) => {
                    if let Some(node) = self.nodes.get_mut(index) {
                        node.on_tick(moment(at));
                    }
                    self.push(at + 5_000, Event::Tick(index));
                    self.carry_out(index, at);
                }
                Event::Mail { to, from, frame } => {
                    let name = self.nodes.get(from).map(|node| node.member().id.clone());
                    if let (Some(node), Some(name)) = (self.nodes.get_mut(to), name) {
                        node.on_frame(moment(at), &name, &frame);
                    }
                    self.carry_out(to, at);
                }
                Event::Request => {
                    let gap = if at < HEALS_US { 1_500 } else { 400 };
                    let next = at + 1 + self.random.below(2 * gap);
                    self.push(next, Event::Request);
                    self.request(at);
                }
            }
        }
    }

    fn request(&mut self, at: u64) {
        let node = self.index(NODES);
        let first = self.index(self.accounts.len());
        let healed = at >= HEALS_US;
        if !healed && self.kind == 1 && self.random.chance(2) {
            let Some(account) = self.accounts.get_mut(first) else { return };
            account.allow(at, u64::from(account.limit.burst()));
            let (key, limit) = (account.key, account.limit);
            if let Some(node) = self.nodes.get_mut(node) {
                node.forget(key, &limit, moment(at));
            }
            return self.carry_out(node, at);
        }
        let count = if healed { 1 } else { 1 + self.index(self.accounts.len()) };
        let mut asked: Asked = Vec::new();
        for offset in 0..count {
            let op = match self.random.below(40) {
                0 if !healed && self.kind == 2 => Op::Refund,
                1 if !healed => Op::Debit,
                2 | 3 => Op::Peek,
                _ => Op::Spend,
            };
            let cost = if healed { 1 } else { 1 + self.random.below(2) };
            asked.push(((first + offset) % self.accounts.len(), op, cost));
        }
        self.decide(node, asked, at);
    }

    fn decide(&mut self, node: usize, asked: Asked, at: u64) {
        let parts = Parts { domain: "sim", entries: &[] };
        let sharing = Sharing { consistency: Some(self.consistency), on_unreachable: None };
        let mut batch = Vec::new();
        for (index, op, cost) in &asked {
            let Some(account) = self.accounts.get_mut(*index) else { return };
            if *op == Op::Refund {
                account.allow(at, *cost);
            }
        }
        for (index, op, cost) in &asked {
            let Some(Account { key, limit, .. }) = self.accounts.get(*index) else { return };
            let (key, cost, op) = (*key, Cost::new(*cost), *op);
            batch.push(Charge { cost, op, sharing, ..Charge::spend(key, parts, limit) });
        }
        let Some(place) = self.nodes.get_mut(node) else { return };
        match place.decide(&batch, Context::at(moment(at))) {
            Decided::Now(verdicts) => {
                record_verdicts(&[at, node as u64], &verdicts);
                self.note(&asked, verdicts.committed, at);
            }
            Decided::Later(ticket) => {
                self.open.insert((node, ticket), asked);
            }
        }
        self.carry_out(node, at);
    }

    fn note(&mut self, asked: &Asked, committed: bool, at: u64) {
        self.mixed.torn += u64::from(!committed && asked.len() > 1);
        for (index, op, cost) in asked {
            let Some(account) = self.accounts.get_mut(*index) else { return };
            if *op == Op::Spend && committed {
                account.window(at).0 += cost;
                account.after += if at >= HEALED_US { *cost } else { 0 };
                self.mixed.admitted += cost;
            }
        }
    }

    fn carry_out(&mut self, from: usize, at: u64) {
        let outputs: Vec<Output> =
            self.nodes.get_mut(from).map(|node| node.outputs().collect()).unwrap_or_default();
        for output in outputs {
            match output {
                Output::Decided(ticket, verdicts) => {
                    record_verdicts(&[at, from as u64], &verdicts);
                    if let Some(asked) = self.open.remove(&(from, ticket)) {
                        self.note(&asked, verdicts.committed, at);
                    }
                }
                Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
                Output::Send { to, lane, frame } => {
                    let Some(to) = self.nodes.iter().position(|node| node.member().id == to) else {
                        continue;
                    };
                    record(&[at, from as u64, to as u64, u64::from(lane == Lane::Ask)], &frame);
                    for delay in self.network.arrivals(&mut self.random, lane, from, to) {
                        self.push(at + delay, Event::Mail { to, from, frame: frame.clone() });
                    }
                }
            }
        }
    }
}
