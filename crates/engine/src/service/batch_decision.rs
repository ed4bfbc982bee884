//! A decision with its inputs, and the status of each descriptor.

use super::{Code, CurrentLimit, Grant, Status};
use crate::ruleset::{Extras, Quota};
use crate::storage::StorageVerdicts;
use hivemind_core::rules::{ResolvedRequest, RuleMatch};
use hivemind_core::store::{Charge, Mode, Outcome, Verdict, Verdicts};
use hivemind_core::{Rule, Timestamp};
use std::time::Duration;

/// A decision with the request and charges it was made for.
pub(super) struct BatchDecision<'r, 'a> {
    pub(super) resolved: &'r ResolvedRequest<'a>,
    pub(super) charges: &'r [Charge<'r>],
    pub(super) verdicts: Verdicts,
    /// Which charges are blocked; none if no charge is.
    pub(super) blocked: Option<Box<[bool]>>,
    /// Whether the owner of the counters decided, not a fallback.
    pub(super) is_counted: bool,
}

impl<'r, 'a> BatchDecision<'r, 'a> {
    pub(super) fn of(
        resolved: &'r ResolvedRequest<'a>,
        charges: &'r [Charge<'r>],
        StorageVerdicts { verdicts, blocked }: StorageVerdicts,
        is_counted: bool,
    ) -> Self {
        Self { resolved, charges, verdicts, blocked, is_counted }
    }
}

impl BatchDecision<'_, '_> {
    /// Whether a descriptor's key is blocked. Then even a shadow rule refuses.
    #[inline]
    pub(super) fn is_blocked(&self, rule_match: &RuleMatch<'_>) -> bool {
        let Some(blocked) = &self.blocked else { return false };
        blocked.get(rule_match.charges.clone()).is_some_and(|its| its.contains(&true))
    }

    /// The quota to grant from. A fallback decision grants nothing: each node would grant the whole limit,
    /// and for longer than the outage.
    pub(super) fn quota<'r>(&self, extras: Option<&'r Extras>) -> Option<&'r Quota> {
        extras.and_then(|extras| extras.response.quota.as_ref()).filter(|_| self.is_counted)
    }

    /// The charge that determines a descriptor's status: the refusal with the longest wait,
    /// otherwise the charge with the least remaining.
    pub(super) fn strictest(&self, rule_match: &RuleMatch<'_>) -> Option<(&Charge<'_>, &Verdict)> {
        let charges = self.charges.get(rule_match.charges.clone())?;
        let verdicts = self.verdicts.each().get(rule_match.charges.clone())?;
        charges.iter().zip(verdicts).min_by_key(|(_, verdict)| verdict.strictness())
    }
}

/// The status of one descriptor, from the strictest of its limits. Grants a part of `quota`. A refusal
/// that is not enforced is reported as OK.
pub(super) fn status_of<'r>(
    rule_match: &RuleMatch<'r>,
    strictest: Option<(&Charge<'_>, &Verdict)>,
    (quota, is_enforced): (Option<&'r Quota>, bool),
    now: Timestamp,
) -> Status<'r> {
    let Some((charge, verdict)) = strictest else {
        // An unlimited rule reports the largest number; without a match nothing remains to report.
        return Status::without_limit(if rule_match.rule.is_some() { u32::MAX } else { 0 });
    };
    let over = !verdict.is_admitted();
    let remaining = if over { 0 } else { u32::try_from(verdict.remaining).unwrap_or(u32::MAX) };
    Status {
        // A rule in shadow mode reports OK; in the global shadow mode the statuses report the real decision.
        code: if over && is_enforced { Code::OverLimit } else { Code::Ok },
        limit: Some(CurrentLimit {
            limit: *charge.limit,
            all: rule_match.rule.and_then(Rule::limits).unwrap_or_default(),
            name: rule_match.rule.and_then(|rule| rule.name.as_deref()).unwrap_or_default(),
        }),
        remaining,
        reset_after: Some(reported_wait(verdict)),
        grant: quota.and_then(|quota| grant(quota, remaining, now)),
    }
}

/// Time until a refused client may retry, or until an admitted client has its full budget again.
fn reported_wait(verdict: &Verdict) -> Duration {
    match verdict.outcome {
        Outcome::Refused { retry_after: Some(wait) } => wait,
        Outcome::Refused { retry_after: None } | Outcome::Admitted => verdict.reset_after,
    }
}

/// Whether the rule itself is in shadow mode, regardless of the service's mode.
pub(super) fn is_shadow(rule_match: &RuleMatch<'_>) -> bool {
    rule_match.rule.is_some_and(|rule| rule.mode == Mode::Shadow)
}

/// Grants the remaining budget to a client that can spend it without further calls.
fn grant(quota: &Quota, remaining: u32, now: Timestamp) -> Option<Grant<'_>> {
    let valid_until = now.saturating_add(quota.valid_for);
    (remaining > 0).then(|| Grant { id: &quota.id, requests: remaining, valid_until })
}
