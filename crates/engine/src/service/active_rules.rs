//! Active rules with their statistics.

use crate::ruleset::Ruleset;
use crate::storage::OnError;
use hivemind_core::rules::{ResolvedRequest, RuleMatch};
use hivemind_core::{Limit, Matcher, Period, Timestamp};
use hivemind_telemetry::{DomainSeries, KeySeries, LimitUsage, RuleCounters, StatName, Stats};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The active rule set with the metric series of its rules.
pub(super) struct ActiveRules {
    /// Whether rules were loaded; false for the empty set used until then.
    pub(super) loaded: bool,
    /// Unique for each load. A rule's index is valid only together with this number.
    pub(super) number: u64,
    pub(super) ruleset: Ruleset,
    /// By index of the declaration.
    counted: Vec<RuleSeries>,
    domains: HashMap<String, Arc<DomainSeries>>,
}

/// Metric series of one rule.
pub(super) struct RuleSeries {
    /// Counters with the reference service's names; none if the name depends on the request.
    pub(super) counters: Option<Arc<RuleCounters>>,
    pub(super) domain: Arc<DomainSeries>,
    pub(super) key: Arc<KeySeries>,
    levels: SmallVec<[(Period, Arc<LimitUsage>); 1]>,
}

impl RuleSeries {
    /// The usage level of its limits with this period.
    pub(super) fn level(&self, period: Period) -> Option<&LimitUsage> {
        self.levels.iter().find(|(of, _)| *of == period).map(|(_, level)| &**level)
    }
}

impl ActiveRules {
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
            RuleSeries {
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

    pub(super) fn counted(&self, declared: Option<usize>) -> Option<&RuleSeries> {
        declared.and_then(|number| self.counted.get(number))
    }

    /// Admitted and refused hits of a rule. If statistics include the values of requests, the rule has no counters of
    /// its own, and this is the sum of all rules with its keys.
    pub(super) fn hits(&self, number: usize) -> (u64, u64) {
        let Some(counted) = self.counted(Some(number)) else { return (0, 0) };
        let (ok, over) = match &counted.counters {
            Some(counters) => (&counters.within_limit, &counters.over_limit),
            None => (&counted.key.ok, &counted.key.over_limit),
        };
        (ok.load(Ordering::Relaxed), over.load(Ordering::Relaxed))
    }

    /// The series of a domain that has rules.
    pub(super) fn domain(&self, name: &str) -> Option<&DomainSeries> {
        self.domains.get(name).map(|series| &**series)
    }

    /// The policy of each charge while the store is unavailable: `on_error` of its rule, otherwise `for_all`.
    pub(super) fn policies(
        &self,
        resolved: &ResolvedRequest<'_>,
        for_all: OnError,
    ) -> SmallVec<[OnError; 2]> {
        let of_match = |rule_match: RuleMatch<'_>| {
            let extras = rule_match.declared.and_then(|number| self.ruleset.extras.get(number));
            let policy = extras.and_then(|extras| extras.on_error).unwrap_or(for_all);
            std::iter::repeat_n(policy, rule_match.charges.len())
        };
        resolved.rule_matches().flat_map(of_match).collect()
    }
}
