//! Decisions of the memory store: by the client's name under a known limit, by rules, in batches, and refused.

use crate::{Case, Iteration, NOW, PLENTY, fixed_window, sliding_window, token_bucket};
use hivemind_core::store::{
    Charge, Context, KeyPrefix, KeySeed, LocalStore, MemoryStore, Parts, StoreOptions,
};
use hivemind_core::{
    Descriptor, Limit, Limiter, LimiterOptions, ManualClock, Matcher, Rule, Rules, Timestamp,
};
use std::hint::black_box;

pub(super) const CASES: &[Case] = &[
    ("decision: token bucket, by name", || by_name(token_bucket(PLENTY), true)),
    ("decision: fixed window, by name", || by_name(fixed_window(PLENTY), true)),
    ("decision: sliding window, by name", || by_name(sliding_window(PLENTY), true)),
    ("decision: sliding window with a previous one, by name", || carrying(sliding_window(PLENTY), true)),
    ("decision: token bucket, by name, refused", || by_name(token_bucket(1), false)),
    ("decision: fixed window, by name, refused", || by_name(fixed_window(1), false)),
    ("decision: sliding window, by name, refused", || by_name(sliding_window(1), false)),
    ("decision: sliding window with a previous one, by name, refused", || carrying(sliding_window(3), false)),
    ("decision: token bucket, by rule", || by_rule(token_bucket(PLENTY), true)),
    ("decision: token bucket, by rule, refused", || by_rule(token_bucket(1), false)),
    ("decision: batch of 2", || batch([token_bucket(PLENTY), fixed_window(PLENTY)], true)),
    ("decision: batch of 2, refused", || batch([token_bucket(PLENTY), fixed_window(1)], false)),
    ("decision: batch of 4", || batch(four_limits(PLENTY), true)),
    ("decision: batch of 4, refused", || batch(four_limits(1), false)),
];

const SEED: KeySeed = KeySeed::new(*b"a benchmark seed");
const NAME: &str = "client-0123456789abcdef";

/// The last limit has this number of requests.
fn four_limits(last: u32) -> [Limit; 4] {
    [token_bucket(PLENTY), fixed_window(PLENTY), sliding_window(PLENTY), fixed_window(last)]
}

/// The counter is found by a key that is hashed from the client's name and a prepared prefix, and decided alone.
fn by_name(limit: Limit, passes: bool) -> Iteration {
    by_name_after(0, limit, passes)
}

/// The counter has counts of the previous window.
fn carrying(limit: Limit, passes: bool) -> Iteration {
    by_name_after(3, limit, passes)
}

/// This number of requests was decided in the previous window of a day.
fn by_name_after(previous: u32, limit: Limit, passes: bool) -> Iteration {
    let store = MemoryStore::new(StoreOptions::default());
    let prefix = KeyPrefix::new(&SEED, "api", ["api_key"], &limit, 0);
    let decide = move |now: Timestamp| {
        let entries = [("api_key", black_box(NAME))];
        let key = prefix.key(entries.iter().map(|(_, value)| *value));
        let charge = Charge::spend(key, Parts { domain: "api", entries: &entries }, &limit);
        store.decide_alone(&charge, Context::at(black_box(now)))
    };
    let yesterday = Timestamp::from_nanos(NOW.as_nanos() - 86_400_000_000_000);
    for _ in 0..previous {
        decide(yesterday);
    }
    decide(NOW);
    Box::new(move || assert_eq!(black_box(decide(NOW)).0, passes))
}

/// A descriptor is resolved to its rule, and its charge decided.
fn by_rule(limit: Limit, passes: bool) -> Iteration {
    let rules = Rules::new().with("api", &[Matcher::any("api_key")], Rule::limit(limit)).unwrap();
    let limiter = Limiter::with_clock(rules, ManualClock::at(NOW), LimiterOptions::default()).unwrap();
    let decide = move || {
        let entries = [("api_key", black_box(NAME))];
        limiter.check(black_box("api"), &[Descriptor::new(&entries)])
    };
    decide();
    Box::new(move || assert_eq!(black_box(decide()).is_allowed(), passes))
}

/// One step charges several limits of a client.
fn batch<const N: usize>(limits: [Limit; N], passes: bool) -> Iteration {
    let store = MemoryStore::new(StoreOptions::default());
    let mut ordinals = 0..;
    let limits = limits.map(|limit| {
        let ordinal = ordinals.next().unwrap();
        (ordinal, KeyPrefix::new(&SEED, "api", ["api_key"], &limit, ordinal), limit)
    });
    let decide = move || {
        let entries = [("api_key", black_box(NAME))];
        let parts = Parts { domain: "api", entries: &entries };
        let charges = limits.each_ref().map(|(ordinal, prefix, limit)| {
            let key = prefix.key(entries.iter().map(|(_, value)| *value));
            Charge { ordinal: *ordinal, ..Charge::spend(key, parts, limit) }
        });
        store.decide_now(&charges, Context::at(black_box(NOW)))
    };
    decide();
    Box::new(move || assert_eq!(black_box(decide()).committed, passes))
}
