//! Malicious peers with a valid certificate: arbitrary bytes, corrupted frames, false grants and false returns.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a helper of a test may fail it")]

mod common {
    pub(crate) mod request;
}

use common::request::decide;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::{MeshOptions, Node, NodeDecision, NodeId, Output, Ticket};
use hivemind_mesh_sim::{FrameMutator, Random, hostile_frames, mesh_nodes};

const MOST_KEYS: usize = 50;

fn start() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn nodes() -> Vec<Node> {
    mesh_nodes(3, &MeshOptions { max_keys: MOST_KEYS, ..MeshOptions::default() }, start())
}

fn key_of(key: u64) -> Key {
    Key::from_bits(key, key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Takes the admitted decisions that waited, and the outgoing frames.
fn drain(node: &mut Node) -> (Vec<Ticket>, Vec<(NodeId, Vec<u8>)>) {
    let (mut passed, mut frames) = (Vec::new(), Vec::new());
    for output in node.outputs() {
        match output {
            Output::Decided(ticket, verdicts) if verdicts.committed => passed.push(ticket),
            Output::Decided(..) | Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
            Output::Send { to, frame, .. } => frames.push((to, frame)),
        }
    }
    (passed, frames)
}

// One of three members sends randomly corrupted frames of a real exchange. Valid ones are rare, so the next test covers
// false numbers.
//
// Fails when a grant is not debited.
#[test]
fn corrupted_frames_cause_no_panic_and_no_over_admission() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut nodes = nodes();
        let limit = Limit::fixed_window([5, 60][usize::try_from(seed % 2).expect("small")], Period::HOUR);
        let mut admitted = vec![std::collections::BTreeMap::<u64, u64>::new(); 3];
        let mut open = std::collections::BTreeMap::new();
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for step in 0..1_500_u64 {
            let now = Timestamp::from_nanos(start().as_nanos() + step * 3_000_000);
            let index = usize::try_from(random.below(3)).expect("small");
            let key = random.below(4);
            match decide(&mut nodes[index], key_of(key), &limit, now) {
                NodeDecision::Now(verdicts) => {
                    *admitted[index].entry(key).or_default() += u64::from(verdicts.committed);
                }
                NodeDecision::Later(ticket) => drop(open.insert((index, ticket), key)),
            }
            for node in &mut nodes {
                node.on_tick(now);
            }
            for from in 0..3 {
                let (passed, frames) = drain(&mut nodes[from]);
                for ticket in passed {
                    let key = open.remove(&(from, ticket)).expect("it was asked for");
                    *admitted[from].entry(key).or_default() += 1;
                }
                for (to, frame) in frames {
                    seen.push(frame.clone());
                    let name = nodes[from].member().id.clone();
                    if let Some(peer) = nodes.iter_mut().find(|node| node.member().id == to) {
                        peer.on_frame(now, &name, &frame);
                    }
                }
            }
            // n002 is the hostile peer.
            if let Some(frame) = seen.get(usize::try_from(random.below(seen.len() as u64)).expect("small")) {
                let mut frame = frame.clone();
                for _ in 0..=random.below(4) {
                    let place = usize::try_from(random.below(frame.len() as u64)).expect("small");
                    frame[place] = u8::try_from(random.below(256)).expect("a byte");
                }
                let name = nodes[2].member().id.clone();
                nodes[index.min(1)].on_frame(now, &name, &frame);
            }
            if seen.len() > 400 {
                seen.drain(..200);
            }
        }
        let most = u64::from(limit.requests());
        for key in 0..4 {
            let of = |node: usize| admitted[node].get(&key).copied().unwrap_or(0);
            let owner = nodes[0].view().expect("seated").owner(key_of(key)).expect("an owner").id.clone();
            let is_malicious = owner == nodes[2].member().id;
            let all = if is_malicious { of(0).max(of(1)) } else { of(0) + of(1) };
            assert!(all <= most, "seed {seed}, key {key}: {admitted:?} of {most}");
        }
        assert!(nodes[..2].iter().all(|node| node.standing(start()).keys <= MOST_KEYS));
    }
}

/// How long the malicious member sends.
const LASTS_MS: u64 = 2_700;

/// Runs three nodes, of which the last sends mutated frames. Returns the admissions of each node by key.
fn run_with_mutated_frames(
    seed: u64,
    limit: &Limit,
    all: bool,
) -> (Vec<Node>, Vec<std::collections::BTreeMap<u64, u64>>) {
    let mut random = Random::new(seed);
    let mut nodes = nodes();
    let mut admitted = vec![std::collections::BTreeMap::<u64, u64>::new(); 3];
    let mut open = std::collections::BTreeMap::new();
    let mut mutators = [FrameMutator::default(), FrameMutator::default()];
    let malicious = nodes[2].member().id.clone();
    for step in 0..LASTS_MS / 3 {
        let now = Timestamp::from_nanos(start().as_nanos() + step * 3_000_000);
        let index = usize::try_from(random.below(3)).expect("small");
        let key = random.below(6);
        match decide(&mut nodes[index], key_of(key), limit, now) {
            NodeDecision::Now(verdicts) => {
                *admitted[index].entry(key).or_default() += u64::from(verdicts.committed);
            }
            NodeDecision::Later(ticket) => drop(open.insert((index, ticket), key)),
        }
        for from in 0..3 {
            nodes[from].on_tick(now);
            let name = nodes[from].member().id.clone();
            let outputs: Vec<Output> = nodes[from].outputs().collect();
            for output in outputs {
                match output {
                    Output::Decided(ticket, verdicts) => {
                        if let Some(key) = open.remove(&(from, ticket)) {
                            *admitted[from].entry(key).or_default() += u64::from(verdicts.committed);
                        }
                    }
                    Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
                    Output::Send { to, frame, .. } => {
                        let to = nodes.iter().position(|node| node.member().id == to).expect("one of three");
                        if from == 2 {
                            mutators[to].read(&frame);
                        }
                        nodes[to].on_frame(now, &name, &frame);
                    }
                }
            }
        }
        for (to, mutator) in mutators.iter().enumerate() {
            if let Some(frame) = mutator.mutate(&mut random, all) {
                nodes[to].on_frame(now, &malicious, &frame);
            }
        }
    }
    (nodes, admitted)
}

// Regardless of a member's false totals, asks and returns: honest nodes together admit no more than the limit of a
// counter that an honest node owns, and each of them no more than the limit of a counter that the malicious member owns.
// Refunds are valid here, because every member may refund spending of others (decision 013), which is admitted again.
//
// Fails when a member returns more than it ever had, when sums of totals overflow, or when a frame creates a second
// counter window of a bucket.
#[test]
fn false_totals_create_no_allowance_in_an_honest_ledger() {
    let bucket = |rate: u32, burst: u32| {
        Limit::token_bucket(Rate::per_second(rate).expect("a rate"), burst).expect("a bucket")
    };
    for seed in 0..180 {
        let limit = match seed % 6 {
            0 => Limit::fixed_window(5, Period::HOUR),
            1 => Limit::fixed_window(60, Period::HOUR),
            2 => Limit::fixed_window(200, Period::HOUR),
            3 => Limit::sliding_window(40, Period::HOUR),
            4 => bucket(2, 40),
            _ => bucket(2, 5),
        };
        let (nodes, admitted) = run_with_mutated_frames(seed, &limit, false);
        let earned = if matches!(limit, Limit::TokenBucket(_)) { LASTS_MS.div_ceil(500) } else { 0 };
        let most = u64::from(limit.burst()) + earned;
        let mut used = 0;
        for key in 0..6 {
            let of = |node: usize| admitted[node].get(&key).copied().unwrap_or(0);
            let owner = nodes[0].view().expect("seated").owner(key_of(key)).expect("an owner").id.clone();
            if owner == nodes[2].member().id {
                assert!(of(0).max(of(1)) <= most, "seed {seed}, key {key}: {admitted:?} of {most}");
            } else {
                assert!(of(0) + of(1) <= most, "seed {seed}, key {key}: {admitted:?} of {most}");
                used += of(0) + of(1);
            }
        }
        assert!(used > 0, "seed {seed}: nothing was admitted at all");
    }
}

// The malicious member also sends views, refunds and resets.
//
// Fails when sums of members' totals overflow.
#[test]
fn arbitrary_items_of_a_member_keep_nodes_bounded() {
    for seed in 0..60 {
        let limit = match seed % 3 {
            0 => Limit::sliding_window(40, Period::HOUR),
            1 => Limit::fixed_window(60, Period::SECOND),
            _ => Limit::token_bucket(Rate::per_second(30).expect("a rate"), 60).expect("a bucket"),
        };
        let (nodes, _) = run_with_mutated_frames(seed, &limit, true);
        for node in &nodes[..2] {
            assert!(node.standing(start()).keys <= MOST_KEYS, "seed {seed}");
            // Its whole state as text: interners, proposals, views, accounts and asks.
            let size = format!("{node:?}").len();
            assert!(size < 1_000_000, "seed {seed}: a node takes {size} characters to write out");
        }
    }
}

#[test]
fn noise_is_counted_and_changes_nothing() {
    let mut nodes = nodes();
    let mut random = Random::new(9);
    let from = nodes[2].member().id.clone();
    for _ in 0..20_000 {
        let length = random.below(200);
        let noise: Vec<u8> = (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect();
        nodes[0].on_frame(start(), &from, &noise);
    }
    let standing = nodes[0].standing(start());
    assert!(standing.unreadable > 19_000 && standing.keys == 0, "{standing:?}");
}

// `fuzz/fuzz_targets/mesh_frame.rs` does the same with better input.
#[test]
fn arbitrary_frames_of_a_peer_do_no_harm() {
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let length = random.below(120);
        // Version, flags and small numbers come first, so that some frames are decoded.
        let mut bytes = vec![u8::try_from(length / 2).expect("small"), 1, 2, 1, 1];
        bytes.extend((0..length).map(|_| {
            u8::try_from(random.below(if length.is_multiple_of(2) { 256 } else { 8 })).expect("a byte")
        }));
        hostile_frames(&bytes);
    }
}
