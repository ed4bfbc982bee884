//! Tests of the `on_error` policies, alone and combined, with a shared store that fails on demand.

use super::{OnError, Storage};
use crate::rule_files::parse_rules;
use crate::ruleset::Ruleset;
use crate::service::{Code, DecisionRequest, DecisionResponse, Options, Service};
use crate::testing::options;
use hivemind_core::store::{
    Charge, Context, Key, KeySeed, LocalStore, MemoryStore, OnRefusal, Op, Store, StoreError, StoreOptions,
    Verdicts,
};
use hivemind_core::{Descriptor, Limit, Timestamp};
use hivemind_telemetry::Frontend;
use hivemind_telemetry::{Fallbacks, Stats};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A remote store whose connection can be broken.
struct Far {
    memory: MemoryStore,
    is_broken: AtomicBool,
}

impl Store for Far {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(StoreError::Unreachable { reason: "no route".into() });
        }
        Ok(self.memory.decide_now(batch, context))
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.forget_now(charge.key);
        Ok(())
    }
}

const RULES: &str = "
domain: d
descriptors:
- {key: plain, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: open, rate_limit: {unit: hour, requests_per_unit: 2, on_error: open}}
- {key: closed, rate_limit: {unit: hour, requests_per_unit: 2, on_error: closed}}
- {key: local, rate_limit: {unit: hour, requests_per_unit: 2, on_error: local}}
- {key: watched, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 2, on_error: closed}}
- {key: quota_open, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2, on_error: open}}
- {key: quota_closed, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2, on_error: closed}}
- {key: quota_local, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2, on_error: local}}
- {key: granted_open, response: {quota: {id: q}}, rate_limit: {unit: hour, requests_per_unit: 2, on_error: open}}
- {key: granted_local, response: {quota: {id: q}}, rate_limit: {unit: hour, requests_per_unit: 2, on_error: local}}
";

struct Setup {
    far: Arc<Far>,
    storage: Arc<Storage<Far>>,
    service: Service<Far>,
}

impl Setup {
    fn new(on_error: OnError) -> Self {
        Self::with(on_error, OnRefusal::CountRefusing)
    }

    fn with(on_error: OnError, on_refusal: OnRefusal) -> Self {
        let setup = Self::before(on_error, on_refusal);
        setup.storage.set_connected();
        setup
    }

    /// With a shared store that was never connected.
    fn unmet(on_error: OnError) -> Self {
        Self::before(on_error, OnRefusal::CountRefusing)
    }

    fn before(on_error: OnError, on_refusal: OnRefusal) -> Self {
        let memory = || MemoryStore::new(StoreOptions::default());
        let far = Arc::new(Far { memory: memory(), is_broken: AtomicBool::new(true) });
        let storage = Arc::new(Storage::shared(Arc::clone(&far), memory(), on_error));
        let options = Options { on_refusal, response_headers: None, dynamic_metadata: false, ..options() };
        let (seed, stats) = (KeySeed::random(), Arc::<Stats>::default());
        let service = Service::new(Ruleset::default(), Arc::clone(&storage), seed, options, stats);
        service.reload(parse_rules("rules", RULES).unwrap().ruleset);
        Self { far, storage, service }
    }

    fn breaks(&self, is_broken: bool) {
        self.far.is_broken.store(is_broken, Ordering::Relaxed);
    }

    /// Requests one hit on each key. Returns whether it passes, and each status as `OK remaining` or `OVER reset`.
    async fn ask(&self, keys: &str) -> (bool, String) {
        self.ask_to(keys, Op::Spend).await
    }

    async fn ask_to(&self, keys: &str, op: Op) -> (bool, String) {
        let entries: Vec<[(&str, &str); 1]> = keys.split(' ').map(|key| [(key, "v")]).collect();
        let descriptor = |entries| Descriptor { op, ..Descriptor::new(entries) };
        let descriptors: Vec<Descriptor<'_>> = entries.iter().map(|entry| descriptor(entry)).collect();
        let request = DecisionRequest {
            domain: "d",
            descriptors: &descriptors,
            metadata: &serde_json::Map::new,
            now: NOW,
            frontend: Frontend::Grpc,
        };
        self.service
            .decide(&request, None, None, |answer| {
                let statuses = answer.statuses.iter().map(|status| match status.code {
                    Code::Ok => format!("OK {}", status.remaining),
                    Code::OverLimit => format!("OVER {}s", status.reset_seconds().unwrap()),
                });
                (answer.overall == Code::Ok, statuses.collect::<Vec<_>>().join(", "))
            })
            .await
    }

    /// The quota granted for one hit on a key, if any.
    async fn granted(&self, key: &str) -> Option<u32> {
        let entries = [(key, "v")];
        let descriptors = [Descriptor::new(&entries)];
        let request = DecisionRequest {
            domain: "d",
            descriptors: &descriptors,
            metadata: &serde_json::Map::new,
            now: NOW,
            frontend: Frontend::Grpc,
        };
        let grant =
            |answer: &DecisionResponse<'_>| answer.statuses[0].grant.as_ref().map(|grant| grant.requests);
        match self.service.decide_at_once(&request, None, grant) {
            Some(granted) => granted,
            None => self.service.decide(&request, None, None, grant).await,
        }
    }

    async fn local_left(&self) -> String {
        self.ask_to("local", Op::Peek).await.1
    }
}

fn outcome(passes: bool, statuses: &str) -> (bool, String) {
    (passes, statuses.to_owned())
}

// Seen failing on: only the default policy was used.
#[tokio::test]
async fn rule_policy_overrides_the_default_policy() {
    for (on_error, plain) in [
        (OnError::Open, [(true, "OK 2"), (true, "OK 2"), (true, "OK 2")]),
        (OnError::Closed, [(false, "OVER 1s"), (false, "OVER 1s"), (false, "OVER 1s")]),
        (OnError::Local, [(true, "OK 1"), (true, "OK 0"), (false, "OVER 2800s")]),
    ] {
        let setup = Setup::new(on_error);
        for (passes, statuses) in plain {
            assert_eq!(setup.ask("plain").await, outcome(passes, statuses), "{on_error:?}");
        }
        for _ in 0..3 {
            assert_eq!(setup.ask("open").await, outcome(true, "OK 2"));
            assert_eq!(setup.ask("closed").await, outcome(false, "OVER 1s"));
            assert_eq!(setup.ask("watched").await, outcome(true, "OK 0"), "shadow rules do not refuse");
        }
        assert_eq!(setup.ask("local").await, outcome(true, "OK 1"));
    }
}

// Seen failing on: only the default policy was used.
#[tokio::test]
async fn policies_of_one_request_combine_like_limits() {
    for (keys, passes, statuses, local_left) in [
        ("open local", true, "OK 2, OK 1", "OK 1"),
        ("local open local", true, "OK 1, OK 2, OK 0", "OVER 2800s"),
        ("closed local", false, "OVER 1s, OK 2", "OK 2"),
        ("local closed open", false, "OK 2, OVER 1s, OK 2", "OK 2"),
        ("watched local", true, "OK 0, OK 1", "OK 1"),
        ("quota_open local", true, "OK 2, OK 1", "OK 1"),
        ("quota_closed local", false, "OVER 1s, OK 2", "OK 2"),
        ("quota_closed quota_open local", true, "OVER 1s, OK 2, OK 1", "OK 1"),
        ("quota_closed quota_local local", true, "OVER 1s, OK 1, OK 1", "OK 1"),
        ("local local local", false, "OK 2, OK 2, OVER 2800s", "OK 1"),
        ("watched local local local", false, "OK 0, OK 2, OK 2, OVER 2800s", "OK 1"),
    ] {
        for on_refusal in [OnRefusal::CountRefusing, OnRefusal::CountAll, OnRefusal::CountNone] {
            if keys.ends_with("local local local") && on_refusal != OnRefusal::CountRefusing {
                continue; // The memory store's handling of refusals is tested in the core.
            }
            let setup = Setup::with(OnError::Open, on_refusal);
            assert_eq!(setup.ask(keys).await, outcome(passes, statuses), "{keys}, {on_refusal:?}");
            assert_eq!(setup.local_left().await, local_left, "{keys}, {on_refusal:?}");
        }
    }
}

#[tokio::test]
async fn refund_and_debit_are_never_refused_in_an_outage() {
    let setup = Setup::new(OnError::Closed);
    assert_eq!(setup.ask_to("closed", Op::Refund).await, outcome(true, "OK 2"));
    assert_eq!(setup.ask_to("closed local", Op::Debit).await, outcome(true, "OK 2, OK 1"));
    assert_eq!(setup.ask_to("closed local", Op::Refund).await, outcome(true, "OK 2, OK 2"));
    assert_eq!(setup.ask_to("closed", Op::Peek).await, outcome(false, "OVER 1s"));
}

#[tokio::test]
async fn shared_store_decides_again_after_reconnect() {
    let setup = Setup::new(OnError::Local);
    setup.breaks(false);
    assert_eq!(setup.ask("plain").await, outcome(true, "OK 1"));
    setup.breaks(true);
    assert_eq!(setup.ask("plain").await, outcome(true, "OK 1"), "the local counters are empty");
    setup.breaks(false);
    assert_eq!(setup.ask("plain").await, outcome(true, "OK 0"), "the shared counters are unchanged");
    assert_eq!(setup.storage.fallbacks(), Fallbacks { local: 1, ..Fallbacks::default() });
}

#[tokio::test]
async fn fallback_grants_no_quota() {
    let setup = Setup::new(OnError::Open);
    for key in ["granted_open", "granted_local"] {
        assert_eq!(setup.granted(key).await, None, "{key}: the store fails");
        setup.storage.set_lost("no route".into());
        assert_eq!(setup.granted(key).await, None, "{key}: it is known to be unavailable");
        setup.breaks(false);
        setup.storage.set_connected();
        assert_eq!(setup.granted(key).await, Some(1), "{key}: it reconnected");
        setup.breaks(true);
    }
    let unmet = Setup::unmet(OnError::Open);
    assert_eq!(unmet.granted("granted_open").await, None, "it was never connected");
}

// Seen failing on: `was_connected` true from the start.
#[tokio::test]
async fn node_decides_locally_before_the_first_connection() {
    let setup = Setup::new(OnError::Closed);
    let storage =
        Storage::shared(Arc::clone(&setup.far), MemoryStore::new(StoreOptions::default()), OnError::Closed);
    let limit = Limit::fixed_window(2, hivemind_core::Period::HOUR);
    let entries = [("k", "v")];
    let parts = hivemind_core::store::Parts { domain: "d", entries: &entries };
    let key = Key::new(&KeySeed::random(), parts, &limit, 0);
    let (op, mode) = (Op::Spend, hivemind_core::store::Mode::Enforce);
    let charge = Charge { op, mode, ..Charge::spend(key, parts, &limit) };
    for passes in [true, true, false] {
        let decided = storage.try_decide(&[charge], Context::at(NOW)).expect("at once");
        assert_eq!(decided.committed, passes);
    }
    assert_eq!(storage.fallbacks(), Fallbacks { start: 3, ..Fallbacks::default() });
    storage.set_connected();
    assert!(storage.try_decide(&[charge], Context::at(NOW)).is_none());
    let lost = storage.decide(&[charge], Context::at(NOW)).await;
    assert!(matches!(lost, Err(StoreError::Unreachable { .. })), "{lost:?}");
    setup.breaks(false);
    assert!(storage.decide(&[charge], Context::at(NOW)).await.unwrap().committed);
}

// Seen failing on: `decide_at_once` left its fast path for a store known to be unavailable.
#[tokio::test]
async fn request_does_not_wait_for_a_lost_store() {
    let setup = Setup::new(OnError::Closed);
    let entries = [("plain", "v")];
    let descriptors = [Descriptor::new(&entries)];
    let request = DecisionRequest {
        domain: "d",
        descriptors: &descriptors,
        metadata: &serde_json::Map::new,
        now: NOW,
        frontend: Frontend::Grpc,
    };
    let at_once = || setup.service.decide_at_once(&request, None, |answer| answer.overall);
    assert_eq!(at_once(), None, "the store may still respond");
    setup.storage.set_lost("no route".into());
    assert_eq!(at_once(), Some(Code::OverLimit));
    setup.breaks(false);
    setup.storage.set_connected();
    assert_eq!(at_once(), None);
    assert_eq!(setup.ask("plain").await, outcome(true, "OK 1"));
}

#[tokio::test]
async fn local_policy_serves_frontends_without_rules() {
    let setup = Setup::new(OnError::Local);
    let limit = Limit::fixed_window(1, hivemind_core::Period::HOUR);
    let entries = [("client", "a")];
    let parts = hivemind_core::store::Parts { domain: "http", entries: &entries };
    let key = Key::new(&KeySeed::random(), parts, &limit, 0);
    let (op, mode) = (Op::Spend, hivemind_core::store::Mode::Enforce);
    let charge = Charge { op, mode, ..Charge::spend(key, parts, &limit) };
    for passes in [true, false] {
        assert_eq!(setup.storage.decide(&[charge], Context::at(NOW)).await.unwrap().committed, passes);
    }
    assert_eq!(setup.storage.fallbacks(), Fallbacks { local: 2, ..Fallbacks::default() });
}
