//! Instructions of a decision that a node of the mesh makes with what it holds, beside the memory
//! store's on the same limit. Run it by `benches/instructions.sh`.

#![expect(missing_docs, reason = "gungraun's macros write items without")]

use gungraun::{library_benchmark, library_benchmark_group, main};
use hivemind_benches::contenders::{PLENTY, bucket};
use hivemind_core::store::{
    Charge, Context, Key, LocalStore, MemoryStore, Parts, Store, StoreOptions, Verdicts,
};
use hivemind_core::{Limit, Period, Timestamp};
use hivemind_mesh::testing::seated;
use hivemind_mesh::{Carrier, Decided, Lane, MeshOptions, MeshStore, Node, NodeId, Output};
use std::hint::black_box;

/// Ten seconds after a midnight.
const NOW: Timestamp = Timestamp::from_millis(20_000 * 86_400_000 + 10_000);
/// What is spent before the decision that is counted, about.
const SPENT: u32 = 400;
const KEY: Key = Key::from_bits(7, 0x9e37_79b9_7f4a_7c15);

pub struct Nobody;

impl Carrier for Nobody {
    fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
}

fn charge(limit: &'static Limit) -> Charge<'static> {
    let parts = Parts { domain: "", entries: &[] };
    Charge::spend(KEY, parts, limit)
}

fn before() -> Timestamp {
    Timestamp::from_nanos(NOW.as_nanos() - 5_000_000)
}

/// Leaked, so that neither moving nor dropping it is counted.
type Ready<S> = (&'static S, &'static Charge<'static>);

fn leaked<S>(store: S, charge: Charge<'static>) -> Ready<S> {
    (Box::leak(Box::new(store)), Box::leak(Box::new(charge)))
}

fn memory(limit: Limit) -> Ready<MemoryStore> {
    let charge = charge(Box::leak(Box::new(limit)));
    let store = MemoryStore::new(StoreOptions::default());
    // As many as the node below has spent by then: a bucket that is full again earns nothing.
    for _ in 0..SPENT {
        store.decide_now(&[charge], Context::at(before()));
    }
    leaked(store, charge)
}

/// Of three nodes, the one that owns the counter.
fn owner(limit: Limit) -> Ready<MeshStore<Nobody>> {
    node_that(limit, true)
}

/// Another one, that holds rights to it.
fn member(limit: Limit) -> Ready<MeshStore<Nobody>> {
    node_that(limit, false)
}

fn node_that(limit: Limit, owns: bool) -> Ready<MeshStore<Nobody>> {
    let charge = charge(Box::leak(Box::new(limit)));
    let mut nodes = seated(3, &MeshOptions::default(), before());
    let is_owner = |node: &Node| node.view().and_then(|view| view.owner(KEY)) == Some(node.member());
    let chosen = nodes.iter().position(|node| is_owner(node) == owns).unwrap_or(0);
    // Who holds nothing asks, and the more was asked for lately the more it is lent: in the end enough for some more.
    let mut asked = false;
    for round in 0..SPENT {
        let has_waited = std::mem::replace(&mut asked, false);
        match nodes[chosen].decide(&[charge], Context::at(before())) {
            Decided::Now(_) if round > SPENT / 4 * 3 && has_waited => break,
            Decided::Now(_) => {}
            Decided::Later(_) => {
                asked = true;
                (0..4).for_each(|_| exchange(&mut nodes));
            }
        }
    }
    let store = MeshStore::new(nodes.swap_remove(chosen), Nobody);
    for _ in 0..3 {
        let decided = store.try_decide(&[charge], Context::at(before()));
        assert!(decided.is_some_and(|verdicts| verdicts.committed), "it holds rights");
    }
    leaked(store, charge)
}

fn exchange(nodes: &mut [Node]) {
    let mut mail = Vec::new();
    for node in nodes.iter_mut() {
        let from = node.member().id.clone();
        mail.extend(node.outputs().filter_map(|output| match output {
            Output::Send { to, frame, .. } => Some((from.clone(), to, frame)),
            _ => None,
        }));
    }
    for (from, to, frame) in mail {
        nodes
            .iter_mut()
            .filter(|node| node.member().id == to)
            .for_each(|node| node.on_frame(before(), &from, &frame));
    }
}

#[library_benchmark(setup = memory)]
#[bench::fixed(Limit::fixed_window(PLENTY, Period::DAY))]
#[bench::sliding(Limit::sliding_window(PLENTY, Period::DAY))]
#[bench::bucket(bucket(1_000, Period::SECOND, PLENTY))]
fn memory_store((store, charge): Ready<MemoryStore>) -> Verdicts {
    black_box(store).decide_now(std::slice::from_ref(black_box(charge)), Context::at(NOW))
}

#[library_benchmark(setup = member)]
#[bench::fixed(Limit::fixed_window(PLENTY, Period::DAY))]
#[bench::sliding(Limit::sliding_window(PLENTY, Period::DAY))]
#[bench::bucket(bucket(1_000, Period::SECOND, PLENTY))]
fn mesh_by_rights((store, charge): Ready<MeshStore<Nobody>>) -> Option<Verdicts> {
    black_box(store).try_decide(std::slice::from_ref(black_box(charge)), Context::at(NOW))
}

#[library_benchmark(setup = owner)]
#[bench::fixed(Limit::fixed_window(PLENTY, Period::DAY))]
#[bench::sliding(Limit::sliding_window(PLENTY, Period::DAY))]
#[bench::bucket(bucket(1_000, Period::SECOND, PLENTY))]
fn mesh_as_owner((store, charge): Ready<MeshStore<Nobody>>) -> Option<Verdicts> {
    black_box(store).try_decide(std::slice::from_ref(black_box(charge)), Context::at(NOW))
}

library_benchmark_group!(name = mesh, benchmarks = [memory_store, mesh_by_rights, mesh_as_owner]);
main!(library_benchmark_groups = mesh);
