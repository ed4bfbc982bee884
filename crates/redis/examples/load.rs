//! What a decision costs this process: threads that each run a runtime of their own ask
//! a Redis that is there already, many requests at once.
//!
//! `cargo run --release -p hivemind-rl-redis --example load -- redis://host:port [threads] [at once] [decisions]`
#![expect(clippy::print_stdout, clippy::expect_used, reason = "a program for a person at a terminal")]

use hivemind_core::store::{Charge, Context, Key, KeySeed, Parts, Store};
use hivemind_core::{Clock, Limit, Period, SystemClock};
use hivemind_redis::{Availability, RedisOptions, RedisStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, usual: u64| arguments.get(index).and_then(|n| n.parse().ok()).unwrap_or(usual);
    let url = arguments.first().cloned().unwrap_or_else(|| "redis://localhost".to_owned());
    let (threads, at_once, decisions) = (number(1, 2), number(2, 64), number(3, 400_000));

    let background = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let background = background.expect("a runtime");
    let store =
        Arc::new(RedisStore::start(RedisOptions::new(url), background.handle()).expect("good options"));
    let mut availability = store.availability();
    background.block_on(availability.wait_for(|state| *state == Availability::Up)).expect("Redis answers");

    let begun = (SystemClock.now(), cpu_ticks());
    let left = Arc::new(AtomicU64::new(decisions));
    let on_threads: Vec<_> = (0..threads)
        .map(|thread| {
            let (store, left) = (Arc::clone(&store), Arc::clone(&left));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(async {
                    let asking = (0..at_once).map(|one| {
                        tokio::spawn(ask(Arc::clone(&store), Arc::clone(&left), thread * 1_000 + one))
                    });
                    for asked in asking.collect::<Vec<_>>() {
                        asked.await.expect("no panic");
                    }
                });
            })
        })
        .collect();
    for thread in on_threads {
        thread.join().expect("no panic");
    }
    let (wall, ticks) = (SystemClock.now().since(begun.0), cpu_ticks() - begun.1);
    #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
    let per = |micros: u128| micros as f64 / decisions as f64;
    println!(
        "{threads} x {at_once}: {:.2} us of CPU and {:.2} us of time per decision; {:?}",
        per(u128::from(ticks) * 10_000),
        per(wall.as_micros()),
        store.metrics()
    );
}

async fn ask(store: Arc<RedisStore>, left: Arc<AtomicU64>, client: u64) {
    let limit = Limit::fixed_window(u32::MAX, Period::HOUR);
    let name = client.to_string();
    let entries = [("client", name.as_str())];
    let parts = Parts { domain: "load", entries: &entries };
    let key = Key::new(&KeySeed::from_cluster_id("load"), parts, &limit, 0);
    let charge = Charge::spend(key, parts, &limit);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let _ = store.decide(&[charge], Context::at(SystemClock.now())).await;
    }
}

/// Hundredths of a second of CPU that this process has used, in user and system.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}
