//! Concurrency of the memory store: many threads admit exactly the limit, on one key and on many.
#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Parts, StoreOptions};
use hivemind_core::testing::Amount;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: u64 = 8;
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn charge(key: u64, limit: &Limit) -> Charge<'_> {
    let key = Key::from_bits(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key);
    let parts = Parts { domain: "", entries: &[] };
    Charge { cost: Amount::Units(1).under(limit), ..Charge::spend(key, parts, limit) }
}

fn limits() -> [Limit; 3] {
    [
        Limit::token_bucket(Rate::per_second(1).unwrap(), 1_000).unwrap(),
        Limit::fixed_window(1_000, Period::HOUR),
        Limit::sliding_window(1_000, Period::HOUR),
    ]
}

/// Runs `work` on all threads at once, with the number of each thread.
fn together(work: impl Fn(u64) + Sync) {
    let barrier = Barrier::new(usize::try_from(THREADS).unwrap_or(1));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                barrier.wait();
                work(number);
            });
        }
    });
}

// Fails when a decision releases its lock between reading and writing.
#[test]
fn one_key_admits_exactly_its_limit() {
    for limit in limits() {
        let (store, admitted) = (MemoryStore::new(StoreOptions::default()), AtomicU64::new(0));
        together(|_| {
            for _ in 0..1_000 {
                let passed = store.decide_now(&[charge(1, &limit)], Context::at(START)).committed;
                admitted.fetch_add(u64::from(passed), Ordering::Relaxed);
            }
        });
        assert_eq!(admitted.into_inner(), 1_000, "{limit}");
    }
}

// Fails when a sweep removes every key; a decision releases its lock between reading and writing.
#[test]
fn many_keys_admit_exactly_their_limits_while_they_are_swept() {
    let limit = Limit::token_bucket(Rate::new(1, Period::HOUR).unwrap(), 5).unwrap();
    let (store, admitted) = (MemoryStore::new(StoreOptions::default()), AtomicU64::new(0));
    together(|number| {
        for key in 0..2_000 {
            let passed = store.decide_now(&[charge(key, &limit)], Context::at(START)).committed;
            admitted.fetch_add(u64::from(passed), Ordering::Relaxed);
            if number == 0 && key % 100 == 0 {
                store.sweep(START.saturating_add(Duration::from_secs(1)));
            }
        }
    });
    assert_eq!(admitted.into_inner(), 2_000 * 5);
    assert_eq!(store.occupancy().keys, 2_000);
}

#[test]
fn batches_in_every_order_admit_exactly_the_limit() {
    let [limit, ..] = limits();
    let (store, admitted) = (MemoryStore::new(StoreOptions::default()), AtomicU64::new(0));
    together(|number| {
        for _ in 0..500 {
            let mut batch = [1, 2, 3].map(|key| charge(key, &limit));
            let length = batch.len();
            batch.rotate_left(usize::try_from(number).unwrap_or(0) % length);
            let passed = store.decide_now(&batch, Context::at(START)).committed;
            admitted.fetch_add(u64::from(passed), Ordering::Relaxed);
        }
    });
    assert_eq!(admitted.into_inner(), 1_000);
}

// Fails when the cap admits one key too many.
#[test]
fn concurrent_threads_stay_within_the_key_cap() {
    let [limit, ..] = limits();
    let store = MemoryStore::new(StoreOptions { max_keys: 100, idle_ttl: Duration::ZERO });
    together(|number| {
        for key in 0..2_000 {
            store.decide_now(&[charge(number * 2_000 + key, &limit)], Context::at(START));
            assert!(store.occupancy().keys <= 100);
        }
    });
    assert_eq!(store.occupancy().keys, 100);
}
