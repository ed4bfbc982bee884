//! Contenders. Each reads its real clock for every decision, as in production: ours the wall clock, governor the TSC
//! through quanta.

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use hivemind_core::store::{
    Charge, Context, Key, KeyPrefix, KeySeed, LocalStore, MemoryStore, Parts, StoreOptions, Verdict,
};
use hivemind_core::{Clock, Entry, Limit, Period, Rate, SystemClock};
use std::hash::Hash;
use std::num::NonZeroU32;

/// More requests than a benchmark sends.
pub const PLENTY: u32 = 1_000_000_000;

/// Our store, called as a frontend calls it.
pub struct Ours {
    /// The counters.
    pub store: MemoryStore,
    seed: KeySeed,
    limits: Vec<Limit>,
    /// The prepared key prefix of each limit.
    prefixes: Vec<KeyPrefix>,
}

impl Ours {
    /// A store of at most `max_keys` whose requests are charged to all of `limits` at once.
    #[must_use]
    pub fn new(max_keys: usize, limits: Vec<Limit>) -> Self {
        let store = MemoryStore::new(StoreOptions { max_keys, ..StoreOptions::default() });
        let seed = KeySeed::new(*b"a benchmark seed");
        let prefix = |(ordinal, limit)| KeyPrefix::new(&seed, "api", ["api_key"], limit, ordinal);
        let prefixes = (0_u16..).zip(&limits).map(prefix).collect();
        Self { store, seed, limits, prefixes }
    }

    /// The key of a client's counter under the first limit.
    #[must_use]
    pub fn key(&self, name: &str) -> Key {
        Key::new(&self.seed, parts(&[("api_key", name)]), &self.limits[0], 0)
    }

    /// From a rule and the client's name to the verdict: hash the name into the prepared prefix, read the clock,
    /// decide.
    #[inline]
    pub fn decide(&self, name: &str) -> bool {
        let entries = [("api_key", name)];
        let charge = self.charge(0, parts(&entries));
        self.store.decide_alone(&charge, Context::at(SystemClock.now())).0
    }

    /// The same without a prepared prefix: domain, entry keys and limit are hashed for each decision.
    #[inline]
    pub fn decide_by_parts(&self, name: &str) -> bool {
        let entries = [("api_key", name)];
        let charge = self.charge_of(self.key(name), parts(&entries));
        self.store.decide_alone(&charge, Context::at(SystemClock.now())).0
    }

    /// The same with the whole verdict, as a frontend reports it.
    #[inline]
    pub fn verdict(&self, name: &str) -> (bool, Verdict) {
        let entries = [("api_key", name)];
        let charge = self.charge(0, parts(&entries));
        self.store.decide_alone(&charge, Context::at(SystemClock.now()))
    }

    /// The same with a prepared key.
    #[inline]
    pub fn decide_by_key(&self, key: Key) -> bool {
        let charge = self.charge_of(key, parts(&[]));
        self.store.decide_alone(&charge, Context::at(SystemClock.now())).0
    }

    /// Charges `N` limits of one client in one atomic step.
    #[inline]
    pub fn decide_batch<const N: usize>(&self, name: &str) -> bool {
        let entries = [("api_key", name)];
        let batch: [Charge<'_>; N] = std::array::from_fn(|index| self.charge(index, parts(&entries)));
        self.store.decide_now(&batch, Context::at(SystemClock.now())).committed
    }

    #[inline]
    fn charge<'a>(&'a self, index: usize, parts: Parts<'a>) -> Charge<'a> {
        let limit = &self.limits[index];
        let key = self.prefixes[index].key(parts.entries.iter().map(|(_, value)| *value));
        Charge::spend(key, parts, limit)
    }

    #[inline]
    fn charge_of<'a>(&'a self, key: Key, parts: Parts<'a>) -> Charge<'a> {
        Charge::spend(key, parts, &self.limits[0])
    }
}

fn parts<'a>(entries: &'a [Entry<'a>]) -> Parts<'a> {
    Parts { domain: "api", entries }
}

/// governor with its default keyed store, a `DashMap`.
pub type Governor<K> = DefaultKeyedRateLimiter<K>;

/// A governor of this rate and burst.
#[must_use]
pub fn governor<K: Hash + Eq + Clone>(per_second: u32, burst: u32) -> Governor<K> {
    let quota = Quota::per_second(at_least_one(per_second)).allow_burst(at_least_one(burst));
    RateLimiter::keyed(quota)
}

/// A governor that admits one request per hour and refuses the others.
#[must_use]
pub fn stingy_governor<K: Hash + Eq + Clone>() -> Governor<K> {
    RateLimiter::keyed(Quota::per_hour(NonZeroU32::MIN))
}

fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

/// A token bucket.
///
/// # Panics
/// If the bucket is invalid.
#[must_use]
pub fn bucket(requests: u32, period: Period, burst: u32) -> Limit {
    let rate = Rate::new(requests, period).expect("the rate is above zero");
    Limit::token_bucket(rate, burst).expect("the burst is in range")
}

/// A rate of `requests` per second.
///
/// # Panics
/// If the rate is zero.
#[must_use]
pub fn per_second(requests: u32) -> Rate {
    Rate::per_second(requests).expect("the rate is above zero")
}
