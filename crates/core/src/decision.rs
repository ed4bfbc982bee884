//! The decision on a request: the strictest verdict of its limits, the remaining budget and the time to retry.

use crate::limit::Limit;
use crate::store::{Charge, Mode, Op};
use crate::verdict::{Outcome, Verdict, Verdicts};
use std::time::Duration;

/// The decision on a request.
///
/// ```
/// use hivemind_core::{Descriptor, Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
/// use std::time::Duration;
///
/// let rule = Rule::limit(Limit::fixed_window(1, Period::MINUTE));
/// let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
/// let limiter = Limiter::with_clock(rules, ManualClock::default(), LimiterOptions::default())?;
/// let ada = [Descriptor::new(&[("user", "ada")])];
/// assert!(limiter.check("shop", &ada).is_allowed());
///
/// let refused = limiter.check("shop", &ada);
/// assert!(!refused.is_allowed());
/// assert_eq!(refused.retry_after(), Some(Duration::from_secs(60)));
/// assert_eq!((refused.remaining(), refused.reset_after()), (Some(0), refused.retry_after()));
/// assert_eq!(refused.limit(), Some(Limit::fixed_window(1, Period::MINUTE)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    allowed: bool,
    strictest: Option<(Limit, Verdict)>,
}

impl Decision {
    /// Combines the verdicts on the charges of one request.
    ///
    /// ```
    /// # use hivemind_core::{Decision, store::Verdicts};
    // No limit applies: the request passes, and the decision has no limit to report.
    /// let decision = Decision::new(&[], &Verdicts::new(true, []));
    /// assert!(decision.is_allowed() && decision.limit().is_none());
    /// ```
    #[must_use]
    pub fn new(charges: &[Charge<'_>], verdicts: &Verdicts) -> Self {
        let allowed = verdicts.committed;
        let judged = || charges.iter().zip(verdicts.each());
        // Shadow charges and debits never refuse a request, so neither explains a refusal.
        let refusing = |mode: Mode| {
            judged().filter(move |(charge, verdict)| {
                charge.mode == mode && charge.op != Op::Debit && !verdict.is_admitted()
            })
        };
        let strictest = if allowed {
            let enforced = judged().filter(|(charge, _)| charge.mode != Mode::Shadow);
            enforced.min_by_key(|(_, verdict)| verdict.remaining)
        } else {
            let limit = refusing(Mode::Enforce).min_by_key(|(_, verdict)| verdict.strictness());
            // One quota with room is enough to pass.
            let has_room =
                judged().any(|(charge, verdict)| charge.mode == Mode::Quota && verdict.is_admitted());
            let quota = refusing(Mode::Quota).max_by_key(|(_, verdict)| verdict.strictness());
            let quota = quota.filter(|_| limit.is_none() || !has_room);
            limit.into_iter().chain(quota).min_by_key(|(_, verdict)| verdict.strictness())
        };
        Self { allowed, strictest: strictest.map(|(charge, verdict)| (*charge.limit, *verdict)) }
    }

    /// The decision on a request with a single charge.
    #[inline]
    pub(crate) fn of_one(allowed: bool, charge: &Charge<'_>, verdict: Verdict) -> Self {
        // A single charge decides its request, and is reported unless it is in shadow mode.
        Self { allowed, strictest: (charge.mode != Mode::Shadow).then_some((*charge.limit, verdict)) }
    }

    /// Whether the request passes.
    ///
    /// ```
    /// # use hivemind_core::{Descriptor, Limiter, Rules};
    /// let without_rules = Limiter::new(Rules::new())?;
    /// assert!(without_rules.check("shop", &[Descriptor::new(&[("user", "ada")])]).is_allowed());
    /// # Ok::<(), hivemind_core::StartError>(())
    /// ```
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Remaining budget of the tightest limit; none if no limit applies.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.strictest.map(|(_, verdict)| verdict.remaining)
    }

    /// Time until the tightest limit resets; none if no limit applies.
    #[must_use]
    pub fn reset_after(&self) -> Option<Duration> {
        self.strictest.map(|(_, verdict)| verdict.reset_after)
    }

    /// The wait after which the same request passes if nothing else spends meanwhile. None if
    /// it was allowed, or if a limit is smaller than its cost, so that it can never pass.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.strictest {
            Some((_, Verdict { outcome: Outcome::Refused { retry_after }, .. })) if !self.allowed => {
                retry_after
            }
            _ => None,
        }
    }

    /// The tightest limit, to which [`Decision::remaining`] and the waits refer.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.strictest.map(|(limit, _)| limit)
    }
}
