//! Allocations of a decision from held allowance: none. A separate test binary, because the counter covers the whole
//! process.

use hivemind_core::store::{Charge, Context, Key, Parts, Store};
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::testing::mesh_nodes;
use hivemind_mesh::{Carrier, Lane, MeshOptions, MeshStore, NodeId};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct NoCarrier;

impl Carrier for NoCarrier {
    fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
}

// Fails when taking the queued counters also takes the capacity of their list.
#[test]
fn decision_on_a_known_key_allocates_nothing() {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let bucket = Limit::token_bucket(Rate::per_second(1_000).unwrap(), 1_000_000).unwrap();
    let limits =
        [Limit::fixed_window(u32::MAX, Period::DAY), Limit::sliding_window(1_000_000, Period::DAY), bucket];
    // Of three nodes, the first owns some of these counters and holds allowance of others.
    for node in mesh_nodes(3, &MeshOptions::default(), now) {
        let store = MeshStore::new(node, NoCarrier);
        for (kind, limit) in (0_u64..).zip(limits) {
            let charges: Vec<_> = (1 + 1_000 * kind..500 + 1_000 * kind)
                .map(|index| {
                    Charge::spend(
                        Key::from_bits(kind, index.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                        Parts { domain: "", entries: &[] },
                        &limit,
                    )
                })
                .collect();
            let held = |charge: &&Charge<'_>| {
                let decided = store.try_decide(&[**charge], Context::at(now));
                decided.is_some_and(|verdicts| verdicts.committed)
            };
            let held: Vec<_> = charges.iter().filter(held).copied().collect();
            assert!(held.len() > 100, "{limit}: only {} are held", held.len());
            // The test harness may allocate on its thread meanwhile, but not each time.
            let least = (1..=5).map(|round| {
                // All updates are sent, so the next decisions have to queue the counters again.
                let later = now.saturating_add(Duration::from_millis(60 * round));
                store.on_tick(later);
                let passed = |charge: &Charge<'_>| {
                    let decided = store.try_decide(&[*charge], Context::at(later));
                    decided.is_some_and(|verdicts| verdicts.committed)
                };
                let region = Region::new(ALLOCATOR);
                let all = held.iter().all(passed) && held.iter().all(passed);
                let change = region.change();
                assert!(all, "{limit}: what was held is held");
                (change.allocations, change.reallocations)
            });
            assert_eq!(least.min(), Some((0, 0)), "{limit}");
        }
    }
}
