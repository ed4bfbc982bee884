//! The rules in force, with what belongs to them.

use crate::ruleset::Ruleset;
use crate::storage::OnError;
use hivemind_core::rules::{ResolvedRequest, RuleMatch};
use hivemind_core::{Limit, Matcher, Period, Timestamp};
use hivemind_telemetry::{DomainSeries, KeySeries, LimitUsage, RuleCounters, StatName, Stats};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A ruleset with the counters that its rules are counted in.
pub(super) struct InForce {
    /// Whether these are rules at all, and not what stands in for them until some are loaded.
    pub(super) loaded: bool,
    /// Another one for each load: a rule's number is its own among these only.
    pub(super) number: u64,
    pub(super) ruleset: Ruleset,
    /// By declaration.
    counted: Vec<Counted>,
    domains: HashMap<String, Arc<DomainSeries>>,
}

/// What the requests that one rule answers are counted in.
pub(super) struct Counted {
    /// Under the reference's names; none where the name depends on the request.
    pub(super) counters: Option<Arc<RuleCounters>>,
    pub(super) domain: Arc<DomainSeries>,
    pub(super) key: Arc<KeySeries>,
    levels: SmallVec<[(Period, Arc<LimitUsage>); 1]>,
}

impl Counted {
    /// How much of its limits over this period is taken.
    pub(super) fn level(&self, period: Period) -> Option<&LimitUsage> {
        self.levels.iter().find(|(of, _)| *of == period).map(|(_, level)| &**level)
    }
}

impl InForce {
    pub(super) fn new(ruleset: Ruleset, stats: &Stats, now: Timestamp) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let series = &stats.series;
        let domains = ruleset.rules.domains().map(|name| (name.to_owned(), series.domain(name, now)));
        let domains: HashMap<_, _> = domains.collect();
        let declared = ruleset.rules.declarations().zip(&ruleset.extras);
        let counted = declared.map(|((domain, path, rule), extras)| {
            let fixed = rule.is_some() && extras.stat.is_fixed();
            let keys = || path.iter().map(Matcher::key);
            let limits = rule.and_then(|rule| rule.limits()).unwrap_or_default();
            let level = |period| Some((period, series.level(domain, keys(), period)?));
            Counted {
                counters: fixed.then(|| stats.rules.of_rule(&StatName::new(domain, extras.stat.name(&[])))),
                domain: series.domain(domain, now),
                key: series.key(domain, keys(), now),
                levels: limits.iter().map(Limit::period).filter_map(level).collect(),
            }
        });
        let counted = counted.collect();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { loaded: true, number, ruleset, counted, domains }
    }

    pub(super) fn counted(&self, declared: Option<usize>) -> Option<&Counted> {
        declared.and_then(|number| self.counted.get(number))
    }

    /// How many hits the rule of this number let pass and refused. Where statistics name the values of requests, too,
    /// it has no count of its own, and this is that of all rules with its keys.
    pub(super) fn hits(&self, number: usize) -> (u64, u64) {
        let Some(counted) = self.counted(Some(number)) else { return (0, 0) };
        let (ok, over) = match &counted.counters {
            Some(counters) => (&counters.within_limit, &counters.over_limit),
            None => (&counted.key.ok, &counted.key.over_limit),
        };
        (ok.load(Ordering::Relaxed), over.load(Ordering::Relaxed))
    }

    /// The series of a domain that there are rules of.
    pub(super) fn domain(&self, name: &str) -> Option<&DomainSeries> {
        self.domains.get(name).map(|series| &**series)
    }

    /// What each charge says where the store cannot: its rule's word, else that `for_all`.
    pub(super) fn policies(
        &self,
        resolved: &ResolvedRequest<'_>,
        for_all: OnError,
    ) -> SmallVec<[OnError; 2]> {
        let of_ruling = |ruling: RuleMatch<'_>| {
            let extras = ruling.declared.and_then(|number| self.ruleset.extras.get(number));
            let policy = extras.and_then(|extras| extras.on_error).unwrap_or(for_all);
            std::iter::repeat_n(policy, ruling.charges.len())
        };
        resolved.rule_matches().flat_map(of_ruling).collect()
    }
}
