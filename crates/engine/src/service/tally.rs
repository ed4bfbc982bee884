//! Metrics of a decision: some arithmetic per descriptor, without locks, and without a lookup by name
//! if a rule matched.

use super::decided::only_watches;
use super::in_force::InForce;
use super::{Asked, Code};
use crate::ruleset::{Extras, joined};
use hivemind_core::Descriptor;
use hivemind_core::rules::RuleMatch;
use hivemind_core::store::{Charge, Op, Verdict};
use hivemind_telemetry::{ChargeOutcome, DomainSeries, RankBy, RuleCounters, RuleId, StatName, Stats};
use std::sync::atomic::Ordering;

/// Records the metrics of one request.
pub(super) struct Tally<'r, 'a> {
    pub(super) stats: &'r Stats,
    pub(super) in_force: &'r InForce,
    pub(super) asked: &'r Asked<'a>,
    pub(super) near_limit_ratio: f32,
    /// Whether the batch was committed.
    pub(super) committed: bool,
    domain: Option<&'r DomainSeries>,
}

/// Result of one descriptor with its inputs.
pub(super) struct Answered<'t, 'd> {
    pub(super) ruling: &'t RuleMatch<'t>,
    pub(super) descriptor: &'t Descriptor<'d>,
    pub(super) extras: Option<&'t Extras>,
    /// Its first charge; all charges of a descriptor have the same key parts.
    pub(super) charge: Option<&'t Charge<'t>>,
    pub(super) strictest: Option<(&'t Charge<'t>, &'t Verdict)>,
    pub(super) code: Code,
    /// Whether its key is blocked; its counter was not read then.
    pub(super) is_blocked: bool,
}

impl<'r, 'a> Tally<'r, 'a> {
    pub(super) fn new(
        stats: &'r Stats,
        in_force: &'r InForce,
        asked: &'r Asked<'a>,
        near_limit_ratio: f32,
        committed: bool,
    ) -> Self {
        Self { stats, in_force, asked, near_limit_ratio, committed, domain: None }
    }

    /// The series of the request's domain.
    pub(super) fn domain(&mut self) -> &'r DomainSeries {
        if let Some(domain) = self.domain {
            return domain;
        }
        let domain = self.in_force.domain(self.asked.domain).unwrap_or_else(|| {
            self.stats.rules.domain_not_found(self.asked.domain);
            self.stats.series.other()
        });
        self.domain = Some(domain);
        domain
    }

    pub(super) fn count(&mut self, answered: &Answered<'_, '_>) {
        let counted = self.in_force.counted(answered.ruling.declared);
        if let Some(counted) = counted {
            self.domain = Some(&counted.domain);
        }
        let series = counted.map_or_else(|| &self.domain().unmatched, |counted| &counted.key);
        let over = answered.code == Code::OverLimit;
        let count = if over { &series.over_limit } else { &series.ok };
        count.fetch_add(1, Ordering::Relaxed);
        if let (Some(counted), Some((charge, verdict))) = (counted, answered.strictest)
            && !answered.is_blocked
            && let Some(level) = counted.level(charge.limit.period())
        {
            level.set(u64::from(charge.limit.burst()).saturating_sub(verdict.remaining));
        }
        if let Some(charge) = answered.charge {
            let rules = self.in_force.number;
            // A blocked key was not refused by a rule.
            let rule = answered.ruling.declared.filter(|_| !answered.is_blocked);
            let charge = (charge, rule.map(|number| RuleId { rules, number }));
            if over {
                self.stats.top.record(RankBy::Denied, charge, 1, self.asked.now);
            } else if self.committed && answered.descriptor.op == Op::Spend {
                let hits = answered.descriptor.cost.get();
                self.stats.top.record(RankBy::Spent, charge, hits, self.asked.now);
            }
        }
        self.count_as_reference(answered);
    }

    fn count_as_reference(&self, answered: &Answered<'_, '_>) {
        let Answered { ruling, descriptor, extras, strictest, .. } = *answered;
        let of_request;
        let domain = self.asked.domain;
        let counters: &RuleCounters = match (self.in_force.counted(ruling.declared), extras) {
            (Some(counted), Some(extras)) => {
                if let Some(counters) = &counted.counters {
                    counters
                } else {
                    let name = StatName::new(domain, extras.stat.name(ruling.entries));
                    of_request = self.stats.rules.of_request(&name);
                    &of_request
                }
            }
            // A limit sent with the request is counted under all its values.
            _ if !ruling.charges.is_empty() => {
                let parts = ruling.entries.iter().map(|entry| joined(*entry));
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
                shadow: only_watches(ruling) && !answered.is_blocked,
            },
            None => {
                ChargeOutcome { hits, limit: u64::MAX, available: u64::MAX, refused: false, shadow: false }
            }
        };
        counters.count(charged, self.near_limit_ratio);
    }
}
