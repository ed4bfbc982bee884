//! Parity with nginx's `limit_req`: recorded traces event by event, and generated traces
//! compared with nginx's integer formula. Our `burst` is nginx's plus one. Only whole
//! requests per second are tested, because nginx rounds a rate per minute down.
#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use hivemind_core::store::{
    Charge, Context, Key, KeySeed, LocalStore, MemoryStore, Outcome, Parts, StoreOptions, Verdict, Verdicts,
};
use hivemind_core::testing::cases;
use hivemind_core::{Limit, Rate, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::HashMap;

/// The limits of one location in a configuration, and their counters.
struct Location {
    limits: Vec<Limit>,
    store: MemoryStore,
}

impl Location {
    fn new(limits: &[(u32, u32)]) -> Self {
        let limit = |&(rate, nginx_burst): &(u32, u32)| {
            Limit::token_bucket(Rate::per_second(rate).unwrap(), nginx_burst + 1).unwrap()
        };
        Self { limits: limits.iter().map(limit).collect(), store: MemoryStore::new(StoreOptions::default()) }
    }

    /// A request at `at_ms`, with the key for each limit; an empty key is not limited.
    fn request(&self, at_ms: u64, keys: &[&str]) -> Verdicts {
        let seed = KeySeed::from_cluster_id("nginx");
        let entries: Vec<_> = keys.iter().map(|key| [("client", *key)]).collect();
        let limited = (0_u16..).zip(&self.limits).zip(&entries).filter(|(_, [(_, key)])| !key.is_empty());
        let batch = limited.map(|((ordinal, limit), entries)| {
            let parts = Parts { domain: "nginx", entries };
            let key = Key::new(&seed, parts, limit, ordinal);
            Charge::spend(key, parts, limit)
        });
        self.store.decide_now(&batch.collect::<Vec<_>>(), Context::at(Timestamp::from_millis(at_ms)))
    }
}

fn wait_ms(verdict: &Verdict) -> Option<u64> {
    match verdict.outcome {
        Outcome::Admitted => None,
        Outcome::Refused { retry_after } => {
            retry_after.map(|wait| u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap())
        }
    }
}

fn whole(number: &Value) -> u32 {
    let number = number.as_f64().unwrap();
    format!("{number}").parse().unwrap()
}

fn limits_of(trace: &Value) -> Vec<(u32, u32)> {
    match trace["limits"].as_array() {
        None => vec![(whole(&trace["rate_per_second"]), whole(&trace["nginx_burst"]))],
        Some(limits) => {
            limits.iter().map(|limit| (whole(&limit["rate_milli"]) / 1_000, whole(&limit["burst"]))).collect()
        }
    }
}

// Fails when a refill sets `since` to now; a cost above the remaining tokens fits; a refused batch keeps
// what its passing limits spent.
#[test]
fn recorded_nginx_events_are_decided_like_nginx() {
    let data: Value = serde_json::from_str(include_str!("data/nginx_limit_req.json")).unwrap();
    let mut events = 0;
    for trace in data["traces"].as_array().unwrap() {
        let location = Location::new(&limits_of(trace));
        for event in trace["events"].as_array().unwrap() {
            let keys = match &event[1] {
                Value::Array(keys) => keys.iter().map(|key| key.as_str().unwrap()).collect(),
                key => vec![key.as_str().unwrap()],
            };
            let verdicts = location.request(event[0].as_u64().unwrap(), &keys);
            let message = format!("{}: {event} got {verdicts:?}", trace["name"]);
            assert_eq!(verdicts.committed, event[2].as_bool().unwrap(), "{message}");
            if let Some(remaining) = event[3].as_u64() {
                assert_eq!(verdicts.each()[0].remaining, remaining, "{message}");
            }
            if let Some(wait) = event[4].as_u64() {
                assert_eq!(verdicts.each().iter().filter_map(wait_ms).max(), Some(wait), "{message}");
            }
            events += 1;
        }
    }
    assert_eq!(events, 339, "the data file changed");
}

/// nginx's `limit_req`, `nodelay`, in its own integers: milli-requests and milliseconds.
struct Nginx {
    limits: Vec<(i64, i64)>,
    states: HashMap<(usize, String), (i64, i64)>,
}

impl Nginx {
    fn new(limits: &[(u32, u32)]) -> Self {
        let milli = |&(rate, burst): &(u32, u32)| (i64::from(rate) * 1_000, i64::from(burst) * 1_000);
        Self { limits: limits.iter().map(milli).collect(), states: HashMap::new() }
    }

    fn request(&mut self, now: i64, keys: &[&str]) -> bool {
        let mut passed = Vec::new();
        for (index, (&(rate, burst), &key)) in self.limits.iter().zip(keys).enumerate() {
            if key.is_empty() {
                continue;
            }
            let name = (index, key.to_owned());
            let state = match self.states.get(&name) {
                None => (0, now),
                Some(&(excess, last)) => {
                    let passed = match now - last {
                        ..-60_000 => 1,
                        -60_000..0 => 0,
                        passed => passed,
                    };
                    let excess = (excess - rate * passed / 1_000 + 1_000).max(0);
                    if excess > burst {
                        return false;
                    }
                    (excess, if passed == 0 { last } else { now })
                }
            };
            passed.push((name, state));
        }
        self.states.extend(passed);
        true
    }
}

/// Gaps in milliseconds: mostly zero, then around one token's time at common rates.
fn gaps_ms() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => Just(0_u64), 3 => proptest::sample::select(vec![1, 99, 100, 101, 142, 143, 199, 200, 333, 334]),
        2 => 0..1_000_u64, 1 => 0..60_000_u64,
    ]
}

fn limits() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let rate = proptest::sample::select(vec![1, 2, 3, 5, 7, 10, 13, 60, 100, 999, 1_000]);
    let burst = prop_oneof![4 => 0..6_u32, 1 => Just(20), 1 => 0..200_u32];
    vec((rate, burst), 1..3)
}

proptest! {
    #![proptest_config(cases(1_500))]

    // Fails when a refill sets `since` to now; a cost above the remaining tokens fits; a refused batch
    // keeps what its passing limits spent.
    #[test]
    fn generated_traces_are_decided_like_nginx_formula(
        limits in limits(),
        start in 0..2_000_000_000_000_u64,
        requests in vec((gaps_ms(), proptest::sample::select(vec!["a", "a", "a", "b", ""]), any::<bool>()), 1..300),
    ) {
        let (location, mut nginx) = (Location::new(&limits), Nginx::new(&limits));
        let mut now = start;
        for (gap, key, swapped) in requests {
            now += gap;
            let keys = if swapped { [key, "shared"] } else { ["shared", key] };
            let ours = location.request(now, &keys[..limits.len()]);
            let theirs = nginx.request(now.try_into().unwrap(), &keys[..limits.len()]);
            prop_assert_eq!(ours.committed, theirs, "{:?} at {}: {:?}", keys, now, ours);
        }
    }
}
