//! What became of a request: the strictest verdict of its limits, what is left and when to retry.

use crate::limit::Limit;
use crate::store::{Charge, Mode, Op};
use crate::verdict::{Outcome, Verdict, Verdicts};
use std::time::Duration;

/// What became of a request.
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
    /// What the verdicts on these charges mean together.
    ///
    /// ```
    /// # use hivemind_core::{Decision, store::Verdicts};
    /// // No limit applies: it may go on, and there is nothing to tell.
    /// let decision = Decision::new(&[], &Verdicts::new(true, []));
    /// assert!(decision.is_allowed() && decision.limit().is_none());
    /// ```
    #[must_use]
    pub fn new(charges: &[Charge<'_>], verdicts: &Verdicts) -> Self {
        let allowed = verdicts.committed;
        let judged = || charges.iter().zip(verdicts.each());
        // Only those that can refuse a request speak for a refused one: no shadow, and no debit.
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
            // It takes one quota with room to pass: the one that has it first.
            let has_room =
                judged().any(|(charge, verdict)| charge.mode == Mode::Quota && verdict.is_admitted());
            let quota = refusing(Mode::Quota).max_by_key(|(_, verdict)| verdict.strictness());
            let quota = quota.filter(|_| limit.is_none() || !has_room);
            limit.into_iter().chain(quota).min_by_key(|(_, verdict)| verdict.strictness())
        };
        Self { allowed, strictest: strictest.map(|(charge, verdict)| (*charge.limit, *verdict)) }
    }

    /// What the verdict on the only charge of a request means.
    #[inline]
    pub(crate) fn of_one(allowed: bool, charge: &Charge<'_>, verdict: Verdict) -> Self {
        // A charge that is alone decides for its request, so it speaks for it unless it is shadowed.
        Self { allowed, strictest: (charge.mode != Mode::Shadow).then_some((*charge.limit, verdict)) }
    }

    /// Whether the request may go on.
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

    /// What is left of the tightest limit; none if no limit applies.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.strictest.map(|(_, verdict)| verdict.remaining)
    }

    /// When the tightest limit resets; none if no limit applies.
    #[must_use]
    pub fn reset_after(&self) -> Option<Duration> {
        self.strictest.map(|(_, verdict)| verdict.reset_after)
    }

    /// After which wait the same request passes, if nothing else happens; none if
    /// it was allowed, or if it never passes because a limit is smaller than its cost.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.strictest {
            Some((_, Verdict { outcome: Outcome::Refused { retry_after }, .. })) if !self.allowed => {
                retry_after
            }
            _ => None,
        }
    }

    /// The tightest limit, which [`Decision::remaining`] and the waits are told of.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.strictest.map(|(limit, _)| limit)
    }
}
