//! A service in memory, for tests and fuzz targets of the crates above.

#![expect(clippy::panic, reason = "a broken promise must end the test")]

use crate::rule_files::parse_rules;
use crate::ruleset::Ruleset;
use crate::service::{HeaderNames, Options, Service};
use crate::storage::Storage;
use hivemind_core::store::{KeySeed, MemoryStore, OnRefusal, StoreOptions};
use hivemind_telemetry::Stats;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const RULES: &str = include_str!("../../../fuzz/seeds/rule_file/every_key.yaml");

/// Rules that use every key of a rule file.
pub static EVERY_KEY: LazyLock<Ruleset> = LazyLock::new(|| match parse_rules("rules", RULES) {
    Ok(loaded) => loaded.ruleset,
    Err(problems) => panic!("{problems}"),
});

/// An empty store for 1,000 keys.
#[must_use]
pub fn store() -> MemoryStore {
    MemoryStore::new(StoreOptions { max_keys: 1_000, idle_ttl: Duration::from_secs(300) })
}

/// A service that counts in memory.
#[must_use]
pub fn service(ruleset: Ruleset, options: Options) -> Arc<Service> {
    let (storage, stats) = (Storage::in_memory(store()), Arc::new(Stats::default()));
    let service = Service::new(Ruleset::default(), Arc::new(storage), KeySeed::random(), options, stats);
    // Only loaded rules answer requests.
    service.reload(ruleset);
    Arc::new(service)
}

/// A service that counts in memory, with the default options, default telemetry and a fixed key seed.
///
/// # Panics
///
/// If the rules are invalid.
#[must_use]
pub fn default_service(rules: &str) -> Arc<Service> {
    const DECISION_RING: usize = 10_000;
    let ruleset = match parse_rules("rules", rules) {
        Ok(loaded) => loaded.ruleset,
        Err(problems) => panic!("{problems}"),
    };
    let options = Options { response_headers: None, dynamic_metadata: false, ..options() };
    let storage = Arc::new(Storage::in_memory(MemoryStore::new(StoreOptions::default())));
    let stats = Arc::new(Stats::default().with_decision_ring(DECISION_RING));
    let seed = KeySeed::new(*b"a benchmark seed");
    let service = Service::new(Ruleset::default(), storage, seed, options, stats);
    service.reload(ruleset);
    Arc::new(service)
}

/// All options that can be on.
#[must_use]
pub fn options() -> Options {
    let header = |name: &str| format!("RateLimit-{name}");
    Options {
        enabled: true,
        on_refusal: OnRefusal::CountRefusing,
        shadow_mode: false,
        quota_mode: false,
        near_limit_ratio: 0.8,
        response_headers: Some(HeaderNames {
            limit: header("Limit"),
            remaining: header("Remaining"),
            reset: header("Reset"),
        }),
        dynamic_metadata: true,
        counts: true,
    }
}
