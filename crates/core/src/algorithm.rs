//! Rate limiting algorithms, as pure functions of (limit, state, cost, now). They are
//! the reference: every store must decide like them, wherever it keeps its state.
//!
//! Each algorithm has a file with one type: the counter brought up to `now`, which
//! implements `CurrentCounter`. [`step`] puts the operations together.
//! Chosen so that a state fits 16 bytes and no background task is needed.
//!
//! ```
//! use hivemind_core::algorithm::{Action, step};
//! use hivemind_core::{Cost, Limit, Rate, Timestamp};
//!
//! let limit = Limit::token_bucket(Rate::per_second(2)?, 1)?;
//! let (mut state, spend) = (None, Action::Spend { count_refusal: false });
// When, and whether a token is available by then.
//! for (at_ms, admitted) in [(0, true), (499, false), (500, true), (999, false), (1_000, true)] {
//!     let step = step(&limit, state, spend, Cost::ONE, Timestamp::from_millis(at_ms));
//!     assert_eq!(step.verdict.is_admitted(), admitted, "at {at_ms} ms");
//!     state = Some(step.state);
//! }
//! # Ok::<(), hivemind_core::LimitError>(())
//! ```

mod fixed_window;
mod sliding_window;
mod token_bucket;

pub use crate::limit::{TokenBucket, Window};
pub use crate::time::STEP_BACK;

use crate::limit::Limit;
use crate::time::Timestamp;
use crate::verdict::{Cost, Outcome, Verdict};
use std::cmp::Reverse;
use std::time::Duration;

/// The state of a counter: 16 bytes, whose meaning depends on the limit's algorithm.
///
/// A state is only used with limits of the same algorithm (and, for windows, the same
/// period), because both are part of the key that it is stored under.
///
/// ```
/// use hivemind_core::algorithm::{Action, State, step};
/// use hivemind_core::{Cost, Limit, Period, Timestamp};
///
/// let limit = Limit::fixed_window(5, Period::SECOND);
/// let now = Timestamp::from_millis(7_000);
/// let state = step(&limit, None, Action::Debit, Cost::new(3), now).state;
/// assert_eq!(state.bits(), (7, 3)); // Three were counted in the seventh second.
/// assert_eq!(State::from_bits(7, 3), state); // Read back from an external store.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The time part: when a bucket last earned a token, or the number of a window.
    since: u64,
    /// The count since then, in two halves where an algorithm needs two numbers.
    count: u64,
}

impl State {
    /// A state read from an external store. No bit pattern makes a decision panic.
    #[must_use]
    pub const fn from_bits(since: u64, count: u64) -> Self {
        Self { since, count }
    }

    /// Its bits, for external stores: the time of the last earned token or the window's
    /// number; then tokens and phase, a count, or the counts of the previous and this window.
    #[must_use]
    pub const fn bits(self) -> (u64, u64) {
        (self.since, self.count)
    }

    fn from_halves(since: u64, high: u32, low: u32) -> Self {
        Self { since, count: u64::from(high) << 32 | u64::from(low) }
    }

    #[expect(clippy::cast_possible_truncation, reason = "each half is 32 bits wide")]
    fn halves(self) -> (u32, u32) {
        ((self.count >> 32) as u32, self.count as u32)
    }
}

/// The operation of a charge on one counter.
///
/// ```
/// use hivemind_core::algorithm::{Action, step};
/// use hivemind_core::{Cost, Limit, Period, Timestamp};
///
/// let limit = Limit::fixed_window(5, Period::SECOND);
/// let used = step(&limit, None, Action::Debit, Cost::new(3), Timestamp::EPOCH).state;
/// let left = |action| step(&limit, Some(used), action, Cost::new(2), Timestamp::EPOCH).verdict.remaining;
/// assert_eq!(left(Action::Peek), 2);
/// assert_eq!(left(Action::Spend { count_refusal: true }), 0);
/// assert_eq!(left(Action::Refund), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Takes the cost if it fits. Otherwise takes nothing, and a window may count the refused cost.
    Spend {
        /// Whether a window counts the refused cost; a bucket never does.
        count_refusal: bool,
    },
    /// Returns whether the cost would fit, and records nothing.
    Peek,
    /// Gives the cost back, up to a full budget. Never refused.
    Refund,
    /// Takes the cost whether it fits or not: a window may exceed its limit, a bucket may sink to minus its burst.
    Debit,
    /// Counts the cost of a request that another limit refused; only windows do, a bucket records nothing.
    Count,
}

/// The verdict of one counter and its next state.
///
/// ```
/// use hivemind_core::algorithm::{Action, step};
/// use hivemind_core::{Cost, Limit, Rate, Timestamp};
///
/// let limit = Limit::token_bucket(Rate::per_second(10)?, 5)?;
/// let step = step(&limit, None, Action::Spend { count_refusal: false }, Cost::ONE, Timestamp::EPOCH);
/// assert!(step.verdict.is_admitted());
// A tenth of a second later the bucket is full, as if it were new.
/// assert_eq!(step.blank_at, Timestamp::from_millis(100));
/// # Ok::<(), hivemind_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The verdict.
    pub verdict: Verdict,
    /// The state to store.
    pub state: State,
    /// From this moment the state is equivalent to none, so removing it changes no verdict.
    pub blank_at: Timestamp,
}

/// Decides one charge on one counter. `None` is an unknown counter.
///
/// ```
/// use hivemind_core::algorithm::{Action, step};
/// use hivemind_core::{Cost, Limit, Period, Timestamp};
///
/// let (limit, spend) = (Limit::fixed_window(1, Period::SECOND), Action::Spend { count_refusal: false });
/// let first = step(&limit, None, spend, Cost::ONE, Timestamp::EPOCH);
/// let second = step(&limit, Some(first.state), spend, Cost::ONE, Timestamp::from_millis(900));
/// let third = step(&limit, Some(second.state), spend, Cost::ONE, Timestamp::from_millis(1_000));
/// assert_eq!([first, second, third].map(|step| step.verdict.is_admitted()), [true, false, true]);
/// ```
#[must_use]
pub fn step(limit: &Limit, state: Option<State>, action: Action, cost: Cost, now: Timestamp) -> Step {
    step_in_place(limit, state, action, cost, now)
}

/// [`step`], inlined into the few callers where every nanosecond counts.
///
/// ```
/// use hivemind_core::algorithm::{Action, step, step_in_place};
/// use hivemind_core::{Cost, Limit, Period, Timestamp};
///
/// let limit = Limit::sliding_window(1, Period::SECOND);
/// let in_place = step_in_place(&limit, None, Action::Peek, Cost::ONE, Timestamp::EPOCH);
/// assert_eq!(in_place, step(&limit, None, Action::Peek, Cost::ONE, Timestamp::EPOCH));
/// ```
#[must_use]
#[expect(
    clippy::inline_always,
    reason = "a call writes and copies 80 bytes of result, which costs a third more"
)]
#[inline(always)]
pub fn step_in_place(
    limit: &Limit,
    state: Option<State>,
    action: Action,
    cost: Cost,
    now: Timestamp,
) -> Step {
    match limit {
        Limit::TokenBucket(bucket) => {
            settle(token_bucket::BucketLevel::at(bucket, state, now), action, cost, now)
        }
        Limit::FixedWindow(window) => {
            settle(fixed_window::WindowCount::at(window, state, now), action, cost, now)
        }
        Limit::SlidingWindow(window) => {
            settle(sliding_window::WindowCounts::at(window, state, now), action, cost, now)
        }
    }
}

/// Merges two states into one, the stricter in each part: the state of a counter that two keys have used.
pub(crate) fn stricter(limit: &Limit, one: State, other: State, now: Timestamp) -> State {
    let [one, other] =
        [one, other].map(|state| step(limit, Some(state), Action::Peek, Cost::ZERO, now).state);
    match limit {
        Limit::TokenBucket(_) => {
            let level =
                |state: State| (state.halves().0.cast_signed(), Reverse((state.since, state.halves().1)));
            if level(one) < level(other) { one } else { other }
        }
        Limit::FixedWindow(_) => {
            State { since: one.since.max(other.since), count: one.count.max(other.count) }
        }
        Limit::SlidingWindow(_) => {
            let ((previous, current), (previous_too, current_too)) = (one.halves(), other.halves());
            let since = one.since.max(other.since);
            State::from_halves(since, previous.max(previous_too), current.max(current_too))
        }
    }
}

/// A counter brought up to the present; implemented by each algorithm.
trait CurrentCounter {
    fn fits(&self, cost: Cost) -> bool;
    /// Records a cost, whether it fits or not.
    fn take(&mut self, cost: Cost);
    fn give_back(&mut self, cost: Cost);
    /// Records the cost of a request that did not pass.
    fn count_refused(&mut self, cost: Cost);
    fn remaining(&self) -> u64;
    /// In nanoseconds: creating a `Duration` costs a division, and reading it a multiplication.
    fn reset_nanos(&self) -> u64;
    /// The smallest wait after which `cost`, which does not fit now, fits. Takes the result of [`CurrentCounter::reset_nanos`].
    fn wait_nanos(&self, cost: Cost, reset_nanos: u64) -> Option<u64>;
    /// The time from which its state is blank. Takes the result of [`CurrentCounter::reset_nanos`].
    fn blank_at(&self, reset_nanos: u64) -> Timestamp;
    fn state(&self) -> State;
}

#[expect(clippy::inline_always, reason = "as for `step_in_place`, of which it is a part")]
#[inline(always)]
fn settle(mut counter: impl CurrentCounter, action: Action, cost: Cost, now: Timestamp) -> Step {
    let admitted = match action {
        Action::Refund | Action::Count => true,
        Action::Spend { .. } | Action::Peek | Action::Debit => counter.fits(cost),
    };
    let available = counter.remaining();
    match action {
        Action::Spend { .. } if admitted => counter.take(cost),
        Action::Debit => counter.take(cost),
        Action::Spend { count_refusal: true } | Action::Count => counter.count_refused(cost),
        Action::Refund => counter.give_back(cost),
        Action::Spend { count_refusal: false } | Action::Peek => {}
    }
    // The wait is computed after recording: a refusal that counts makes the next wait longer.
    let reset_nanos = counter.reset_nanos();
    let outcome = if admitted {
        Outcome::Admitted
    } else {
        let wait_nanos = counter.wait_nanos(cost, reset_nanos);
        Outcome::Refused { retry_after: wait_nanos.map(Duration::from_nanos) }
    };
    finish_step(&counter, outcome, available, reset_nanos, now)
}

#[inline]
fn finish_step(
    counter: &impl CurrentCounter,
    outcome: Outcome,
    available: u64,
    reset_nanos: u64,
    now: Timestamp,
) -> Step {
    let reset_after = Duration::from_nanos(reset_nanos);
    let verdict = Verdict { outcome, available, remaining: counter.remaining(), reset_after };
    Step { verdict, state: counter.state(), blank_at: counter.blank_at(reset_nanos).max(now) }
}

/// The window that a counter is in. After a small step back of the clock, the counter
/// stays in the window it has reached; after a larger one it follows (see [`STEP_BACK`]).
fn window_at(reached: Option<u64>, nanos: u64, now: Timestamp) -> u64 {
    let current = now.as_nanos() / nanos;
    match reached {
        Some(ahead) if ahead > current => {
            let start = Timestamp::from_nanos(ahead.saturating_mul(nanos));
            if start.since(now) > STEP_BACK { current } else { ahead }
        }
        _ => current,
    }
}

/// Most products fit a machine word, whose division is several times cheaper.
#[inline]
fn quotient(wide: u128, divisor: u64) -> u128 {
    match u64::try_from(wide) {
        Ok(narrow) => u128::from(narrow / divisor),
        Err(_) => wide / u128::from(divisor),
    }
}

fn clamped(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
