//! What was decided: a denial is a value here, never an error.

use smallvec::SmallVec;
use std::time::Duration;

/// How much one charge asks for, in requests, tokens or hits. Zero asks nothing and spends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// Nothing: a look at the counter.
    pub const ZERO: Self = Self(0);
    /// One request.
    pub const ONE: Self = Self(1);

    /// A cost of `units`.
    #[must_use]
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// The units asked for.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Whether a limit lets a charge pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passes.
    Admitted,
    /// It does not.
    Refused {
        /// The smallest wait after which the same cost passes if nothing else
        /// happens; `None` if it never will, because the limit is smaller than the cost.
        retry_after: Option<Duration>,
    },
}

/// What one limit says to one charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it passes.
    pub outcome: Outcome,
    /// What was left at this moment, before anything was recorded.
    pub available: u64,
    /// What is left at this moment, after what was recorded.
    pub remaining: u64,
    /// When a window ends, and when a bucket or a sliding window holds all its budget again.
    pub reset_after: Duration,
}

impl Verdict {
    /// Whether the limit lets the charge pass.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admitted)
    }
}

impl Verdict {
    /// Orders verdicts, the strictest first: refusals by their wait, the longest first,
    /// and all of them before what was admitted; then by what is left.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// Whether the batch as a whole passes; if not, the limits that passed spent nothing.
    pub committed: bool,
    each: SmallVec<[Verdict; 2]>,
}

impl Verdicts {
    /// The verdicts of a batch, in the order of its charges.
    pub fn new(committed: bool, each: impl IntoIterator<Item = Verdict>) -> Self {
        Self { committed, each: each.into_iter().collect() }
    }

    /// The verdict of a batch of one charge.
    #[inline]
    #[must_use]
    pub fn of_one(committed: bool, verdict: Verdict) -> Self {
        let mut each = SmallVec::new();
        each.push(verdict);
        Self { committed, each }
    }

    /// One verdict for each charge, in order.
    #[must_use]
    pub fn each(&self) -> &[Verdict] {
        &self.each
    }
}
