//! A peer that has a certificate and means harm: bytes of all kinds, frames that were changed on
//! their way, an owner that grants what there is not, a member that returns what it never had.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a helper of a test may fail it")]

mod common {
    pub(crate) mod request;
}

use common::request::decide;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::{Decided, MeshOptions, Node, NodeId, Output, Ticket};
use hivemind_mesh_sim::{Forger, Random, hostile_frames, seated};

const MOST_KEYS: usize = 50;

fn start() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

fn nodes() -> Vec<Node> {
    seated(3, &MeshOptions { max_keys: MOST_KEYS, ..MeshOptions::default() }, start())
}

fn key_of(key: u64) -> Key {
    Key::from_bits(key, key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The decisions that were waited for and passed, and the frames that go out.
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

/// Frames of a real exchange, changed here and there, come from one of three members all the time. It saw neither an
/// owner's word taken for any number nor a return of more than was had: bytes that fit are rare. The next test is for that.
///
/// Seen failing on: a grant that is not debited.
#[test]
fn a_hostile_peer_neither_breaks_a_node_nor_makes_it_admit_more_than_the_limit() {
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
                Decided::Now(verdicts) => {
                    *admitted[index].entry(key).or_default() += u64::from(verdicts.committed);
                }
                Decided::Later(ticket) => drop(open.insert((index, ticket), key)),
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
            // n002 is the hostile one.
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
            let is_liars = owner == nodes[2].member().id;
            let all = if is_liars { of(0).max(of(1)) } else { of(0) + of(1) };
            assert!(all <= most, "seed {seed}, key {key}: {admitted:?} of {most}");
        }
        assert!(nodes[..2].iter().all(|node| node.standing(start()).keys <= MOST_KEYS));
    }
}

/// For how long the liar goes on.
const LASTS_MS: u64 = 2_700;

/// Three nodes, of which the last one forges what it says, number by number. Says what each node admitted of each key.
fn forged(seed: u64, limit: &Limit, all: bool) -> (Vec<Node>, Vec<std::collections::BTreeMap<u64, u64>>) {
    let mut random = Random::new(seed);
    let mut nodes = nodes();
    let mut admitted = vec![std::collections::BTreeMap::<u64, u64>::new(); 3];
    let mut open = std::collections::BTreeMap::new();
    let mut forgers = [Forger::default(), Forger::default()];
    let liar = nodes[2].member().id.clone();
    for step in 0..LASTS_MS / 3 {
        let now = Timestamp::from_nanos(start().as_nanos() + step * 3_000_000);
        let index = usize::try_from(random.below(3)).expect("small");
        let key = random.below(6);
        match decide(&mut nodes[index], key_of(key), limit, now) {
            Decided::Now(verdicts) => {
                *admitted[index].entry(key).or_default() += u64::from(verdicts.committed);
            }
            Decided::Later(ticket) => drop(open.insert((index, ticket), key)),
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
                            forgers[to].read(&frame);
                        }
                        nodes[to].on_frame(now, &name, &frame);
                    }
                }
            }
        }
        for (to, forger) in forgers.iter().enumerate() {
            if let Some(frame) = forger.forge(&mut random, all) {
                nodes[to].on_frame(now, &liar, &frame);
            }
        }
    }
    (nodes, admitted)
}

/// Whatever a member says of its totals, asks for or returns: of a counter that an honest node owns, the honest ones
/// together admit no more than the limit; of one that the liar owns, none of them admits more alone. Its refunds, by an
/// ask or as a total, are those of an honest member here: what others spent may be given back by whoever has a
/// certificate (decision 013), and then it may be admitted again.
///
/// Seen failing on: a return of more than the member ever had; sums of members' totals that overflow; a second page of a
/// bucket, for whatever window a frame says that it is in.
#[test]
fn a_member_that_lies_makes_no_rights_from_nothing_for_an_honest_nodes_ledger() {
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
        let (nodes, admitted) = forged(seed, &limit, false);
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

/// The same liar that also tells of views, refunds and forgets: nothing panics, and no node grows past its bounds.
///
/// Seen failing on: sums of members' totals that overflow.
#[test]
fn a_member_that_says_anything_at_all_makes_no_node_grow_past_its_bounds() {
    for seed in 0..60 {
        let limit = match seed % 3 {
            0 => Limit::sliding_window(40, Period::HOUR),
            1 => Limit::fixed_window(60, Period::SECOND),
            _ => Limit::token_bucket(Rate::per_second(30).expect("a rate"), 60).expect("a bucket"),
        };
        let (nodes, _) = forged(seed, &limit, true);
        for node in &nodes[..2] {
            assert!(node.standing(start()).keys <= MOST_KEYS, "seed {seed}");
            // All that it keeps, written out: dictionaries, motions, views, accounts, asks.
            let size = format!("{node:?}").len();
            assert!(size < 1_000_000, "seed {seed}: a node takes {size} characters to write out");
        }
    }
}

#[test]
fn noise_is_counted_and_nothing_else() {
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

/// What `fuzz/fuzz_targets/mesh_frame.rs` does with better bytes than these.
#[test]
fn bytes_as_frames_of_a_peer_do_no_harm() {
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        let length = random.below(120);
        // A version, flags and small numbers at first, so that some of it is read.
        let mut bytes = vec![u8::try_from(length / 2).expect("small"), 1, 2, 1, 1];
        bytes.extend((0..length).map(|_| {
            u8::try_from(random.below(if length.is_multiple_of(2) { 256 } else { 8 })).expect("a byte")
        }));
        hostile_frames(&bytes);
    }
}
