//! Every interleaving of a held decision with what the node does, as loom finds them: nothing is
//! admitted twice, nothing that was spent is lost, and nobody waits for ever.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p hivemind-rl-mesh --lib interleavings --target-dir target-loom
//! ```

use crate::{Carrier, Lane, MeshOptions, MeshStore, Node, NodeId};
use hivemind_core::store::{Charge, Context, Key, Parts, Store};
use hivemind_core::{Limit, Period, Timestamp};
use loom::sync::Arc;
use loom::thread;

/// One key in each of the two parts that there are under loom.
const LOW: Key = Key::from_bits(1, 1);
const HIGH: Key = Key::from_bits(2, 1 << 32 | 2);

struct Nobody;

impl Carrier for Nobody {
    fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_699_920_000_000 + millis)
}

/// A node alone, which has spent all but one of the first key's limit and has the rest on its slip.
fn store(limit: &Limit) -> Arc<MeshStore<Nobody>> {
    let mut node = Node::new(NodeId::new("alone"), 1, MeshOptions::default(), at(0));
    node.found(at(0));
    let store = MeshStore::new(node, Nobody);
    for _ in 1..limit.requests() {
        assert!(spend(&store, &[LOW], limit, 0));
    }
    Arc::new(store)
}

fn spend(store: &MeshStore<Nobody>, keys: &[Key], limit: &Limit, millis: u64) -> bool {
    let parts = Parts { domain: "", entries: &[] };
    let charges = keys.iter().map(|key| Charge::spend(*key, parts, limit));
    let charges: Vec<_> = charges.collect();
    store.try_decide(&charges, Context::at(at(millis))).is_some_and(|verdicts| verdicts.committed)
}

// Seen failing on: a book that is opened without what was spent on its slip; a slip that is made anew while a batch is
// tried; a slip that stays good after it was written up; a held decision that lets go of its lock between reading and
// writing.
#[test]
fn a_batch_and_a_held_decision_never_take_one_right_both() {
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

// Seen failing on: a book that is opened without what was spent on its slip. A sweep that does not write slips up was tried
// too, and nothing failed: whoever opens the book next does.
#[test]
fn what_is_spent_while_the_node_sweeps_is_not_lost() {
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
