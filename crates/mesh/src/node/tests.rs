//! Schedules that once created or lost allowance, replayed by hand: a few nodes, and the test controls every
//! frame.

mod bandwidth;
mod batches;
mod bounded;
mod clocks;
mod handoff;
mod hostile;
mod inspections;
mod links;
mod operators;
mod replies;
mod resets;
mod shares;
mod sweeps;
mod tokens;
mod views;

use super::{Inspection, Node, NodeDecision, Output, Ticket};
use crate::frame::codec::Encoder;
use crate::frame::interner::{CounterRef, SendInterner};
use crate::frame::{Header, Item, WindowRef};
use crate::options::{MeshOptions, OnUnreachable};
use crate::view::NodeId;
use crate::view::{Generation, Member};
use hivemind_core::store::{Charge, Context, Key, OnRefusal, Op, Parts, Sharing, Verdicts};
use hivemind_core::{Cost, Limit, Period, Rate, Timestamp};
use std::collections::BTreeMap;

const SECRET: u64 = 0x9e37_79b9_7f4a_7c15;

/// A frame in transit.
#[derive(Clone)]
struct TransitFrame {
    from: usize,
    to: usize,
    frame: Vec<u8>,
}

/// Nodes of one view, whose frames stay here until they are delivered.
struct Mesh {
    nodes: Vec<Node>,
    mail: Vec<TransitFrame>,
    decided: BTreeMap<(usize, Ticket), Verdicts>,
    looked: BTreeMap<(usize, Ticket), Inspection>,
    /// Confirmed resets, and operator requests without a reply.
    reset: Vec<(usize, Ticket)>,
    given_up: Vec<(usize, Ticket)>,
    now: Timestamp,
    /// Nodes that lose all frames, sent and received.
    cut: Vec<usize>,
    on_refusal: OnRefusal,
}

fn bucket(rate: u32, burst: u32) -> Limit {
    Limit::token_bucket(Rate::per_second(rate).expect("a rate"), burst).expect("a bucket")
}

fn strict() -> MeshOptions {
    MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() }
}

impl Mesh {
    fn new(count: usize, options: &MeshOptions) -> Self {
        let now = Timestamp::from_millis(1_700_006_400_000);
        let nodes = crate::testing::mesh_nodes(count, options, now);
        let (mail, decided, cut) = (Vec::new(), BTreeMap::new(), Vec::new());
        let (looked, reset, given_up) = (BTreeMap::new(), Vec::new(), Vec::new());
        let on_refusal = OnRefusal::CountNone;
        Self { nodes, mail, decided, looked, reset, given_up, now, cut, on_refusal }
    }

    fn index(&self, name: &NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.member().id == *name)
    }

    /// Takes the frames that nodes have to send.
    fn collect(&mut self) {
        let mut sent = Vec::new();
        for (from, node) in self.nodes.iter_mut().enumerate() {
            for output in node.outputs() {
                match output {
                    Output::Send { to, frame, .. } => sent.push((from, to, frame)),
                    Output::Decided(ticket, verdicts) => {
                        self.decided.insert((from, ticket), verdicts);
                    }
                    Output::Looked(ticket, inspection) => {
                        self.looked.insert((from, ticket), inspection);
                    }
                    Output::Reset(ticket) => self.reset.push((from, ticket)),
                    Output::GivenUp(ticket) => self.given_up.push((from, ticket)),
                }
            }
        }
        for (from, to, frame) in sent {
            let Some(to) = self.index(&to) else { continue };
            if !self.cut.contains(&from) && !self.cut.contains(&to) {
                self.mail.push(TransitFrame { from, to, frame });
            }
        }
    }

    fn deliver_one(&mut self, letter: &TransitFrame) {
        let from = self.nodes[letter.from].member().id.clone();
        self.nodes[letter.to].on_frame(self.now, &from, &letter.frame);
        self.collect();
    }

    /// Delivers all frames, and the frames that result.
    fn deliver(&mut self) {
        self.collect();
        while !self.mail.is_empty() {
            let letter = self.mail.remove(0);
            self.deliver_one(&letter);
        }
    }

    /// Lets time pass in steps of ten milliseconds, with all frames delivered.
    fn pass(&mut self, millis: u64) {
        for _ in 0..millis.div_ceil(10) {
            self.tick(10);
            self.deliver();
        }
    }

    /// Time passes; frames are not delivered.
    fn tick(&mut self, millis: u64) {
        self.now = self.now.saturating_add(std::time::Duration::from_millis(millis));
        self.nodes.iter_mut().for_each(|node| node.on_tick(self.now));
        self.collect();
    }

    /// A request, without any delivery yet.
    fn ask(&mut self, node: usize, batch: &[Charge<'_>]) -> Result<Verdicts, Ticket> {
        let context = Context { on_refusal: self.on_refusal, ..Context::at(self.now) };
        let decided = self.nodes[node].decide(batch, context);
        self.collect();
        match decided {
            NodeDecision::Now(verdicts) => Ok(verdicts),
            NodeDecision::Later(ticket) => Err(ticket),
        }
    }

    /// Whether a request passes, with all frames delivered and all the time it needs.
    fn passes(&mut self, node: usize, batch: &[Charge<'_>]) -> bool {
        match self.ask(node, batch) {
            Ok(verdicts) => {
                self.deliver();
                verdicts.committed
            }
            Err(ticket) => {
                self.deliver();
                for _ in 0..4 {
                    if !self.decided.contains_key(&(node, ticket)) {
                        self.pass(10);
                    }
                }
                self.decided.remove(&(node, ticket)).expect("an answer").committed
            }
        }
    }

    /// Whether a request passes immediately, with no frame delivered.
    fn passes_now(&mut self, node: usize, batch: &[Charge<'_>]) -> bool {
        self.ask(node, batch).is_ok_and(|verdicts| verdicts.committed)
    }

    /// The inspection of a counter at a node, with all frames delivered.
    fn look(&mut self, node: usize, (key, limit): (Key, &Limit)) -> Inspection {
        match self.begin_to_look(node, (key, limit)) {
            Some(NodeDecision::Now(inspection)) => inspection,
            Some(NodeDecision::Later(ticket)) => {
                self.deliver();
                self.looked.remove(&(node, ticket)).expect("an answer")
            }
            None => panic!("no owner can be asked"),
        }
    }

    /// The same, with nothing delivered yet.
    fn begin_to_look(
        &mut self,
        node: usize,
        (key, limit): (Key, &Limit),
    ) -> Option<NodeDecision<Inspection>> {
        let look = Charge { op: Op::Peek, cost: Cost::ZERO, ..charge(key, limit) };
        let looked = self.nodes[node].look(&look, Context::at(self.now));
        self.collect();
        looked
    }

    /// How many of `times` requests pass.
    fn passed(&mut self, node: usize, times: usize, batch: &[Charge<'_>]) -> usize {
        (0..times).filter(|_| self.passes(node, batch)).count()
    }

    /// A key that this node owns.
    fn key(&self, owner: usize, number: u64) -> Key {
        let view = self.nodes[0].view().expect("they are in a view");
        (0..1_000)
            .map(|n| Key::from_bits(number, (number * 1_000 + n).wrapping_mul(SECRET)))
            .find(|key| view.owner(*key) == Some(self.nodes[owner].member()))
            .expect("one of them")
    }

    /// Sends forged messages from one node to another.
    fn forge(&mut self, (from, to): (usize, usize), generation: Option<Generation>, items: &[Item]) {
        let generation = generation.unwrap_or(self.nodes[from].member().generation);
        let frame = self.forged((&self.nodes[from].member().id, to), generation, items);
        self.deliver_one(&TransitFrame { from, to, frame });
    }

    /// A forged frame of any sender.
    fn forged(&self, (from, to): (&NodeId, usize), generation: Generation, items: &[Item]) -> Vec<u8> {
        let link = self.nodes[to].links.get(from);
        let header = Header {
            generation,
            time: self.now,
            head: self.nodes[to].view().map(super::View::id),
            leaving: false,
            interner: link.map_or(0, |link| link.receive_interner.number()),
            known: 0,
            known_of: 0,
            to: self.nodes[to].member().generation,
            echo: None,
            slew_us: 0,
            rules: self.nodes[to].membership.rules.here(),
        };
        // Frames of one liar to several nodes share no entries.
        let mut send_interner = SendInterner::full();
        let mut encoder = Encoder::new(&header, &mut send_interner);
        for item in items {
            encoder.push(item);
        }
        encoder.finish()
    }

    fn window_ref(&self, key: Key, limit: &Limit) -> WindowRef {
        let view = self.nodes[0].view().expect("they are in a view").id();
        WindowRef {
            counter: CounterRef { key, limit: *limit },
            view,
            tag: crate::window::tag_at(limit, self.now),
        }
    }
}

fn charge(key: Key, limit: &Limit) -> Charge<'_> {
    Charge::spend(key, Parts { domain: "", entries: &[] }, limit)
}

fn sharing(charge: Charge<'_>, on_unreachable: OnUnreachable) -> Charge<'_> {
    Charge { sharing: Sharing { on_unreachable: Some(on_unreachable), ..Sharing::default() }, ..charge }
}
