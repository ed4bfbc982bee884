//! Simulation of mixed batches over a faulty network: several limits per request, refunds, debits, peeks and resets. After
//! the network recovers, every limit must be completely usable.

use super::digest::{record, record_verdicts};
use super::network::Network;
use super::world::START_US;
use hivemind_core::store::{Charge, Context, Key, Op, Parts, Sharing};
use hivemind_core::{Cost, Limit, Timestamp};
use hivemind_mesh::testing::Random;
use hivemind_mesh::testing::mesh_nodes;
use hivemind_mesh::window::tag_at;
use hivemind_mesh::{Consistency, MeshOptions, OnUnreachable};
use hivemind_mesh::{Lane, Node, NodeDecision, Output, Ticket};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const NODES: usize = 4;
const SECOND: u64 = 1_000_000;
/// The network is faulty until then.
const HEALS_US: u64 = 6 * SECOND;
/// Windows that start later must be used completely.
const HEALED_US: u64 = 8 * SECOND;
const ENDS_US: u64 = 12 * SECOND;

/// Result of a run.
///
/// ```
/// use hivemind_mesh_sim::MixedResult;
///
/// assert_eq!(MixedResult::default().over, 0); // A correct run admits nothing beyond a limit.
/// ```
#[derive(Clone, Debug, Default)]
pub struct MixedResult {
    /// Maximum excess of a window over its limit plus refunds and resets; for a bucket, of the whole run.
    pub over: u64,
    /// Admitted per mille of the admissible requests after the network recovered: the minimum of all limits.
    pub used_after: u64,
    /// Total admissions.
    pub admitted: u64,
    /// Refused batches of several charges.
    pub torn: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MixedEvent {
    Tick(usize),
    Mail { to: usize, from: usize, frame: Vec<u8> },
    Request,
}

/// One limit with its expected bounds: spent, and allowed beyond the limit, by window.
struct LimitAudit {
    key: Key,
    limit: Limit,
    windows: BTreeMap<u64, (u64, u64)>,
    after: u64,
}

impl LimitAudit {
    fn window(&mut self, at_us: u64) -> &mut (u64, u64) {
        self.windows.entry(tag_at(&self.limit, moment(at_us))).or_default()
    }

    /// Allows more in this window and the next, because a refund or reset at the end of a window may count there.
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

    /// Per mille of the admissible requests after the network recovered.
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

type BatchOps = Vec<(usize, Op, u64)>;

struct MixedRun {
    nodes: Vec<Node>,
    audits: Vec<LimitAudit>,
    events: BinaryHeap<Reverse<(u64, u64, MixedEvent)>>,
    open: BTreeMap<(usize, Ticket), BatchOps>,
    network: Network,
    random: Random,
    sequence: u64,
    consistency: Consistency,
    /// Selects the operations: resets in one run of three, refunds in another, because what they allow could hide errors.
    kind: u64,
    result: MixedResult,
}

/// Runs a simulation with these limits and this seed.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_mesh::Consistency;
/// use hivemind_mesh_sim::run_mixed_batches;
///
/// let run = run_mixed_batches(1, &[Limit::fixed_window(20, Period::SECOND)], Consistency::Exact);
/// assert!(run.over == 0 && run.admitted > 0);
/// ```
#[must_use]
pub fn run_mixed_batches(seed: u64, limits: &[Limit], consistency: Consistency) -> MixedResult {
    let mut random = Random::new(seed ^ 0x317d);
    let options = MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() };
    let audits = limits.iter().map(|limit| {
        let key = Key::from_bits(random.draw(), random.draw());
        LimitAudit { key, limit: *limit, windows: BTreeMap::new(), after: 0 }
    });
    let audits = audits.collect();
    let mut run = MixedRun {
        nodes: mesh_nodes(NODES, &options, moment(0)),
        audits,
        events: BinaryHeap::new(),
        open: BTreeMap::new(),
        network: Network::bad(),
        random,
        sequence: 0,
        consistency,
        kind: seed % 3,
        result: MixedResult::default(),
    };
    for node in 0..NODES {
        run.push(node as u64 * 1_000, MixedEvent::Tick(node));
    }
    run.push(0, MixedEvent::Request);
    run.play();
    run.result.over = run.audits.iter().map(LimitAudit::over).max().unwrap_or(0);
    run.result.used_after = run.audits.iter().map(LimitAudit::used_after).min().unwrap_or(0);
    run.result
}

impl MixedRun {
    fn push(&mut self, at: u64, event: MixedEvent) {
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
                MixedEvent::Tick(index) => {
                    if let Some(node) = self.nodes.get_mut(index) {
                        node.on_tick(moment(at));
                    }
                    self.push(at + 5_000, MixedEvent::Tick(index));
                    self.carry_out(index, at);
                }
                MixedEvent::Mail { to, from, frame } => {
                    let name = self.nodes.get(from).map(|node| node.member().id.clone());
                    if let (Some(node), Some(name)) = (self.nodes.get_mut(to), name) {
                        node.on_frame(moment(at), &name, &frame);
                    }
                    self.carry_out(to, at);
                }
                MixedEvent::Request => {
                    let gap = if at < HEALS_US { 1_500 } else { 400 };
                    let next = at + 1 + self.random.below(2 * gap);
                    self.push(next, MixedEvent::Request);
                    self.request(at);
                }
            }
        }
    }

    fn request(&mut self, at: u64) {
        let node = self.index(NODES);
        let first = self.index(self.audits.len());
        let is_healed = at >= HEALS_US;
        if !is_healed && self.kind == 1 && self.random.chance(2) {
            let Some(audit) = self.audits.get_mut(first) else { return };
            audit.allow(at, u64::from(audit.limit.burst()));
            let (key, limit) = (audit.key, audit.limit);
            if let Some(node) = self.nodes.get_mut(node) {
                node.forget(key, &limit, moment(at));
            }
            return self.carry_out(node, at);
        }
        let count = if is_healed { 1 } else { 1 + self.index(self.audits.len()) };
        let mut ops: BatchOps = Vec::new();
        for offset in 0..count {
            let op = match self.random.below(40) {
                0 if !is_healed && self.kind == 2 => Op::Refund,
                1 if !is_healed => Op::Debit,
                2 | 3 => Op::Peek,
                _ => Op::Spend,
            };
            let cost = if is_healed { 1 } else { 1 + self.random.below(2) };
            ops.push(((first + offset) % self.audits.len(), op, cost));
        }
        self.decide(node, ops, at);
    }

    fn decide(&mut self, node: usize, ops: BatchOps, at: u64) {
        let parts = Parts { domain: "sim", entries: &[] };
        let sharing = Sharing { consistency: Some(self.consistency), on_unreachable: None };
        let mut batch = Vec::new();
        for (index, op, cost) in &ops {
            let Some(audit) = self.audits.get_mut(*index) else { return };
            if *op == Op::Refund {
                audit.allow(at, *cost);
            }
        }
        for (index, op, cost) in &ops {
            let Some(LimitAudit { key, limit, .. }) = self.audits.get(*index) else { return };
            let (key, cost, op) = (*key, Cost::new(*cost), *op);
            batch.push(Charge { cost, op, sharing, ..Charge::spend(key, parts, limit) });
        }
        let Some(node_ref) = self.nodes.get_mut(node) else { return };
        match node_ref.decide(&batch, Context::at(moment(at))) {
            NodeDecision::Now(verdicts) => {
                record_verdicts(&[at, node as u64], &verdicts);
                self.record_outcome(&ops, verdicts.committed, at);
            }
            NodeDecision::Later(ticket) => {
                self.open.insert((node, ticket), ops);
            }
        }
        self.carry_out(node, at);
    }

    fn record_outcome(&mut self, ops: &BatchOps, committed: bool, at: u64) {
        self.result.torn += u64::from(!committed && ops.len() > 1);
        for (index, op, cost) in ops {
            let Some(audit) = self.audits.get_mut(*index) else { return };
            if *op == Op::Spend && committed {
                audit.window(at).0 += cost;
                audit.after += if at >= HEALED_US { *cost } else { 0 };
                self.result.admitted += cost;
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
                    if let Some(ops) = self.open.remove(&(from, ticket)) {
                        self.record_outcome(&ops, verdicts.committed, at);
                    }
                }
                Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
                Output::Send { to, lane, frame } => {
                    let Some(to) = self.nodes.iter().position(|node| node.member().id == to) else {
                        continue;
                    };
                    record(&[at, from as u64, to as u64, u64::from(lane == Lane::Ask)], &frame);
                    for delay in self.network.arrivals(&mut self.random, lane, from, to) {
                        self.push(at + delay, MixedEvent::Mail { to, from, frame: frame.clone() });
                    }
                }
            }
        }
    }
}
