//! Verdicts of limits on charges. A refusal is a value, never an error.

use smallvec::SmallVec;
use std::time::Duration;

/// The cost of a charge, in requests, tokens or hits. A cost of zero spends nothing.
///
/// ```
/// use hivemind_core::{Cost, Descriptor, Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(10, Period::MINUTE));
/// let rules = Rules::new().with("files", &[Matcher::any("user")], rule)?;
/// let limiter = Limiter::with_clock(rules, ManualClock::default(), LimiterOptions::default())?;
/// let upload = Descriptor { cost: Cost::new(6), ..Descriptor::new(&[("user", "ada")]) };
/// assert_eq!(limiter.check("files", &[upload]).remaining(), Some(4));
/// assert!(!limiter.check("files", &[upload]).is_allowed()); // Six do not fit into four.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// No cost: only reads the counter.
    ///
    /// ```
    /// # use hivemind_core::Cost;
    /// assert_eq!(Cost::ZERO, Cost::new(0));
    /// ```
    pub const ZERO: Self = Self(0);
    /// One request.
    ///
    /// ```
    /// # use hivemind_core::Cost;
    /// assert_eq!(Cost::ONE, Cost::new(1));
    /// ```
    pub const ONE: Self = Self(1);

    /// A cost of `units`.
    ///
    /// ```
    /// # use hivemind_core::Cost;
    /// assert!(Cost::new(3) > Cost::ONE);
    /// ```
    #[must_use]
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// The number of units.
    ///
    /// ```
    /// # use hivemind_core::Cost;
    /// assert_eq!(Cost::new(3).get(), 3);
    /// ```
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Whether a limit lets a charge pass.
///
/// ```
/// use hivemind_core::algorithm::{Action, step};
/// use hivemind_core::{Cost, Limit, Period, Timestamp, store::Outcome};
/// use std::time::Duration;
///
/// let spend = Action::Spend { count_refusal: false };
/// let spend_after_one = |requests, cost| {
///     let limit = Limit::fixed_window(requests, Period::SECOND);
///     let used = step(&limit, None, spend, Cost::ONE, Timestamp::EPOCH).state;
///     step(&limit, Some(used), spend, Cost::new(cost), Timestamp::EPOCH).verdict.outcome
/// };
/// assert_eq!(spend_after_one(3, 2), Outcome::Admitted);
/// assert_eq!(spend_after_one(3, 3), Outcome::Refused { retry_after: Some(Duration::from_secs(1)) });
/// assert_eq!(spend_after_one(3, 4), Outcome::Refused { retry_after: None }); // It never fits.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The charge passes.
    Admitted,
    /// The charge does not pass.
    Refused {
        /// The smallest wait after which the same cost passes if nothing else spends
        /// meanwhile; `None` if it never can, because the limit is smaller than the cost.
        retry_after: Option<Duration>,
    },
}

/// The verdict of one limit on one charge.
///
/// ```
/// use hivemind_core::algorithm::{Action, step};
/// use hivemind_core::{Cost, Limit, Period, Timestamp};
///
/// let limit = Limit::fixed_window(3, Period::SECOND);
/// let spend = Action::Spend { count_refusal: false };
/// let verdict = step(&limit, None, spend, Cost::ONE, Timestamp::from_millis(400)).verdict;
/// assert!(verdict.is_admitted());
/// assert_eq!((verdict.available, verdict.remaining), (3, 2));
/// assert_eq!(verdict.reset_after.as_millis(), 600);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the charge passes.
    pub outcome: Outcome,
    /// Remaining budget at this moment, before recording.
    pub available: u64,
    /// Remaining budget at this moment, after recording.
    pub remaining: u64,
    /// Time until a fixed window ends, or until a bucket or sliding window has its whole budget again.
    pub reset_after: Duration,
}

impl Verdict {
    /// Whether the limit lets the charge pass.
    ///
    /// ```
    /// # use hivemind_core::store::{Outcome, Verdict};
    /// # use std::time::Duration;
    /// let outcome = Outcome::Refused { retry_after: None };
    /// let verdict = Verdict { outcome, available: 0, remaining: 0, reset_after: Duration::ZERO };
    /// assert!(!verdict.is_admitted());
    /// assert!(Verdict { outcome: Outcome::Admitted, ..verdict }.is_admitted());
    /// ```
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admitted)
    }
}

impl Verdict {
    /// Orders verdicts, the strictest first: refusals before admissions, refusals with the
    /// longest wait first, then by remaining budget.
    ///
    /// ```
    /// # use hivemind_core::store::{Outcome, Verdict};
    /// # use std::time::Duration;
    /// let roomy = Verdict { outcome: Outcome::Admitted, available: 9, remaining: 8, reset_after: Duration::ZERO };
    /// let tight = Verdict { remaining: 1, ..roomy };
    /// let refused = Verdict { outcome: Outcome::Refused { retry_after: None }, ..roomy };
    /// let strictest = [roomy, refused, tight].into_iter().min_by_key(Verdict::strictness);
    /// assert_eq!(strictest, Some(refused));
    /// ```
    #[must_use]
    pub fn strictness(&self) -> impl Ord + use<> {
        let wait = match self.outcome {
            Outcome::Refused { retry_after } => retry_after.unwrap_or(Duration::MAX),
            Outcome::Admitted => Duration::ZERO,
        };
        (self.is_admitted(), std::cmp::Reverse(wait), self.remaining)
    }
}

/// The verdicts of one batch, in the order of its charges.
///
/// ```
/// use hivemind_core::store::{Outcome, Verdict, Verdicts};
/// use std::time::Duration;
///
/// let passes = Verdict { outcome: Outcome::Admitted, available: 5, remaining: 5, reset_after: Duration::ZERO };
/// let refuses = Verdict { outcome: Outcome::Refused { retry_after: None }, ..passes };
/// // One limit refused, so the request spent nothing on the other.
/// let verdicts = Verdicts::new(false, [passes, refuses]);
/// assert!(!verdicts.committed && verdicts.each()[0].is_admitted());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// Whether the batch commits; if not, the limits that passed spent nothing.
    pub committed: bool,
    each: SmallVec<[Verdict; 2]>,
}

impl Verdicts {
    /// The verdicts of a batch, in the order of its charges.
    ///
    /// ```
    /// # use hivemind_core::store::Verdicts;
    /// let empty = Verdicts::new(true, []);
    /// assert!(empty.committed && empty.each().is_empty());
    /// ```
    pub fn new(committed: bool, each: impl IntoIterator<Item = Verdict>) -> Self {
        Self { committed, each: each.into_iter().collect() }
    }

    /// The verdict of a batch of one charge.
    ///
    /// ```
    /// # use hivemind_core::store::{Outcome, Verdict, Verdicts};
    /// # let verdict = Verdict { outcome: Outcome::Admitted, available: 1, remaining: 0, reset_after: Default::default() };
    /// assert_eq!(Verdicts::of_one(true, verdict), Verdicts::new(true, [verdict]));
    /// ```
    #[inline]
    #[must_use]
    pub fn of_one(committed: bool, verdict: Verdict) -> Self {
        let mut each = SmallVec::new();
        each.push(verdict);
        Self { committed, each }
    }

    /// One verdict per charge, in order.
    ///
    /// ```
    /// # use hivemind_core::store::{Outcome, Verdict, Verdicts};
    /// # let verdict = Verdict { outcome: Outcome::Admitted, available: 1, remaining: 0, reset_after: Default::default() };
    /// let verdicts = Verdicts::new(true, [verdict, verdict]);
    /// assert!(verdicts.each().iter().all(Verdict::is_admitted));
    /// ```
    #[must_use]
    pub fn each(&self) -> &[Verdict] {
        &self.each
    }
}
