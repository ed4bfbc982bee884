//! Loom tests of the memory store: every interleaving of decisions, sweeps and reloads.
//! Nothing is admitted twice, no count is lost, the capacity is never exceeded, and batches
//! do not deadlock (loom detects deadlocks itself).
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p hivemind-rl-core --test interleavings --target-dir target-loom
//! ```
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use hivemind_core::{Cost, Limit, Period, Rate, Timestamp};

use hivemind_core::store::{
    Charge, Context, Key, LocalStore, MemoryStore, Mode, Op, Parts, Sharing, StoreOptions,
};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

/// One key in the first shard of two, one in the second.
const LOW: Key = Key::from_bits(1, 1);
const HIGH: Key = Key::from_bits(2, u64::MAX);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

fn store(max_keys: usize) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::of_shards(StoreOptions { max_keys, idle_ttl: Duration::ZERO }, 2))
}

fn bucket(requests: u32, period: Period, burst: u32) -> Limit {
    Limit::token_bucket(Rate::new(requests, period).unwrap(), burst).unwrap()
}

fn decide(store: &MemoryStore, keys: &[Key], limit: &Limit, op: Op, millis: u64) -> bool {
    let parts = Parts { domain: "", entries: &[] };
    let charge = |key: &Key| Charge { op, ..Charge::spend(*key, parts, limit) };
    store.decide_now(&keys.iter().map(charge).collect::<Vec<_>>(), Context::at(at(millis))).committed
}

fn spend(store: &MemoryStore, keys: &[Key], limit: &Limit, millis: u64) -> bool {
    decide(store, keys, limit, Op::Spend, millis)
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    loom::model(model);
}

/// Runs a closure with the store on a new thread.
fn with<T: 'static>(
    store: &Arc<MemoryStore>,
    run: impl FnOnce(&MemoryStore) -> T + 'static,
) -> thread::JoinHandle<T> {
    let store = Arc::clone(store);
    thread::spawn(move || run(&store))
}

// Fails when a decision releases its lock between reading and writing.
#[test]
fn two_threads_and_a_sweep_admit_one_request_for_one_token() {
    explore(|| {
        let (store, limit) = (store(10), bucket(1, Period::SECOND, 2));
        assert!(spend(&store, &[LOW], &limit, 0));
        let threads = [
            with(&store, move |store| spend(store, &[LOW], &limit, 0)),
            with(&store, move |store| spend(store, &[LOW], &limit, 0)),
        ];
        store.sweep(at(999));
        let admitted: u32 = threads.map(|thread| u32::from(thread.join().unwrap())).iter().sum();
        assert_eq!(admitted, 1);
        assert_eq!(store.occupancy().keys, 1);
    });
}

// Fails when locks are taken in the order of the charges.
#[test]
fn batches_in_opposite_order_do_not_deadlock_or_share_a_token() {
    explore(|| {
        let (store, limit) = (store(10), bucket(1, Period::SECOND, 1));
        let one = with(&store, move |store| spend(store, &[LOW, HIGH], &limit, 0));
        let other = with(&store, move |store| spend(store, &[HIGH, LOW], &limit, 0));
        let admitted = [one.join().unwrap(), other.join().unwrap()];
        assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 1);
        assert!(!spend(&store, &[LOW], &limit, 0) && !spend(&store, &[HIGH], &limit, 0));
    });
}

// Fails when a refused batch keeps what its passing limits spent.
#[test]
fn concurrent_batch_and_charge_never_share_a_token() {
    explore(|| {
        let (store, limit) = (store(10), bucket(1, Period::SECOND, 1));
        let batch = with(&store, move |store| spend(store, &[LOW, HIGH], &limit, 0));
        let single = spend(&store, &[HIGH], &limit, 0);
        let batch = batch.join().unwrap();
        assert!(batch != single);
        assert_eq!(spend(&store, &[LOW], &limit, 0), !batch, "a refused batch spends nothing");
    });
}

// Fails when a hold does nothing.
#[test]
fn sweep_after_reload_keeps_all_keys() {
    explore(|| {
        let store = store(10);
        let (fast, slow) = (bucket(10, Period::SECOND, 1), bucket(1, Period::MINUTE, 1));
        assert!(spend(&store, &[LOW], &fast, 0));
        let request = with(&store, move |store| spend(store, &[LOW], &slow, 50));
        let other = with(&store, move |store| spend(store, &[HIGH], &slow, 50));
        store.hold(at(50), at(60_050));
        store.sweep(at(200));
        assert!(!request.join().unwrap(), "the token is a minute away");
        assert!(other.join().unwrap());
        assert!(!spend(&store, &[LOW], &slow, 200) && !spend(&store, &[HIGH], &slow, 200));
    });
}

// Fails when free room is checked and taken in two steps; a slot is counted before it is free.
#[test]
fn key_cap_holds_at_every_moment() {
    explore(|| {
        let (store, limit) = (store(1), bucket(1, Period::SECOND, 1));
        let one = with(&store, move |store| spend(store, &[LOW], &limit, 0));
        let other = with(&store, move |store| spend(store, &[HIGH], &limit, 0));
        assert!(store.occupancy().keys <= 1);
        assert!(one.join().unwrap() && other.join().unwrap(), "new clients are admitted");
        let occupancy = store.occupancy();
        assert_eq!((occupancy.keys, occupancy.overflowed), (1, 1));
        assert!(
            !spend(&store, &[LOW], &limit, 0) && !spend(&store, &[HIGH], &limit, 0),
            "both counts are kept"
        );
    });
}

// Fails when a sweep does not reduce the key count.
#[test]
fn key_count_is_right_after_concurrent_sweep_and_forget() {
    explore(|| {
        let (store, limit) = (store(10), bucket(1, Period::SECOND, 1));
        assert!(spend(&store, &[HIGH], &limit, 0));
        let spent = with(&store, move |store| spend(store, &[LOW], &limit, 500));
        let forgotten = with(&store, move |store| store.forget_now(LOW));
        store.sweep(at(1_000));
        assert!(spent.join().unwrap());
        forgotten.join().unwrap();
        let remembered = !decide(&store, &[LOW], &limit, Op::Peek, 1_000);
        assert_eq!(store.occupancy().keys, usize::from(remembered));
    });
}
