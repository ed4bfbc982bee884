//! Protocol-independent rate limit service: takes a request with descriptors, returns statuses and response parts.
//! All frontends that use descriptors call [`Service`].

mod active_rules;
mod batch_decision;
mod decision_response;
mod key_queries;
mod request_metrics;
mod ring_record;
mod span_record;

pub use decision_response::{Code, CurrentLimit, DecisionResponse, Grant, Status};

use crate::ruleset::Ruleset;
use crate::storage::{SharedStore, Storage};
use active_rules::ActiveRules;
use arc_swap::ArcSwap;
use batch_decision::{BatchDecision, is_shadow, status_of};
use hivemind_core::rules::{ResolvedRequest, RuleMatch};
use hivemind_core::store::{Charge, Context, KeySeed, Mode, OnRefusal, Store};
use hivemind_core::{Clock, Descriptor, Rules, SystemClock, Timestamp};
use hivemind_telemetry::Frontend;
use hivemind_telemetry::Stats;
use hivemind_telemetry::logging::DecisionLog;
use hivemind_telemetry::trace::{DecisionSpan, SpanStage, Tracer};
use request_metrics::{DescriptorResult, RequestMetrics};
use serde_json::{Map, Value};
use smallvec::SmallVec;
use span_record::{has_waited, note, tell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Options of the service that do not change while it runs.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Options {
    /// Whether rate limiting is enabled.
    pub enabled: bool,
    pub on_refusal: OnRefusal,
    /// Every request passes, with the statuses of the real decision.
    pub shadow_mode: bool,
    /// Every descriptor is a quota.
    pub quota_mode: bool,
    pub near_limit_ratio: f32,
    /// Names of the three limit headers; none if they are off.
    pub response_headers: Option<HeaderNames>,
    pub dynamic_metadata: bool,
    /// Whether metrics of requests are recorded.
    pub counts: bool,
}

#[derive(Clone, Debug)]
pub struct HeaderNames {
    pub limit: String,
    pub remaining: String,
    pub reset: String,
}

/// A request to decide.
pub struct DecisionRequest<'a> {
    pub domain: &'a str,
    pub descriptors: &'a [Descriptor<'a>],
    /// Builds the request's part of Envoy's dynamic metadata. Called only if dynamic metadata is enabled.
    pub metadata: &'a (dyn Fn() -> Map<String, Value> + Sync),
    pub now: Timestamp,
    /// The frontend that received it.
    pub frontend: Frontend,
}

/// Maximum part of a call's deadline that is reserved, so that a fallback decision still reaches the caller
/// after the store has used up the rest.
const KEPT_BACK: Duration = Duration::from_millis(100);

/// Decides requests by the active rules. `R` is the type of the shared store.
pub struct Service<R = SharedStore> {
    active: ArcSwap<ActiveRules>,
    storage: Arc<Storage<R>>,
    seed: KeySeed,
    clock: SystemClock,
    options: Options,
    stats: Arc<Stats>,
    /// None: tracing is off.
    tracer: Option<Arc<Tracer>>,
    decisions: Arc<DecisionLog>,
}

impl<R> Service<R> {
    pub fn new(
        ruleset: Ruleset,
        storage: Arc<Storage<R>>,
        seed: KeySeed,
        options: Options,
        stats: Arc<Stats>,
    ) -> Self {
        let mut active = ActiveRules::new(ruleset, &stats, SystemClock.now());
        active.loaded = false;
        let active = ArcSwap::from_pointee(active);
        let decisions = Arc::default();
        Self { active, storage, seed, clock: SystemClock, options, stats, decisions, tracer: None }
    }

    /// Writes decisions to this log.
    #[must_use]
    pub fn with_log(self, decisions: Arc<DecisionLog>) -> Self {
        Self { decisions, ..self }
    }

    /// Traces decisions with this tracer.
    #[must_use]
    pub fn traced_by(self, tracer: Option<Arc<Tracer>>) -> Self {
        Self { tracer, ..self }
    }

    /// The tracer of decisions, if tracing is on.
    #[inline]
    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.as_ref()
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The storage of its counters.
    pub fn storage(&self) -> &Storage<R> {
        &self.storage
    }

    /// What window limits record for a refused request.
    pub fn on_refusal(&self) -> OnRefusal {
        self.options.on_refusal
    }

    /// Whether metrics of requests are recorded.
    pub fn counts(&self) -> bool {
        self.options.counts
    }

    /// Whether rules were loaded.
    pub fn has_rules(&self) -> bool {
        self.active.load().loaded
    }

    /// Calls `show` with the active rules.
    pub fn with_rules<T>(&self, show: impl FnOnce(&Rules) -> T) -> T {
        show(&self.active.load().ruleset.rules)
    }

    /// The number of the active rules; it changes with each load.
    pub fn rules_number(&self) -> u64 {
        self.active.load().number
    }

    /// Calls `show` with the active rules, their extras, and a function that returns the admitted and refused hits of a
    /// rule by its number.
    pub fn with_ruleset<T>(&self, show: impl FnOnce(&Ruleset, &dyn Fn(usize) -> (u64, u64)) -> T) -> T {
        // `load_full` clones the Arc. A guard held this long would slow down all other loads.
        let active = self.active.load_full();
        show(&active.ruleset, &|number| active.hits(number))
    }

    /// The options that do not change while it runs.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Activates the rules; returns how long to keep counters that look idle under the new rules.
    fn activate(&self, ruleset: Ruleset) -> Option<Duration> {
        let ruleset = Ruleset { rules: ruleset.rules.seeded(self.seed), ..ruleset };
        let next = Arc::new(ActiveRules::new(ruleset, &self.stats, self.clock.now()));
        let before = self.active.swap(Arc::clone(&next));
        let memory = next.ruleset.rules.longest_memory_after(&before.ruleset.rules);
        free_when_unused(before);
        self.stats.drop_unused();
        memory
    }

    /// Activates the rules from the next request on; counters are kept.
    pub fn reload(&self, ruleset: Ruleset) {
        if let Some(memory) = self.activate(ruleset) {
            let now = self.clock.now();
            self.storage.memory().hold(now, now.saturating_add(memory));
        }
    }
}

/// Frees replaced rules here: with 20,000 of them, it would delay the request that uses them last.
fn free_when_unused(rules: Arc<ActiveRules>) {
    const CHECKED_EVERY: Duration = Duration::from_millis(10);
    const MOST_CHECKS: usize = 100;
    for _ in 0..MOST_CHECKS {
        if Arc::strong_count(&rules) == 1 {
            break;
        }
        std::thread::park_timeout(CHECKED_EVERY);
    }
    drop(rules);
}

impl<R: Store> Service<R> {
    /// Decides all descriptors of a request in one step and calls `show` with the answer. Returns `None` if
    /// the store would have to wait: nothing was recorded, and `show` was not called.
    pub fn decide_at_once<T>(
        &self,
        request: &DecisionRequest<'_>,
        mut span: Option<&mut DecisionSpan>,
        show: impl FnOnce(&DecisionResponse<'_>) -> T,
    ) -> Option<T> {
        if !self.options.enabled {
            return Some(show(&self.unlimited(request)));
        }
        note(&mut span, SpanStage::Resolve);
        let active = self.active.load();
        let resolved = active.ruleset.rules.resolve(request.domain, request.descriptors);
        let charges = self.charges(&resolved);
        let context = self.context(request, None);
        note(&mut span, SpanStage::Count);
        let is_shared = !self.storage.is_alone();
        let (verdicts, is_counted) = if let Some(verdicts) = self.storage.ask_at_once(&charges, context) {
            (verdicts, is_shared)
        } else {
            let error = self.storage.lost()?;
            let policies = active.policies(&resolved, self.storage.on_error());
            (self.storage.fall_back(&charges, &policies, context, &error), false)
        };
        let decided = BatchDecision::of(&resolved, &charges, verdicts, is_counted);
        note(&mut span, if is_counted { SpanStage::Counted } else { SpanStage::FellBack });
        let answer = self.answer(&active, request, &decided);
        tell(span, &active, request, &answer);
        Some(show(&answer))
    }

    /// Like [`Service::decide_at_once`], but waits for the store. If it fails, the rules' `on_error` policies decide.
    pub async fn decide<T>(
        &self,
        request: &DecisionRequest<'_>,
        deadline: Option<Timestamp>,
        mut span: Option<&mut DecisionSpan>,
        show: impl FnOnce(&DecisionResponse<'_>) -> T,
    ) -> T {
        if !self.options.enabled {
            return show(&self.unlimited(request));
        }
        note(&mut span, SpanStage::Resolve);
        // `load_full` clones the Arc. A guard held while waiting would slow down all other loads.
        let active = self.active.load_full();
        let resolved = active.ruleset.rules.resolve(request.domain, request.descriptors);
        let charges = self.charges(&resolved);
        let context = self.context(request, deadline);
        let is_shared = !self.storage.is_alone();
        note(&mut span, SpanStage::Count);
        let (store_result, waited) = has_waited(self.storage.ask(&charges, context)).await;
        if waited {
            note(&mut span, SpanStage::Wait);
        }
        let (verdicts, is_counted) = match store_result {
            Ok(verdicts) => (verdicts, is_shared),
            Err(error) => {
                let policies = active.policies(&resolved, self.storage.on_error());
                (self.storage.fall_back(&charges, &policies, context, &error), false)
            }
        };
        let decided = BatchDecision::of(&resolved, &charges, verdicts, is_counted);
        note(&mut span, if is_counted { SpanStage::Counted } else { SpanStage::FellBack });
        let answer = self.answer(&active, request, &decided);
        tell(span, &active, request, &answer);
        show(&answer)
    }

    fn context(&self, request: &DecisionRequest<'_>, deadline: Option<Timestamp>) -> Context {
        let deadline = deadline.map(|deadline| {
            let granted = deadline.since(request.now);
            request.now.saturating_add(granted.saturating_sub(KEPT_BACK.min(granted / 4)))
        });
        Context { now: request.now, deadline, on_refusal: self.options.on_refusal }
    }

    fn charges<'r>(&self, resolved: &'r ResolvedRequest<'_>) -> SmallVec<[Charge<'r>; 2]> {
        let mut charges = resolved.charges(&self.seed);
        self.apply_global_modes(resolved, &mut charges);
        charges
    }

    fn apply_global_modes(&self, resolved: &ResolvedRequest<'_>, charges: &mut [Charge<'_>]) {
        // A descriptor without a matching rule, or with a shadow rule, acts as a quota with room: the request passes.
        let has_room = |rule_match: RuleMatch<'_>| {
            is_shadow(&rule_match) || (rule_match.rule.is_none() && rule_match.charges.is_empty())
        };
        let mode = match (self.options.shadow_mode, self.options.quota_mode) {
            (true, _) => Mode::Shadow,
            (false, true) if resolved.rule_matches().any(has_room) => Mode::Shadow,
            (false, true) => Mode::Quota,
            (false, false) => return,
        };
        for charge in charges {
            charge.mode = mode;
        }
    }

    fn answer<'r>(
        &'r self,
        active: &'r ActiveRules,
        request: &'r DecisionRequest<'_>,
        decided: &'r BatchDecision<'_, '_>,
    ) -> DecisionResponse<'r> {
        let committed = decided.verdicts.committed;
        let mut tally = self.options.counts.then(|| {
            RequestMetrics::new(&self.stats, active, request, self.options.near_limit_ratio, committed)
        });
        let mut answer = DecisionResponse::new(committed);
        answer.is_blocked = decided.blocked.is_some();
        let mut would_refuse = false;
        for (rule_match, descriptor) in decided.resolved.rule_matches().zip(request.descriptors) {
            let extras = rule_match.declared.and_then(|number| active.ruleset.extras.get(number));
            let strictest = decided.strictest(&rule_match);
            let is_blocked = decided.is_blocked(&rule_match);
            let is_enforced = !is_shadow(&rule_match) || (is_blocked && !committed);
            let status = status_of(&rule_match, strictest, (decided.quota(extras), is_enforced), request.now);
            if let Some(tally) = &mut tally {
                let (charge, code) = (decided.charges.get(rule_match.charges.start), status.code);
                // For a descriptor without charges, the range starts at the next descriptor's charges.
                let charge = charge.filter(|_| !rule_match.charges.is_empty());
                let result = DescriptorResult {
                    rule_match: &rule_match,
                    descriptor,
                    extras,
                    charge,
                    strictest,
                    code,
                    is_blocked,
                };
                tally.count(&result);
            }
            would_refuse |= status.code == Code::OverLimit;
            let is_quota = strictest.is_some_and(|(charge, _)| charge.mode == Mode::Quota);
            answer.add(status, extras, is_quota || self.options.quota_mode);
        }
        answer.domain = tally.as_mut().map(RequestMetrics::domain);
        if self.options.shadow_mode && would_refuse {
            self.stats.global_shadow_mode.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(names) = &self.options.response_headers {
            answer.add_limit_headers(names);
        }
        if self.options.dynamic_metadata {
            answer.add_dynamic_metadata((request.metadata)());
        }
        self.decisions.log(|| answer.logged(request));
        ring_record::record(&self.stats.ring, request, &answer, decided.resolved);
        answer
    }

    /// The answer while rate limiting is disabled.
    fn unlimited(&self, request: &DecisionRequest<'_>) -> DecisionResponse<'_> {
        let domain = self.options.counts.then(|| self.stats.series.other());
        let mut answer = DecisionResponse::unlimited(request.descriptors.len());
        answer.domain = domain;
        answer
    }
}
