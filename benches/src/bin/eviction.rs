//! Measurement of docs/decisions/003: a scan of two million addresses against a small table with a thousand limited
//! clients, and the cost of a sweep of a million keys. Time is simulated, so every run gives the same result; only
//! the sweep is timed.
//!
//!     cargo run --release --bin eviction

use hivemind_benches::contenders::bucket;
use hivemind_benches::watch::{monotonic, thread_cpu};
use hivemind_core::store::{Charge, Context, Key, KeySeed, LocalStore, MemoryStore, Parts, StoreOptions};
use hivemind_core::{Limit, Period, Timestamp};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CAP: usize = 100_000;
const LIMITED: u64 = 1_000;
const SCANNED: u64 = 2_000_000;
/// Midnight: the window of an hour has just begun.
const START_MS: u64 = 20_000 * 86_400_000;

fn main() {
    println!(
        "| limit of the scanned | keys | evicted | in overflow | scanned and refused | limited, still limited |"
    );
    println!("|---|---|---|---|---|---|");
    for (what, limit) in [
        ("bucket, 10/s, burst 20", bucket(10, Period::SECOND, 20)),
        ("bucket, 60/h, burst 60", bucket(60, Period::HOUR, 60)),
        ("window, 1000/h", Limit::fixed_window(1_000, Period::HOUR)),
        ("window, 10/h", Limit::fixed_window(10, Period::HOUR)),
    ] {
        scan(what, &limit);
    }
    println!();
    sweep();
}

fn decide(store: &MemoryStore, limit: &Limit, client: u64, at_ms: u64) -> bool {
    let (client, seed) = (client.to_string(), KeySeed::new(*b"a benchmark seed"));
    let entries = [("remote_address", client.as_str())];
    let parts = Parts { domain: "d", entries: &entries };
    let key = Key::new(&seed, parts, limit, 0);
    let charge = Charge::spend(key, parts, limit);
    store.decide_now(&[charge], Context::at(Timestamp::from_millis(START_MS + at_ms))).committed
}

/// 20,000 new addresses per second for 100 seconds, one request each.
fn scan(what: &str, limit: &Limit) {
    let store = MemoryStore::new(StoreOptions { max_keys: CAP, idle_ttl: Duration::from_secs(300) });
    let strict = bucket(1, Period::HOUR, 5);
    for client in 0..LIMITED {
        while decide(&store, &strict, client, 0) {}
    }
    let refused = (0..SCANNED).filter(|n| !decide(&store, limit, LIMITED + n, n / 20)).count();
    let still = (0..LIMITED).filter(|client| !decide(&store, &strict, *client, SCANNED / 20)).count();
    let full = store.occupancy();
    println!(
        "| {what} | {} | {} | {} | {refused} | {still} of {LIMITED} |",
        full.keys, full.evicted, full.overflowed
    );
}

/// Measures a sweep of a million live keys, which removes none, and of a million dead ones, and the longest wait of
/// a concurrent decision.
fn sweep() {
    let store = MemoryStore::new(StoreOptions { max_keys: 1_000_000, idle_ttl: Duration::from_secs(300) });
    let limit = bucket(60, Period::HOUR, 60);
    for client in 0..1_000_000 {
        decide(&store, &limit, client, 0);
    }
    let done = AtomicBool::new(false);
    let decisions = || {
        let mut waits: Vec<Duration> = Vec::new();
        let mut client = 0;
        while !done.load(Ordering::Relaxed) || waits.is_empty() {
            client = (client + 7_919) % 1_000_000;
            let before = monotonic();
            decide(&store, &limit, client, 1);
            waits.push(monotonic() - before);
        }
        waits.sort();
        waits
    };
    let timed = |at_ms: u64| {
        let before = thread_cpu();
        let removed = store.sweep(Timestamp::from_millis(START_MS + at_ms));
        (thread_cpu() - before, removed)
    };
    let (mut kept, waits) = std::thread::scope(|scope| {
        let concurrent = scope.spawn(decisions);
        let kept: Vec<Duration> = (0..20).map(|_| timed(2).0).collect();
        done.store(true, Ordering::Relaxed);
        (kept, concurrent.join().unwrap_or_default())
    });
    kept.sort();
    let (all_gone, removed) = timed(3 * 3_600_000);
    // See `KEYS_PER_SHARD` of the store: a million keys take 295 shards.
    let shard = |sweep: Duration| sweep.as_secs_f64() * 1e6 / 295.0;
    let format_sweep =
        |sweep: Duration| format!("{:.1} ms, {:.0} µs a shard", sweep.as_secs_f64() * 1e3, shard(sweep));
    println!("| a sweep of 1 M keys | CPU time |");
    println!("|---|---|");
    println!("| that removes none, median of 20 | {} |", format_sweep(kept[10]));
    println!("| that removes none, longest of 20 | {} |", format_sweep(kept[19]));
    println!("| that removes {removed} | {} |", format_sweep(all_gone));
    let wait = |per_mille: usize| waits[(waits.len() - 1) * per_mille / 1_000].as_secs_f64() * 1e6;
    println!(
        "| a concurrent decision, wall time: median, 99.9 %, longest | {:.1}, {:.0}, {:.0} µs |",
        wait(500),
        wait(999),
        wait(1_000)
    );
}
