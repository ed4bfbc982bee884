//! What the mesh costs: a decision that holds its rights beside the memory store's, the merging of
//! updates, and the memory of shared keys.
//!
//!     cargo run --release --bin mesh

use hivemind_benches::rounds::{Contender, TURN, hot, interleave};
use hivemind_benches::watch::nanos_each;
use hivemind_benches::{contenders, resident};
use hivemind_core::store::{
    Charge, Context, Key, LocalStore, MemoryStore, Parts, Store, StoreOptions, Verdicts,
};
use hivemind_core::{Clock, Limit, Period, SystemClock, Timestamp};
use hivemind_mesh::testing::mesh_nodes;
use hivemind_mesh::{Carrier, Lane, MeshOptions, MeshStore, Node, NodeDecision, NodeId, Output};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct Nobody;

impl Carrier for Nobody {
    fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
}

fn key(index: u64) -> Key {
    Key::from_bits(index, index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn charge(index: u64, limit: &Limit) -> Charge<'_> {
    let parts = Parts { domain: "", entries: &[] };
    Charge::spend(key(index), parts, limit)
}

/// What the memory store says to be left.
fn alone(memory: &MemoryStore, index: u64, limit: &Limit) -> Option<u64> {
    left(&memory.decide_now(&[charge(index, limit)], Context::at(SystemClock.now())))
}

/// What a node of the mesh says to be left, that decides with what it holds.
fn held(store: &MeshStore<Nobody>, index: u64, limit: &Limit) -> Option<u64> {
    left(&store.try_decide(&[charge(index, limit)], Context::at(SystemClock.now()))?)
}

fn left(verdicts: &Verdicts) -> Option<u64> {
    verdicts.each().first().filter(|_| verdicts.committed).map(|verdict| verdict.remaining)
}

fn main() {
    decisions();
    own_counters();
    merging();
    memory();
}

/// A member that holds rights, an owner, and the memory store, in turns.
fn decisions() {
    let limit = Limit::fixed_window(u32::MAX, Period::DAY);
    let now = SystemClock.now();
    let options = MeshOptions::default();
    let stores: Vec<_> =
        mesh_nodes(3, &options, now).into_iter().map(|node| MeshStore::new(node, Nobody)).collect();
    let memory = MemoryStore::new(StoreOptions::default());
    let one = |store: &MeshStore<Nobody>, index: u64| held(store, index, &limit);
    let taken = interleave(
        31,
        vec![
            hot("memory store", || alone(&memory, 1, &limit).is_some()),
            hot("mesh, first node", || one(&stores[0], 1).is_some()),
            hot("mesh, second node", || one(&stores[1], 1).is_some()),
            hot("mesh, third node", || one(&stores[2], 1).is_some()),
            many("memory store, 100,000 keys", |index| alone(&memory, index, &limit)),
            many("mesh, 100,000 keys", |index| one(&stores[0], index)),
        ],
    );
    println!("| ns of CPU a decision, median of 31 rounds (least) | | ratio |\n|---|---|---|");
    for (index, one) in taken.iter().enumerate() {
        let base = if index < 4 { &taken[0] } else { &taken[4] };
        println!("| {} | {:.0} ({:.0}) | {:.2} |", one.name, one.median, one.least, one.median / base.median);
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..1_000 {
        one(&stores[0], 1);
    }
    println!("| allocations in 1,000 decisions on a known key | {} | |", region.change().allocations);
}

/// An owner's own counters whose room changes with time, beside the memory store's.
fn own_counters() {
    let sliding = Limit::sliding_window(u32::MAX, Period::DAY);
    let bucket = contenders::bucket(1_000, Period::SECOND, contenders::PLENTY);
    let nodes = mesh_nodes(3, &MeshOptions::default(), SystemClock.now());
    let store = nodes.into_iter().next().map(|node| MeshStore::new(node, Nobody)).expect("three nodes");
    let memory = MemoryStore::new(StoreOptions::default());
    // Nobody is lent anything of these before it asks, so who can decide at once is the owner.
    let first = (0..).find(|index| held(&store, *index, &sliding).is_some()).unwrap_or(0);
    let second = (first + 1..).find(|index| held(&store, *index, &bucket).is_some()).unwrap_or(0);
    let taken = interleave(
        31,
        vec![
            hot("memory store, sliding window", || alone(&memory, first, &sliding).is_some()),
            hot("mesh, own sliding window", || held(&store, first, &sliding).is_some()),
            hot("memory store, bucket", || alone(&memory, second, &bucket).is_some()),
            hot("mesh, own bucket", || held(&store, second, &bucket).is_some()),
        ],
    );
    for (index, one) in taken.iter().enumerate() {
        let ratio = one.median / taken[index / 2 * 2].median;
        println!("| {} | {:.0} ({:.0}) | {ratio:.2} |", one.name, one.median, one.least);
    }
}

/// Which key comes next hangs on the last verdict. Else the processor would fetch it while it still decides on the
/// one before, as far as that takes few instructions; a server does other things between two decisions.
fn many<'a>(name: &str, decide: impl Fn(u64) -> Option<u64> + 'a) -> Contender<'a> {
    let decide = move |round: usize| {
        nanos_each(TURN, || {
            let mut last = 0;
            for step in 0..TURN as u64 {
                let index = (step * 7_919 + round as u64 + (last & 1)) % 100_000;
                last = decide(index).expect("there is plenty, and it is held");
            }
            std::hint::black_box(last);
        })
    };
    Contender::new(name, decide)
}

fn frames(node: &mut Node) -> Vec<(NodeId, Vec<u8>)> {
    let sends = node.outputs().filter_map(|output| match output {
        Output::Send { to, frame, .. } => Some((to, frame)),
        _ => None,
    });
    sends.collect()
}

/// Two nodes: one decides on many keys, the other merges what it hears.
fn merging() {
    let limit = Limit::fixed_window(1_000_000, Period::DAY);
    let start = SystemClock.now();
    let mut nodes = mesh_nodes(2, &MeshOptions::default(), start);
    let (mut updates, mut nanos, mut bytes) = (0_u64, 0.0, 0_u64);
    for round in 0..12_u64 {
        let now = Timestamp::from_nanos(start.as_nanos() + round * 60_000_000);
        let (first, second) = nodes.split_at_mut(1);
        let (first, second) = (&mut first[0], &mut second[0]);
        for index in 0..20_000 {
            if let NodeDecision::Later(_) = first.decide(&[charge(index, &limit)], Context::at(now)) {
                unreachable!("a millionth of it is held");
            }
        }
        first.on_tick(now);
        let (name, mail) = (first.member().id.clone(), frames(first));
        let spent = nanos_each(1, || {
            for (_, frame) in &mail {
                second.on_frame(now, &name, frame);
            }
        });
        if round >= 2 {
            // About half of the keys are the second node's: those are the updates it hears of.
            (nanos, bytes) =
                (nanos + spent, bytes + mail.iter().map(|(_, frame)| frame.len() as u64).sum::<u64>());
            updates += 10_000;
        }
        second.on_tick(now);
        let (name, mail) = (second.member().id.clone(), frames(second));
        mail.iter().for_each(|(_, frame)| first.on_frame(now, &name, frame));
    }
    let each = nanos / updates as f64;
    println!(
        "\nmerging: {each:.0} ns and {:.1} bytes an update; 100,000 updates/s are {:.1} % of a core",
        bytes as f64 / updates as f64,
        each / 100.0
    );
}

/// A node of ten, with 100,000 shared keys: as one window runs, and as the next has begun and the last is still kept.
fn memory() {
    let limit = Limit::fixed_window(100, Period::HOUR);
    let hour = Period::HOUR.nanos();
    // The middle of an hour, so that the first window is one.
    let start = Timestamp::from_nanos(SystemClock.now().as_nanos() / hour * hour + hour / 2);
    let mut nodes = mesh_nodes(10, &MeshOptions::default(), start);
    let (region, resident_before) = (Region::new(ALLOCATOR), resident::bytes());
    for (name, begins) in [("one window", start.as_nanos()), ("two windows", start.as_nanos() + hour)] {
        for index in 0..100_000 {
            for node in &mut nodes {
                node.decide(&[charge(index, &limit)], Context::at(Timestamp::from_nanos(begins)));
            }
            if index % 20_000 == 19_999 {
                exchange(&mut nodes, Timestamp::from_nanos(begins + index * 5_000));
            }
        }
        exchange(&mut nodes, Timestamp::from_nanos(begins + 1_000_000_000));
        let change = region.change();
        let held = change.bytes_allocated as i64 - change.bytes_deallocated as i64;
        let resident = resident::bytes().saturating_sub(resident_before);
        println!(
            "memory, {name}: {:.1} MB a node with 100,000 keys on 10 nodes, {:.1} MB resident",
            held as f64 / 10.0 / 1e6,
            resident as f64 / 10.0 / 1e6
        );
    }
}

fn exchange(nodes: &mut [Node], now: Timestamp) {
    for _ in 0..3 {
        let mut mail = Vec::new();
        for node in nodes.iter_mut() {
            node.on_tick(now);
            let name = node.member().id.clone();
            mail.extend(frames(node).into_iter().map(|(to, frame)| (name.clone(), to, frame)));
        }
        for (from, to, frame) in mail {
            if let Some(node) = nodes.iter_mut().find(|node| node.member().id == to) {
                node.on_frame(now, &from, &frame);
            }
        }
    }
}
