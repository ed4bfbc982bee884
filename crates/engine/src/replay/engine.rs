//! Replay engine: the real rules and memory store, with recorded times as the clock.

use super::recorded_request::RecordedRequest;
use hivemind_core::store::{Context, KeySeed, LocalStore, MemoryStore, Mode, OnRefusal, Op, StoreOptions};
use hivemind_core::{Cost, Decision, Descriptor, Rules, Timestamp};
use std::time::Duration;

/// Interval of sweeps in recorded time.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Decision of a recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayDecision {
    pub allow: bool,
    pub remaining: Option<u64>,
    pub retry_after_ms: Option<u64>,
}

/// Decides recorded requests.
pub struct Engine {
    rules: Rules,
    store: MemoryStore,
    seed: KeySeed,
    on_refusal: OnRefusal,
    swept_at: Timestamp,
}

impl Engine {
    pub fn new(rules: Rules, max_keys: usize, on_refusal: OnRefusal) -> Self {
        let seed = KeySeed::random();
        let store = MemoryStore::new(StoreOptions { max_keys, ..StoreOptions::default() });
        Self { rules: rules.seeded(seed), store, seed, on_refusal, swept_at: Timestamp::EPOCH }
    }

    pub fn decide(&mut self, recorded: &RecordedRequest<'_>) -> ReplayDecision {
        let entries = recorded.entries();
        self.decide_all(recorded.at(), &recorded.domain, &[recorded.descriptor(&entries)], |_| {})
    }

    /// Decides all descriptors of a request in one step, and reports for each, in order, whether it is over a limit.
    pub(crate) fn decide_all(
        &mut self,
        now: Timestamp,
        domain: &str,
        descriptors: &[Descriptor<'_>],
        mut is_over: impl FnMut(bool),
    ) -> ReplayDecision {
        // Recorded times may go backwards.
        if now.since(self.swept_at).max(self.swept_at.since(now)) >= SWEEP_EVERY {
            self.store.sweep(now);
            self.swept_at = now;
        }
        let resolved = self.rules.resolve(domain, descriptors);
        let charges = resolved.charges(&self.seed);
        let context = Context { now, deadline: None, on_refusal: self.on_refusal };
        let verdicts = self.store.decide_now(&charges, context);
        for rule_match in resolved.rule_matches() {
            let judged = charges
                .iter()
                .zip(verdicts.each())
                .skip(rule_match.charges.start)
                .take(rule_match.charges.len());
            let mut refusing =
                judged.filter(|(charge, verdict)| charge.mode != Mode::Shadow && !verdict.is_admitted());
            is_over(!verdicts.committed && refusing.next().is_some());
        }
        let decision = Decision::new(&charges, &verdicts);
        ReplayDecision {
            allow: decision.is_allowed(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(whole_millis),
        }
    }

    /// Number of decisions that shared a counter because the store was full.
    pub fn overflowed(&self) -> u64 {
        self.store.occupancy().overflowed
    }
}

impl RecordedRequest<'_> {
    /// The time of the request, in the precision of the recording.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.t_ms)
    }

    pub fn entries(&self) -> Vec<(&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect()
    }

    /// The request's descriptor with these entries.
    pub fn descriptor<'e>(&self, entries: &'e [(&'e str, &'e str)]) -> Descriptor<'e> {
        Descriptor { cost: Cost::new(self.hits), op: Op::Spend, ..Descriptor::new(entries) }
    }
}

/// Rounded up, because a retry a millisecond earlier would be refused.
fn whole_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
