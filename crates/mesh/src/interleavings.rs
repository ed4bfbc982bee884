//! Every interleaving of a fast-path decision with the node's actions, as found by loom: nothing is admitted
//! twice, no spending is lost, and no thread waits forever.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p hivemind-rl-mesh --lib interleavings --target-dir target-loom
//! ```

use crate::{Carrier, Lane, MeshOptions, MeshStore, Node, NodeId};
use hivemind_core::store::{Charge, Context, Key, Parts, Store};
use hivemind_core::{Limit, Period, Timestamp};
use loom::sync::Arc;
use loom::thread;

/// One key in each of the two shards that exist under loom.
const LOW: Key = Key::from_bits(1, 1);
const HIGH: Key = Key::from_bits(2, 1 << 32 | 2);

struct NoCarrier;

impl Carrier for NoCarrier {
    fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_699_920_000_000 + millis)
}

/// A single node that has spent all but one of the first key's limit and has the rest in its fast-path entry.
fn store(limit: &Limit) -> Arc<MeshStore<NoCarrier>> {
    let mut node = Node::new(NodeId::new("alone"), 1, MeshOptions::default(), at(0));
    node.found(at(0));
    let store = MeshStore::new(node, NoCarrier);
    for _ in 1..limit.requests() {
        assert!(spend(&store, &[LOW], limit, 0));
    }
    Arc::new(store)
}

fn spend(store: &MeshStore<NoCarrier>, keys: &[Key], limit: &Limit, millis: u64) -> bool {
    let parts = Parts { domain: "", entries: &[] };
    let charges = keys.iter().map(|key| Charge::spend(*key, parts, limit));
    let charges: Vec<_> = charges.collect();
    store.try_decide(&charges, Context::at(at(millis))).is_some_and(|verdicts| verdicts.committed)
}

// Fails when a counter is opened without the spending of its entry, an entry is rebuilt while a batch is tried,
// an entry stays valid after it was flushed, or a fast-path decision releases its lock between reading and
// writing.
#[test]
fn batch_and_fast_path_never_spend_the_same_hit() {
    for limit in [Limit::fixed_window(3, Period::DAY), Limit::sliding_window(3, Period::DAY)] {
        loom::model(move || {
            let store = store(&limit);
            let held = {
                let store = Arc::clone(&store);
                thread::spawn(move || spend(&store, &[LOW], &limit, 1))
            };
            let batch = spend(&store, &[LOW, HIGH], &limit, 1);
            assert!(held.join().unwrap() != batch, "one of them takes the last");
            assert!(!spend(&store, &[LOW], &limit, 2));
        });
    }
}

// Fails when a counter is opened without the spending of its entry. A sweep that does not flush entries was
// tried too and did not fail: the next opening flushes them.
#[test]
fn spending_during_a_sweep_is_not_lost() {
    let limit = Limit::fixed_window(3, Period::DAY);
    loom::model(move || {
        let store = store(&limit);
        let held = {
            let store = Arc::clone(&store);
            thread::spawn(move || spend(&store, &[LOW], &limit, 2_000))
        };
        store.on_tick(at(2_000));
        assert!(held.join().unwrap());
        assert!(!spend(&store, &[LOW], &limit, 2_000));
    });
}
