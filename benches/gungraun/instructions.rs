//! Instructions a decision takes, counted by callgrind: the same on every machine
//! of one architecture, however busy. Run it by `benches/instructions.sh`.

#![expect(missing_docs, reason = "gungraun's macros write items without")]

use gungraun::{library_benchmark, library_benchmark_group, main};
use hivemind_benches::contenders::{PLENTY, bucket};
use hivemind_core::store::{
    Charge, Context, Key, KeyPrefix, KeySeed, LocalStore, MemoryStore, Parts, StoreOptions, Verdicts,
};
use hivemind_core::{Limit, Period, Timestamp};
use std::hint::black_box;

const SEED: KeySeed = KeySeed::new(*b"a benchmark seed");
const PARTS: Parts<'_> = Parts { domain: "api", entries: &[("api_key", "client-0123456789abcdef")] };
/// Ten seconds after a midnight. The clock itself is not counted.
const NOW: Timestamp = Timestamp::from_millis(20_000 * 86_400_000 + 10_000);

/// A window whose last one has counted a part of the budget, too.
fn carrying(limit: Limit) -> Ready {
    let ready = ready(vec![limit]);
    let ((store, charges), yesterday) = (ready, NOW.as_nanos() - 86_400_000_000_000);
    store.forget_now(charges[0].key);
    for _ in 0..3 {
        store.decide_now(charges, Context::at(Timestamp::from_nanos(yesterday)));
    }
    store.decide_now(charges, Context::at(before()));
    ready
}

fn carrying_and_refusing(limit: Limit) -> Ready {
    let ready = carrying(limit);
    while ready.0.decide_now(ready.1, Context::at(before())).committed {}
    ready
}

fn before() -> Timestamp {
    Timestamp::from_nanos(NOW.as_nanos() - 5_000_000)
}

fn charges(limits: &[Limit]) -> Vec<Charge<'_>> {
    let charge = |(ordinal, limit)| Charge {
        ordinal,
        ..Charge::spend(Key::new(&SEED, PARTS, limit, ordinal), PARTS, limit)
    };
    (0_u16..).zip(limits).map(charge).collect()
}

fn prefix() -> KeyPrefix {
    KeyPrefix::new(&SEED, "api", ["api_key"], &bucket(1_000, Period::SECOND, PLENTY), 0)
}

#[library_benchmark]
#[bench::on_a_rules_prefix(prefix())]
fn key(prefix: KeyPrefix) -> Key {
    black_box(&prefix).key(black_box(PARTS).entries.iter().map(|(_, value)| *value))
}

#[library_benchmark]
#[bench::from_all_parts(bucket(1_000, Period::SECOND, PLENTY))]
fn whole_key(limit: Limit) -> Key {
    Key::new(black_box(&SEED), black_box(PARTS), black_box(&limit), 0)
}

/// Leaked, so that charges can borrow their limits, and that neither moving nor dropping it all is counted.
type Ready = (&'static MemoryStore, &'static [Charge<'static>]);

/// A limit that has seen one request, and passes the next.
fn passing(limit: Limit) -> Ready {
    ready(vec![limit])
}

/// A limit whose budget is spent, and refuses the next.
fn refusing(limit: Limit) -> Ready {
    let ready = ready(vec![limit]);
    while ready.0.decide_now(ready.1, Context::at(before())).committed {}
    ready
}

fn ready(limits: Vec<Limit>) -> Ready {
    let (store, limits) = (Box::leak(Box::new(MemoryStore::new(StoreOptions::default()))), limits.leak());
    let charges: &[Charge<'_>] = charges(limits).leak();
    store.decide_now(charges, Context::at(before()));
    (store, charges)
}

// The same limits as below: a refusal must not be dearer than a pass.
#[library_benchmark(setup = passing)]
#[bench::bucket(bucket(100, Period::SECOND, 10))]
#[bench::bucket_of_odd_rate(bucket(7, Period::DAY, 10))]
#[bench::fixed(Limit::fixed_window(10, Period::DAY))]
#[bench::sliding(Limit::sliding_window(10, Period::DAY))]
#[bench::sliding_carrying(args = (Limit::sliding_window(10, Period::DAY)), setup = carrying)]
fn pass(ready: Ready) -> Verdicts {
    decide(ready)
}

#[library_benchmark(setup = refusing)]
#[bench::bucket(bucket(100, Period::SECOND, 10))]
#[bench::bucket_of_odd_rate(bucket(7, Period::DAY, 10))]
#[bench::fixed(Limit::fixed_window(10, Period::DAY))]
#[bench::sliding(Limit::sliding_window(10, Period::DAY))]
#[bench::sliding_carrying(args = (Limit::sliding_window(10, Period::DAY)), setup = carrying_and_refusing)]
fn refusal(ready: Ready) -> Verdicts {
    decide(ready)
}

#[library_benchmark(setup = ready)]
#[bench::of_2(vec![bucket(1_000, Period::SECOND, PLENTY), Limit::fixed_window(PLENTY, Period::DAY)])]
fn batch(ready: Ready) -> Verdicts {
    decide(ready)
}

#[inline(always)]
fn decide((store, charges): Ready) -> Verdicts {
    black_box(store).decide_now(black_box(charges), Context::at(NOW))
}

library_benchmark_group!(name = engine, benchmarks = [key, whole_key, pass, refusal, batch]);
main!(library_benchmark_groups = engine);
