//! Repeated frames: late, in any order, and several times, they never count twice.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a helper of a test may fail it")]

mod common {
    pub(crate) mod request;
}

use common::request::decide;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::{MeshOptions, Node, NodeDecision, NodeId, OnUnreachable, Output};
use hivemind_mesh_sim::{Network, Random, World, mesh_nodes};
use std::time::Duration;

const KEY: Key = Key::from_bits(7, 11);

fn start() -> Timestamp {
    Timestamp::from_millis(1_700_006_400_000)
}

/// Nodes whose frames are delivered immediately, and recorded.
struct Exchange {
    nodes: Vec<Node>,
    /// All sent frames, as (from, to, frame).
    sent: Vec<(NodeId, usize, Vec<u8>)>,
    admitted: u64,
}

impl Exchange {
    fn new(count: usize) -> Self {
        let options = MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() };
        let nodes = mesh_nodes(count, &options, start());
        Self { nodes, sent: Vec::new(), admitted: 0 }
    }

    fn hit(&mut self, index: usize, limit: &Limit, now: Timestamp) {
        if let NodeDecision::Now(verdicts) = decide(&mut self.nodes[index], KEY, limit, now) {
            self.admitted += u64::from(verdicts.committed);
        }
        self.deliver(now);
    }

    fn tick(&mut self, now: Timestamp) {
        self.nodes.iter_mut().for_each(|node| node.on_tick(now));
        self.deliver(now);
    }

    fn deliver(&mut self, now: Timestamp) {
        loop {
            let mut frames = Vec::new();
            for node in &mut self.nodes {
                let from = node.member().id.clone();
                for output in node.outputs() {
                    match output {
                        Output::Send { to, frame, .. } => frames.push((from.clone(), to, frame)),
                        Output::Decided(_, verdicts) => self.admitted += u64::from(verdicts.committed),
                        Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
                    }
                }
            }
            if frames.is_empty() {
                return;
            }
            for (from, to, frame) in frames {
                let to = self.nodes.iter().position(|node| node.member().id == to).expect("one of them");
                self.nodes[to].on_frame(now, &from, &frame);
                self.sent.push((from, to, frame));
            }
        }
    }

    fn owner(&self) -> usize {
        let owner = self.nodes[0].view().expect("seated").owner(KEY).expect("an owner").clone();
        self.nodes.iter().position(|node| *node.member() == owner).expect("one of them")
    }
}

// All sent frames arrive again, repeatedly and in random order.
#[test]
fn repeated_frames_in_any_order_change_nothing() {
    let tag = start().as_nanos() / 60_000_000_000;
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let limit = Limit::fixed_window([9, 61][usize::try_from(seed % 2).expect("small")], Period::MINUTE);
        let mut exchange = Exchange::new(4);
        // Few asks, so each is remembered.
        let requests = 10 + random.below(60);
        for request in 0..requests {
            let now = start().saturating_add(Duration::from_millis(request * 40));
            let index = usize::try_from(random.below(4).min(random.below(4))).expect("small");
            exchange.hit(index, &limit, now);
            exchange.tick(now);
        }
        let now = start().saturating_add(Duration::from_millis(requests * 40));
        let held: Vec<u64> =
            exchange.nodes.iter().map(|node| node.spendable((KEY, &limit, tag), now)).collect();
        assert!(exchange.admitted + held.iter().sum::<u64>() <= u64::from(limit.requests()));
        for _ in 0..400 {
            let place = usize::try_from(random.below(exchange.sent.len() as u64)).expect("small");
            let (from, to, frame) = exchange.sent[place].clone();
            exchange.nodes[to].on_frame(now, &from, &frame);
        }
        let again: Vec<u64> =
            exchange.nodes.iter().map(|node| node.spendable((KEY, &limit, tag), now)).collect();
        // A repeated recall may return allowance to the owner, but must not create any.
        let (before, after) = (held.iter().sum::<u64>(), again.iter().sum::<u64>());
        assert!(after <= before, "seed {seed}, {limit}: {held:?} became {again:?}");
        exchange.tick(now.saturating_add(Duration::from_millis(200)));
        let (mut later, mut spent) = (0, exchange.admitted);
        for node in &exchange.nodes {
            later += node.spendable((KEY, &limit, tag), now.saturating_add(Duration::from_millis(200)));
        }
        spent += later;
        assert!(spent <= u64::from(limit.requests()), "seed {seed}, {limit}: {spent} in all");
        assert_eq!(later, before, "seed {seed}, {limit}: what went back has not arrived");
    }
}

// Fails when an ask is served each time it arrives.
#[test]
fn repeated_ask_is_served_once() {
    for grant_ahead in [false, true] {
        let network = Network { duplication: 1_000, ..Network::default() };
        let mut world = World::new(5, network, MeshOptions { grant_ahead, ..MeshOptions::default() }, 0);
        world.start_together(3);
        world.run_until(100_000);
        let counter = world.add_limit(KEY, Limit::fixed_window(20, Period::MINUTE));
        for request in 0..40 {
            world.hit(request % 3, counter, 1);
            world.run_until(world.elapsed_us() + 40_000);
        }
        let tally = world.tally(counter).expect("it was added");
        assert_eq!(tally.admitted, 20, "rights were lost or made, grant_ahead: {grant_ahead}");
    }
}

// A member that was silent for long has dropped its account of a bucket and received another. Late totals of the first
// account must not count for the second.
#[test]
fn totals_of_a_closed_account_are_ignored() {
    let limit = Limit::token_bucket(Rate::per_second(1).expect("a rate"), 60).expect("a bucket");
    let mut exchange = Exchange::new(3);
    let owner = exchange.owner();
    let member = (owner + 1) % 3;
    let at = |millis: u64| start().saturating_add(Duration::from_millis(millis));
    for request in 0..40 {
        exchange.hit(member, &limit, at(request * 10));
    }
    exchange.tick(at(500));
    let first = exchange.sent.clone();
    // Long enough for the account to be dropped, without requests.
    let late = 900_000;
    for millis in (1_000..=late).step_by(250) {
        exchange.tick(at(millis));
    }
    exchange.admitted = 0;
    exchange.hit(member, &limit, at(late));
    for (from, to, frame) in first.iter().filter(|(_, to, _)| *to == owner) {
        exchange.nodes[*to].on_frame(at(late), from, frame);
    }
    exchange.deliver(at(late));
    for request in 0..200 {
        exchange.hit([owner, member][request % 2], &limit, at(late));
    }
    exchange.tick(at(late + 60));
    assert!(exchange.admitted <= 60 + 1, "{} of a burst of 60", exchange.admitted);
    assert!(exchange.admitted >= 30, "only {} of a burst of 60", exchange.admitted);
}
