//! A decision with all that it was made of, and what is told of it.

use super::{Code, CurrentLimit, Grant, Status};
use crate::ruleset::{Extras, Quota};
use crate::storage::Ruled;
use hivemind_core::rules::{ResolvedRequest, RuleMatch};
use hivemind_core::store::{Charge, Mode, Outcome, Verdict, Verdicts};
use hivemind_core::{Rule, Timestamp};
use std::time::Duration;

/// A decision with all that it was made of.
pub(super) struct Decided<'r, 'a> {
    pub(super) resolved: &'r ResolvedRequest<'a>,
    pub(super) charges: &'r [Charge<'r>],
    pub(super) verdicts: Verdicts,
    /// Which of its charges an operator has blocked; none where no one is.
    pub(super) blocked: Option<Box<[bool]>>,
    /// Whether whoever keeps the counters has decided, and nobody in its place.
    pub(super) is_counted: bool,
}

impl<'r, 'a> Decided<'r, 'a> {
    pub(super) fn of(
        resolved: &'r ResolvedRequest<'a>,
        charges: &'r [Charge<'r>],
        Ruled { verdicts, blocked }: Ruled,
        is_counted: bool,
    ) -> Self {
        Self { resolved, charges, verdicts, blocked, is_counted }
    }
}

impl Decided<'_, '_> {
    /// Whether an operator has blocked a descriptor's key: then its rule does more than watch.
    #[inline]
    pub(super) fn is_blocked(&self, ruling: &RuleMatch<'_>) -> bool {
        let Some(blocked) = &self.blocked else { return false };
        blocked.get(ruling.charges.clone()).is_some_and(|its| its.contains(&true))
    }

    /// What may be granted of. Where a node decided alone there is nothing to grant: each node would grant
    /// the whole limit, for longer than it is alone.
    pub(super) fn quota<'r>(&self, extras: Option<&'r Extras>) -> Option<&'r Quota> {
        extras.and_then(|extras| extras.response.quota.as_ref()).filter(|_| self.is_counted)
    }

    /// The charge that speaks for a descriptor: one that refuses, the longest wait
    /// first; else the one with the least left.
    pub(super) fn strictest(&self, ruling: &RuleMatch<'_>) -> Option<(&Charge<'_>, &Verdict)> {
        let charges = self.charges.get(ruling.charges.clone())?;
        let verdicts = self.verdicts.each().get(ruling.charges.clone())?;
        charges.iter().zip(verdicts).min_by_key(|(_, verdict)| verdict.strictness())
    }
}

/// What becomes of one descriptor, told by the strictest of its limits. Of a `quota` a part is granted; a refusal
/// that is not heeded is told as a pass.
pub(super) fn status_of<'r>(
    ruling: &RuleMatch<'r>,
    strictest: Option<(&Charge<'_>, &Verdict)>,
    (quota, is_heeded): (Option<&'r Quota>, bool),
    now: Timestamp,
) -> Status<'r> {
    let Some((charge, verdict)) = strictest else {
        // An unlimited rule has the largest number left; where no rule matched there is nothing to tell.
        return Status::without_limit(if ruling.rule.is_some() { u32::MAX } else { 0 });
    };
    let over = !verdict.is_admitted();
    let remaining = if over { 0 } else { u32::try_from(verdict.remaining).unwrap_or(u32::MAX) };
    Status {
        // A rule in shadow mode says OK; under the global one, the statuses tell the truth.
        code: if over && is_heeded { Code::OverLimit } else { Code::Ok },
        limit: Some(CurrentLimit {
            limit: *charge.limit,
            all: ruling.rule.and_then(Rule::limits).unwrap_or_default(),
            name: ruling.rule.and_then(|rule| rule.name.as_deref()).unwrap_or_default(),
        }),
        remaining,
        reset_after: Some(told_wait(verdict)),
        grant: quota.and_then(|quota| grant(quota, remaining, now)),
    }
}

/// When a refused client may come again, and when one that passes has its whole budget back.
fn told_wait(verdict: &Verdict) -> Duration {
    match verdict.outcome {
        Outcome::Refused { retry_after: Some(wait) } => wait,
        Outcome::Refused { retry_after: None } | Outcome::Admitted => verdict.reset_after,
    }
}

/// Whether its own rule says that it never refuses, whatever mode the whole service is in.
pub(super) fn only_watches(ruling: &RuleMatch<'_>) -> bool {
    ruling.rule.is_some_and(|rule| rule.mode == Mode::Shadow)
}

/// A part of what is left, for clients that can spend it on their own.
fn grant(quota: &Quota, remaining: u32, now: Timestamp) -> Option<Grant<'_>> {
    let valid_until = now.saturating_add(quota.valid_for);
    (remaining > 0).then(|| Grant { id: &quota.id, requests: remaining, valid_until })
}
