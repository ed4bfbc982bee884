//! Eviction changes no verdict: a store that is swept, or too small, never admits more
//! than the pure algorithms, and never exceeds its capacity.
#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Op, Parts, StoreOptions};
use hivemind_core::testing::{Amount, Gap, Model, TraceCall, buckets, cases, costs, gaps, limits, traces};
use hivemind_core::{Cost, Limit, Period, Rate, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const NO_PARTS: Parts<'static> = Parts { domain: "", entries: &[] };
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn spend(key: Key, limit: &Limit, cost: Cost) -> Charge<'_> {
    Charge { cost, ..Charge::spend(key, NO_PARTS, limit) }
}

fn small(max_keys: usize) -> MemoryStore {
    MemoryStore::new(StoreOptions { max_keys, idle_ttl: Duration::ZERO })
}

/// Keys that collide in the shared overflow buckets as often as possible.
fn colliding(index: u64) -> Key {
    Key::from_bits(index << 60, index << 16)
}

fn never_back(gap: Gap) -> Gap {
    match gap {
        Gap::Back(nanos) => Gap::Nanos(nanos),
        gap => gap,
    }
}

proptest! {
    #![proptest_config(cases(1_500))]

    // Fails when a bucket is blank one nanosecond early; a sliding window is blank at its own
    // window's end; a sweep removes every key.
    #[test]
    fn sweep_never_changes_a_verdict(mut trace in traces(), sweeps in vec(any::<bool>(), 60)) {
        for event in &mut trace.events {
            if let hivemind_core::testing::TraceEvent::Batch(gap, _) = event {
                *gap = never_back(*gap);
            }
        }
        let (store, mut model) = (small(1_000), Model::default());
        let mut sweeps = sweeps.into_iter();
        trace.play("swept", |call| match call {
            TraceCall::Decide(batch, context) => {
                if sweeps.next() == Some(true) {
                    store.sweep(context.now);
                }
                let expected = model.decide(batch, context);
                assert_eq!(store.decide_now(batch, context), expected);
                Some(expected)
            }
            TraceCall::Forget(charge) => {
                model.forget(charge.key);
                store.forget_now(charge.key);
                None
            }
        });
    }

    // A clock that steps back by less than `idle_ttl` finds all counters.
    // Fails when a bucket is blank one nanosecond early; a sliding window is blank at its own
    // window's end; a sweep removes every key.
    #[test]
    fn sweep_survives_clock_stepping_back(trace in traces(), sweeps in vec(any::<bool>(), 60)) {
        let options = StoreOptions { max_keys: 1_000, idle_ttl: Duration::from_secs(60 * 200) };
        let (store, mut model) = (MemoryStore::new(options), Model::default());
        let mut sweeps = sweeps.into_iter();
        trace.play("stepping", |call| match call {
            TraceCall::Decide(batch, context) => {
                if sweeps.next() == Some(true) {
                    store.sweep(context.now);
                }
                let expected = model.decide(batch, context);
                assert_eq!(store.decide_now(batch, context), expected);
                Some(expected)
            }
            TraceCall::Forget(charge) => {
                model.forget(charge.key);
                store.forget_now(charge.key);
                None
            }
        });
    }

    // The oracle has one counter per key and records what the store admits: the store must
    // not admit anything that this counter would refuse.
    // Fails when a bucket is blank one nanosecond early; a sliding window is blank at its own
    // window's end; a full store evicts any key, blank or not.
    #[test]
    fn full_store_never_admits_more_than_the_limits(
        limits in vec(limits(), 2), max_keys in 1..4_usize,
        requests in vec((gaps(), vec((0..6_u64, 0..2_usize, costs(), kinds()), 1..4)), 1..60),
    ) {
        let store = small(max_keys);
        let mut oracle: BTreeMap<(Key, usize), State> = BTreeMap::new();
        let mut now = START;
        for (gap, charges) in requests {
            now = gap.after(now, None, &limits[0]);
            let batch: Vec<_> = charges
                .iter()
                .map(|&(key, limit, amount, op)| Charge {
                    op,
                    ..spend(colliding(key * 2 + limit as u64), &limits[limit], amount.under(&limits[limit]))
                })
                .collect();
            let verdicts = store.decide_now(&batch, Context::at(now));
            prop_assert!(store.occupancy().keys <= max_keys);
            for (charge, &(_, limit, ..)) in batch.iter().zip(&charges) {
                let counter = (charge.key, limit);
                let action = match charge.op {
                    Op::Spend if verdicts.committed => Action::Spend { count_refusal: false },
                    Op::Refund => Action::Refund,
                    Op::Debit => Action::Debit,
                    _ => continue,
                };
                let step = step(charge.limit, oracle.get(&counter).copied(), action, charge.cost, now);
                prop_assert!(step.verdict.is_admitted() || charge.op == Op::Debit, "too much for {:?} at {:?}", charge, now);
                oracle.insert(counter, step.state);
            }
        }
    }
}

fn kinds() -> impl Strategy<Value = Op> {
    prop_oneof![6 => Just(Op::Spend), 1 => Just(Op::Refund), 1 => Just(Op::Debit)]
}

proptest! {
    #![proptest_config(cases(300))]

    // Fails when a full store evicts any key, blank or not; the cap admits one key too many.
    #[test]
    fn limited_client_stays_limited_when_many_others_arrive(limit in buckets(), strangers in 1..500_u64, max_keys in 1..300_usize) {
        prop_assume!(limit.longest_memory() > Duration::from_secs(1));
        let store = small(max_keys);
        let client = Key::from_bits(7, u64::MAX);
        let drained = store.decide_now(&[spend(client, &limit, Amount::Capacity(0).under(&limit))], Context::at(START));
        prop_assert!(drained.committed);
        for stranger in 0..strangers {
            let key = Key::from_bits(stranger.wrapping_mul(0x9e37_79b9_7f4a_7c15), stranger);
            store.decide_now(&[spend(key, &limit, Cost::ONE)], Context::at(START));
            prop_assert!(store.occupancy().keys <= max_keys);
        }
        prop_assert!(!store.decide_now(&[spend(client, &limit, Cost::ONE)], Context::at(START)).committed);
    }
}

/// A scan of `addresses` addresses over 100 s, each limited to 1 in 10 s and sending two
/// requests; one client, at its limit before the scan, sends requests all the time.
fn scan(addresses: u64, max_keys: usize) {
    let limit = Limit::token_bucket(Rate::new(1, Period::SECOND.times(10).unwrap()).unwrap(), 10).unwrap();
    let store = small(max_keys);
    let client = Key::from_bits(u64::MAX / 3, u64::MAX);
    let step_nanos = 100_000_000_000 / addresses;
    let mut admitted = 0;
    for address in 0..addresses {
        let now = START.saturating_add(Duration::from_nanos(address * step_nanos));
        let mixed = (address + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key = Key::from_bits(mixed, mixed.rotate_left(32));
        for _ in 0..2 {
            store.decide_now(&[spend(key, &limit, Cost::ONE)], Context::at(now));
        }
        admitted +=
            u32::from(store.decide_now(&[spend(client, &limit, Cost::ONE)], Context::at(now)).committed);
        assert!(store.occupancy().keys <= max_keys, "at {address}");
        if address % (addresses / 10) == 0 {
            store.sweep(now);
        }
    }
    assert_eq!(admitted, 10 + 9, "a burst of 10, and one per 10 s");
    assert!(store.occupancy().overflowed > 0, "the scan must exceed the capacity");
}

// Fails when a sweep removes every key; a full store evicts any key, blank or not; the cap admits one key too many.
#[test]
fn scan_keeps_store_capped_and_limited_client_limited() {
    scan(60_000, 5_000);
}

#[test]
fn scan_of_a_million_addresses_keeps_client_limited() {
    if std::env::var_os("HIVEMIND_LONG").is_some_and(|value| value == "1") {
        scan(1_000_000, 100_000);
    }
}

// Fails when a sweep removes every key; a sweep does not wait for `idle_ttl`; a sweep does not reduce the key count.
#[test]
fn sweep_releases_idle_keys() {
    let limit = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    let store = MemoryStore::new(StoreOptions { max_keys: 100, idle_ttl: Duration::from_secs(300) });
    for key in 0..10 {
        store.decide_now(&[spend(Key::from_bits(key << 59, key), &limit, Cost::ONE)], Context::at(START));
    }
    // Full after 1 s, and kept for 300 s more.
    for (after_ms, kept) in [(0, 10), (1_000, 10), (300_999, 10), (301_000, 0)] {
        store.sweep(START.saturating_add(Duration::from_millis(after_ms)));
        assert_eq!(store.occupancy().keys, kept, "after {after_ms} ms");
    }
    assert_eq!(store.occupancy().evicted, 10);
}

#[test]
fn key_without_room_is_reported_as_crowded() {
    let (store, limit, context) = (small(1), Limit::fixed_window(5, Period::HOUR), Context::at(START));
    let [first, second, third] = [0, 1, 2].map(colliding);
    let crowded = |key| store.is_crowded(key, &limit, START);
    assert!(![first, second, third].into_iter().any(crowded), "the table is empty");
    for key in [first, second] {
        store.decide_now(&[spend(key, &limit, Cost::ONE)], context);
    }
    assert_eq!([first, second, third].map(crowded), [false, true, true]);
    // Forgetting or refunding it has no effect, because other keys share it.
    store.forget_now(second);
    let refund = Charge { op: Op::Refund, ..spend(second, &limit, Cost::ONE) };
    store.decide_now(&[refund], context);
    let peek = Charge { op: Op::Peek, ..spend(second, &limit, Cost::ZERO) };
    assert_eq!(store.decide_now(&[peek], context).each()[0].remaining, 4);
    assert!(crowded(second));
    // It ends with the window, and does not affect other kinds of limits.
    assert!(!store.is_crowded(second, &limit, START.saturating_add(Duration::from_secs(3_600))));
    assert!(!store.is_crowded(second, &Limit::fixed_window(5, Period::DAY), START));
}
