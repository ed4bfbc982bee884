//! Protocol-independent rate limit service: takes a request with descriptors, returns statuses and response parts.
//! All frontends that use descriptors call [`Service`].

mod answer;
mod asked_about;
mod decided;
mod in_force;
mod remembered;
mod tally;
mod traced;

pub use answer::{Answer, Code, CurrentLimit, Grant, Status};

use crate::ruleset::Ruleset;
use crate::storage::{SharedStore, Storage};
use arc_swap::ArcSwap;
use decided::{Decided, only_watches, status_of};
use hivemind_core::rules::{ResolvedRequest, RuleMatch};
use hivemind_core::store::{Charge, Context, KeySeed, Mode, OnRefusal, Store};
use hivemind_core::{Clock, Descriptor, Rules, SystemClock, Timestamp};
use hivemind_telemetry::Frontend;
use hivemind_telemetry::Stats;
use hivemind_telemetry::logging::DecisionLog;
use hivemind_telemetry::trace::{DecisionSpan, SpanStage, Tracer};
use in_force::InForce;
use serde_json::{Map, Value};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tally::{Answered, Tally};
use traced::{has_waited, note, tell};

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
pub struct Asked<'a> {
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
    in_force: ArcSwap<InForce>,
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
        let mut in_force = InForce::new(ruleset, &stats, SystemClock.now());
        in_force.loaded = false;
        let in_force = ArcSwap::from_pointee(in_force);
        let decisions = Arc::default();
        Self { in_force, storage, seed, clock: SystemClock, options, stats, decisions, tracer: None }
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
        self.in_force.load().loaded
    }

    /// Calls `show` with the active rules.
    pub fn with_rules<T>(&self, show: impl FnOnce(&Rules) -> T) -> T {
        show(&self.in_force.load().ruleset.rules)
    }

    /// The number of the active rules; it changes with each load.
    pub fn rules_number(&self) -> u64 {
        self.in_force.load().number
    }

    /// Calls `show` with the active rules, their extras, and a function that returns the admitted and refused hits of a
    /// rule by its number.
    pub fn with_ruleset<T>(&self, show: impl FnOnce(&Ruleset, &dyn Fn(usize) -> (u64, u64)) -> T) -> T {
        // `load_full` clones the Arc. A guard held this long would slow down all other loads.
        let in_force = self.in_force.load_full();
        show(&in_force.ruleset, &|number| in_force.hits(number))
    }

    /// The options that do not change while it runs.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Activates the rules; returns how long to keep counters that look idle under the new rules.
    fn put_in_force(&self, ruleset: Ruleset) -> Option<Duration> {
        let ruleset = Ruleset { rules: ruleset.rules.seeded(self.seed), ..ruleset };
        let next = Arc::new(InForce::new(ruleset, &self.stats, self.clock.now()));
        let before = self.in_force.swap(Arc::clone(&next));
        let memory = next.ruleset.rules.longest_memory_after(&before.ruleset.rules);
        drop(before);
        self.stats.drop_unused();
        memory
    }

    /// Activates the rules from the next request on; counters are kept.
    pub fn reload(&self, ruleset: Ruleset) {
        if let Some(memory) = self.put_in_force(ruleset) {
            let now = self.clock.now();
            self.storage.memory().hold(now, now.saturating_add(memory));
        }
    }
}

impl<R: Store> Service<R> {
    /// Decides all descriptors of a request in one step and calls `show` with the answer. Returns `None` if
    /// the store would have to wait: nothing was recorded, and `show` was not called.
    pub fn decide_at_once<T>(
        &self,
        asked: &Asked<'_>,
        mut span: Option<&mut DecisionSpan>,
        show: impl FnOnce(&Answer<'_>) -> T,
    ) -> Option<T> {
        if !self.options.enabled {
            return Some(show(&self.unlimited(asked)));
        }
        note(&mut span, SpanStage::Resolve);
        let in_force = self.in_force.load();
        let resolved = in_force.ruleset.rules.resolve(asked.domain, asked.descriptors);
        let charges = self.charges(&resolved);
        let context = self.context(asked, None);
        note(&mut span, SpanStage::Count);
        let is_shared = !self.storage.is_alone();
        let (ruled, is_counted) = if let Some(ruled) = self.storage.ask_at_once(&charges, context) {
            (ruled, is_shared)
        } else {
            let error = self.storage.lost()?;
            let policies = in_force.policies(&resolved, self.storage.on_error());
            (self.storage.fall_back(&charges, &policies, context, &error), false)
        };
        let decided = Decided::of(&resolved, &charges, ruled, is_counted);
        note(&mut span, if is_counted { SpanStage::Counted } else { SpanStage::FellBack });
        let answer = self.answer(&in_force, asked, &decided);
        tell(span, &in_force, asked, &answer);
        Some(show(&answer))
    }

    /// Like [`Service::decide_at_once`], but waits for the store. If it fails, the rules' `on_error` policies decide.
    pub async fn decide<T>(
        &self,
        asked: &Asked<'_>,
        deadline: Option<Timestamp>,
        mut span: Option<&mut DecisionSpan>,
        show: impl FnOnce(&Answer<'_>) -> T,
    ) -> T {
        if !self.options.enabled {
            return show(&self.unlimited(asked));
        }
        note(&mut span, SpanStage::Resolve);
        // `load_full` clones the Arc. A guard held while waiting would slow down all other loads.
        let in_force = self.in_force.load_full();
        let resolved = in_force.ruleset.rules.resolve(asked.domain, asked.descriptors);
        let charges = self.charges(&resolved);
        let context = self.context(asked, deadline);
        let is_shared = !self.storage.is_alone();
        note(&mut span, SpanStage::Count);
        let (asked_of_store, waited) = has_waited(self.storage.ask(&charges, context)).await;
        if waited {
            note(&mut span, SpanStage::Wait);
        }
        let (ruled, is_counted) = match asked_of_store {
            Ok(ruled) => (ruled, is_shared),
            Err(error) => {
                let policies = in_force.policies(&resolved, self.storage.on_error());
                (self.storage.fall_back(&charges, &policies, context, &error), false)
            }
        };
        let decided = Decided::of(&resolved, &charges, ruled, is_counted);
        note(&mut span, if is_counted { SpanStage::Counted } else { SpanStage::FellBack });
        let answer = self.answer(&in_force, asked, &decided);
        tell(span, &in_force, asked, &answer);
        show(&answer)
    }

    fn context(&self, asked: &Asked<'_>, deadline: Option<Timestamp>) -> Context {
        let deadline = deadline.map(|deadline| {
            let granted = deadline.since(asked.now);
            asked.now.saturating_add(granted.saturating_sub(KEPT_BACK.min(granted / 4)))
        });
        Context { now: asked.now, deadline, on_refusal: self.options.on_refusal }
    }

    fn charges<'r>(&self, resolved: &'r ResolvedRequest<'_>) -> SmallVec<[Charge<'r>; 2]> {
        let mut charges = resolved.charges(&self.seed);
        self.apply_global_modes(resolved, &mut charges);
        charges
    }

    fn apply_global_modes(&self, resolved: &ResolvedRequest<'_>, charges: &mut [Charge<'_>]) {
        // A descriptor without a matching rule, or with a shadow rule, acts as a quota with room: the request passes.
        let has_room = |ruling: RuleMatch<'_>| {
            only_watches(&ruling) || (ruling.rule.is_none() && ruling.charges.is_empty())
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
        in_force: &'r InForce,
        asked: &'r Asked<'_>,
        decided: &'r Decided<'_, '_>,
    ) -> Answer<'r> {
        let committed = decided.verdicts.committed;
        let mut tally = self
            .options
            .counts
            .then(|| Tally::new(&self.stats, in_force, asked, self.options.near_limit_ratio, committed));
        let mut answer = Answer::new(committed);
        answer.is_blocked = decided.blocked.is_some();
        let mut would_refuse = false;
        for (ruling, descriptor) in decided.resolved.rule_matches().zip(asked.descriptors) {
            let extras = ruling.declared.and_then(|number| in_force.ruleset.extras.get(number));
            let strictest = decided.strictest(&ruling);
            let is_blocked = decided.is_blocked(&ruling);
            let is_enforced = !only_watches(&ruling) || (is_blocked && !committed);
            let status = status_of(&ruling, strictest, (decided.quota(extras), is_enforced), asked.now);
            if let Some(tally) = &mut tally {
                let (charge, code) = (decided.charges.get(ruling.charges.start), status.code);
                // For a descriptor without charges, the range starts at the next descriptor's charges.
                let charge = charge.filter(|_| !ruling.charges.is_empty());
                let answered =
                    Answered { ruling: &ruling, descriptor, extras, charge, strictest, code, is_blocked };
                tally.count(&answered);
            }
            would_refuse |= status.code == Code::OverLimit;
            let is_quota = strictest.is_some_and(|(charge, _)| charge.mode == Mode::Quota);
            answer.add(status, extras, is_quota || self.options.quota_mode);
        }
        answer.domain = tally.as_mut().map(Tally::domain);
        if self.options.shadow_mode && would_refuse {
            self.stats.global_shadow_mode.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(names) = &self.options.response_headers {
            answer.add_limit_headers(names);
        }
        if self.options.dynamic_metadata {
            answer.add_dynamic_metadata((asked.metadata)());
        }
        self.decisions.log(|| answer.logged(asked));
        remembered::remember(&self.stats.ring, asked, &answer, decided.resolved);
        answer
    }

    /// The answer while rate limiting is disabled.
    fn unlimited(&self, asked: &Asked<'_>) -> Answer<'_> {
        let domain = self.options.counts.then(|| self.stats.series.other());
        let mut answer = Answer::unlimited(asked.descriptors.len());
        answer.domain = domain;
        answer
    }
}
