//! Metrics of a decision: some arithmetic per descriptor, without locks, and without a lookup by name
//! if a rule matched.

use super::active_rules::ActiveRules;
use super::batch_decision::is_shadow;
use super::{Code, DecisionRequest};
use crate::ruleset::{Extras, joined};
use hivemind_core::Descriptor;
use hivemind_core::rules::RuleMatch;
use hivemind_core::store::{Charge, Op, Verdict};
use hivemind_telemetry::{ChargeOutcome, DomainSeries, RankBy, RuleCounters, RuleId, StatName, Stats};
use std::sync::atomic::Ordering;

/// Records the metrics of one request.
pub(super) struct RequestMetrics<'r, 'a> {
    pub(super) stats: &'r Stats,
    pub(super) active: &'r ActiveRules,
    pub(super) request: &'r DecisionRequest<'a>,
    pub(super) near_limit_ratio: f32,
    /// Whether the batch was committed.
    pub(super) committed: bool,
    domain: Option<&'r DomainSeries>,
}

/// Result of one descriptor with its inputs.
pub(super) struct DescriptorResult<'t, 'd> {
    pub(super) rule_match: &'t RuleMatch<'t>,
    pub(super) descriptor: &'t Descriptor<'d>,
    pub(super) extras: Option<&'t Extras>,
    /// Its first charge; all charges of a descriptor have the same key parts.
    pub(super) charge: Option<&'t Charge<'t>>,
    pub(super) strictest: Option<(&'t Charge<'t>, &'t Verdict)>,
    pub(super) code: Code,
    /// Whether its key is blocked; its counter was not read then.
    pub(super) is_blocked: bool,
}

impl<'r, 'a> RequestMetrics<'r, 'a> {
    pub(super) fn new(
        stats: &'r Stats,
        active: &'r ActiveRules,
        request: &'r DecisionRequest<'a>,
        near_limit_ratio: f32,
        committed: bool,
    ) -> Self {
        Self { stats, active, request, near_limit_ratio, committed, domain: None }
    }

    /// The series of the request's domain.
    pub(super) fn domain(&mut self) -> &'r DomainSeries {
        if let Some(domain) = self.domain {
            return domain;
        }
        let domain = self.active.domain(self.request.domain).unwrap_or_else(|| {
            self.stats.rules.domain_not_found(self.request.domain);
            self.stats.series.other()
        });
        self.domain = Some(domain);
        domain
    }

    pub(super) fn count(&mut self, result: &DescriptorResult<'_, '_>) {
        let counted = self.active.counted(result.rule_match.declared);
        if let Some(counted) = counted {
            self.domain = Some(&counted.domain);
        }
        let series = counted.map_or_else(|| &self.domain().unmatched, |counted| &counted.key);
        let over = result.code == Code::OverLimit;
        let count = if over { &series.over_limit } else { &series.ok };
        count.fetch_add(1, Ordering::Relaxed);
        if let (Some(counted), Some((charge, verdict))) = (counted, result.strictest)
            && !result.is_blocked
            && let Some(level) = counted.level(charge.limit.period())
        {
            level.set(u64::from(charge.limit.burst()).saturating_sub(verdict.remaining));
        }
        if let Some(charge) = result.charge {
            let rules = self.active.number;
            // A blocked key was not refused by a rule.
            let rule = result.rule_match.declared.filter(|_| !result.is_blocked);
            let charge = (charge, rule.map(|number| RuleId { rules, number }));
            if over {
                self.stats.top.record(RankBy::Denied, charge, 1, self.request.now);
            } else if self.committed && result.descriptor.op == Op::Spend {
                let hits = result.descriptor.cost.get();
                self.stats.top.record(RankBy::Spent, charge, hits, self.request.now);
            }
        }
        self.count_as_reference(result);
    }

    fn count_as_reference(&self, result: &DescriptorResult<'_, '_>) {
        let DescriptorResult { rule_match, descriptor, extras, strictest, .. } = *result;
        let of_request;
        let domain = self.request.domain;
        let counters: &RuleCounters = match (self.active.counted(rule_match.declared), extras) {
            (Some(counted), Some(extras)) => {
                if let Some(counters) = &counted.counters {
                    counters
                } else {
                    let name = StatName::new(domain, extras.stat.name(rule_match.entries));
                    of_request = self.stats.rules.of_request(&name);
                    &of_request
                }
            }
            // A limit sent with the request is counted under all its values.
            _ if !rule_match.charges.is_empty() => {
                let parts = rule_match.entries.iter().map(|entry| joined(*entry));
                of_request = self.stats.rules.of_request(&StatName::new(domain, parts.collect()));
                &of_request
            }
            _ => return,
        };
        let hits = descriptor.cost.get();
        if descriptor.op == Op::Refund {
            counters.refund(hits);
            return;
        }
        let charged = match strictest {
            Some((charge, verdict)) => ChargeOutcome {
                hits,
                limit: u64::from(charge.limit.burst()),
                available: verdict.available,
                refused: !verdict.is_admitted(),
                shadow: is_shadow(rule_match) && !result.is_blocked,
            },
            None => {
                ChargeOutcome { hits, limit: u64::MAX, available: u64::MAX, refused: false, shadow: false }
            }
        };
        counters.count(charged, self.near_limit_ratio);
    }
}
