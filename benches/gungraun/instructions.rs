//! Instructions a decision takes, counted by callgrind: the same on every machine
//! of one architecture, however busy. Run it by `benches/instructions.sh`.

#![expect(missing_docs, reason = "gungraun's macros write items without")]

use gungraun::{library_benchmark, library_benchmark_group, main};
use hivemind_benches::contenders::{PLENTY, bucket};
use hivemind_core::store::{
    Charge, Context, Key, KeySeed, LocalStore, MemoryStore, Mode, Op, Parts, StoreOptions,
};
use hivemind_core::{Cost, Limit, Period, Timestamp};
use std::hint::black_box;

const SEED: KeySeed = KeySeed::new(*b"a benchmark seed");
const PARTS: Parts<'_> = Parts { domain: "api", entries: &[("api_key", "client-0123456789abcdef")] };
/// Ten seconds after a midnight. The clock itself is not counted.
const NOW: Timestamp = Timestamp::from_millis(20_000 * 86_400_000 + 10_000);

/// A store that has seen one request of these limits.
fn seen(limits: Vec<Limit>) -> (MemoryStore, Vec<Limit>) {
    let store = MemoryStore::new(StoreOptions::default());
    let before = Context::at(Timestamp::from_millis(NOW.as_nanos() / 1_000_000 - 5));
    store.decide_now(&charges(&limits), before);
    (store, limits)
}

fn charges(limits: &[Limit]) -> Vec<Charge<'_>> {
    let charge = |(ordinal, limit)| Charge {
        key: Key::new(&SEED, PARTS, limit, ordinal),
        parts: PARTS,
        limit,
        cost: Cost::ONE,
        op: Op::Spend,
        mode: Mode::Enforce,
    };
    (0_u16..).zip(limits).map(charge).collect()
}

#[library_benchmark]
#[bench::bucket(bucket(1_000, Period::SECOND, PLENTY))]
#[bench::window(Limit::fixed_window(PLENTY, Period::DAY))]
fn key(limit: Limit) -> Key {
    Key::new(black_box(&SEED), black_box(PARTS), black_box(&limit), 0)
}

fn ready(limits: Vec<Limit>) -> (MemoryStore, &'static [Limit], Vec<Charge<'static>>) {
    let (store, limits) = seen(limits);
    // Leaked, so that charges can borrow it for as long as callgrind looks.
    let limits: &'static [Limit] = limits.leak();
    (store, limits, charges(limits))
}

#[library_benchmark(setup = ready)]
#[bench::bucket_pass(vec![bucket(1_000, Period::SECOND, PLENTY)])]
#[bench::bucket_refusal(vec![bucket(7, Period::DAY, 1)])]
#[bench::fixed_pass(vec![Limit::fixed_window(PLENTY, Period::DAY)])]
#[bench::fixed_refusal(vec![Limit::fixed_window(1, Period::DAY)])]
#[bench::sliding_pass(vec![Limit::sliding_window(PLENTY, Period::DAY)])]
#[bench::sliding_refusal(vec![Limit::sliding_window(1, Period::DAY)])]
#[bench::batch_of_2(vec![bucket(1_000, Period::SECOND, PLENTY), Limit::fixed_window(PLENTY, Period::DAY)])]
fn decide(ready: (MemoryStore, &'static [Limit], Vec<Charge<'static>>)) -> impl Sized {
    let committed = black_box(ready.0.decide_now(black_box(&ready.2), Context::at(NOW))).committed;
    // Given back, so that dropping it all is not counted.
    (ready, committed)
}

library_benchmark_group!(name = engine, benchmarks = [key, decide]);
main!(library_benchmark_groups = engine);
