//! The token bucket algorithm, in whole tokens and exact time. It uses no floats and
//! never drops a fraction of a token: `since` stays at the instant of the last whole
//! token. At seven per second that instant is between two nanoseconds, so its fraction
//! is kept too (`phase`). Invariant: within any span `d`, at most `burst + rate x d` are
//! admitted, and a bucket that stays idle holds one burst.
//!
//! The state stores tokens rather than the time at which the bucket will be full (GCRA):
//! a reload changes rate and burst, and tokens mean the same before and after it.

use super::{CurrentCounter, State, clamped, quotient};
use crate::limit::TokenBucket;
use crate::time::{STEP_BACK, Timestamp};
use crate::verdict::Cost;

/// A bucket's level at one moment.
pub(super) struct BucketLevel<'a> {
    bucket: &'a TokenBucket,
    now: Timestamp,
    tokens: i32,
    /// The last whole token was earned `phase / earned` nanoseconds after `since`, and `phase < earned`.
    since: Timestamp,
    phase: u32,
}

impl<'a> BucketLevel<'a> {
    #[inline]
    pub(super) fn at(bucket: &'a TokenBucket, state: Option<State>, now: Timestamp) -> Self {
        let Some(state) = state else { return Self::full(bucket, now) };
        let (tokens, phase) = state.halves();
        // A debt from a larger burst is cut to this burst, as tokens above it are.
        let tokens = tokens.cast_signed().max(-capacity(bucket));
        if tokens >= capacity(bucket) {
            return Self::full(bucket, now);
        }
        let since = Timestamp::from_nanos(state.since);
        // After a reload the phase may be another rate's: the error is below a nanosecond.
        let phase = phase.min(bucket.earned() - 1);
        let level = Self { bucket, now, tokens, since, phase };
        if now > since { level.refilled() } else { level.not_before_its_time() }
    }

    fn full(bucket: &'a TokenBucket, now: Timestamp) -> Self {
        Self { bucket, now, tokens: capacity(bucket), since: now, phase: 0 }
    }

    /// After a step back of the clock nothing is earned twice. A clock that was set back is followed.
    fn not_before_its_time(self) -> Self {
        let was_set = self.since.since(self.now) > STEP_BACK;
        if was_set { Self { since: self.now, phase: 0, ..self } } else { self }
    }

    /// Adds the tokens earned since `since`, which is before now, and moves `since` to the last of them.
    #[inline]
    fn refilled(self) -> Self {
        let elapsed = self.now.as_nanos() - self.since.as_nanos();
        let (step, per_token) = (u64::from(self.bucket.earned()), u128::from(self.bucket.per_nanos()));
        // Progress is counted so that a token takes `per_nanos` and a nanosecond brings `earned`.
        let progress = u128::from(elapsed) * u128::from(step) - u128::from(self.phase);
        if progress < per_token {
            return self;
        }
        let missing = i64::from(capacity(self.bucket)) - i64::from(self.tokens);
        if progress >= u128::from(missing.unsigned_abs()) * per_token {
            return Self::full(self.bucket, self.now);
        }
        let earned = quotient(progress, self.bucket.per_nanos());
        let progress = progress - earned * per_token;
        let ago = quotient(progress + u128::from(step - 1), step);
        let phase = ago * u128::from(step) - progress;
        let tokens = i64::from(self.tokens).saturating_add(i64::try_from(earned).unwrap_or(i64::MAX));
        Self {
            tokens: i32::try_from(tokens).unwrap_or(i32::MAX), // Below a burst, since that is not reached.
            since: Timestamp::from_nanos(self.now.as_nanos().saturating_sub(clamped(ago))),
            phase: u32::try_from(phase).unwrap_or(0), // Below `step`, which is a u32.
            ..self
        }
    }

    /// The wait until the bucket holds `level` tokens, in nanoseconds.
    #[inline]
    fn wait_until(&self, level: i64) -> u64 {
        let missing = level - i64::from(self.tokens);
        if missing <= 0 {
            return 0;
        }
        match self.earned_at(missing.unsigned_abs()) {
            Some(at) => at.saturating_sub(self.now.as_nanos()),
            None => self.wait_wide(missing),
        }
    }

    /// When it has earned this many tokens, if the calculation fits a machine word.
    #[inline]
    fn earned_at(&self, tokens: u64) -> Option<u64> {
        let progress = tokens.checked_mul(self.bucket.per_nanos())?.checked_add(u64::from(self.phase))?;
        let span = match self.bucket.earned() {
            1 => progress, // A token takes whole nanoseconds, as at every usual rate: no division.
            earned => progress.div_ceil(u64::from(earned)),
        };
        self.since.as_nanos().checked_add(span)
    }

    /// The wait for this many tokens where the calculation exceeds a machine word.
    #[cold]
    fn wait_wide(&self, missing: i64) -> u64 {
        let earned = i128::from(self.bucket.earned());
        let elapsed = i128::from(self.now.as_nanos()) - i128::from(self.since.as_nanos());
        let progress = elapsed * earned - i128::from(self.phase);
        let short = i128::from(missing) * i128::from(self.bucket.per_nanos()) - progress;
        clamped(u128::try_from(short).unwrap_or(0).div_ceil(u128::from(self.bucket.earned())))
    }
}

impl CurrentCounter for BucketLevel<'_> {
    #[inline]
    fn fits(&self, cost: Cost) -> bool {
        i64::try_from(cost.get()).is_ok_and(|cost| i64::from(self.tokens) >= cost)
    }

    #[inline]
    fn take(&mut self, cost: Cost) {
        let cost = i64::try_from(cost.get()).unwrap_or(i64::MAX);
        let (left, floor) = (i64::from(self.tokens).saturating_sub(cost), -i64::from(capacity(self.bucket)));
        self.tokens = i32::try_from(left.max(floor)).unwrap_or(i32::MIN);
        if left < floor {
            // It sinks exactly to its floor, not to a fraction of a token above it.
            (self.since, self.phase) = (self.since.max(self.now), 0);
        }
    }

    fn give_back(&mut self, cost: Cost) {
        let missing = i64::from(capacity(self.bucket)) - i64::from(self.tokens);
        let given = i64::try_from(cost.get()).unwrap_or(i64::MAX).min(missing);
        self.tokens = i32::try_from(i64::from(self.tokens) + given).unwrap_or(i32::MAX);
    }

    #[inline]
    fn count_refused(&mut self, _: Cost) {}

    #[inline]
    fn remaining(&self) -> u64 {
        u64::try_from(self.tokens).unwrap_or(0)
    }

    #[inline]
    fn reset_nanos(&self) -> u64 {
        self.wait_until(i64::from(self.bucket.burst()))
    }

    #[inline]
    fn wait_nanos(&self, cost: Cost, reset_nanos: u64) -> Option<u64> {
        let (cost, burst) = (i64::try_from(cost.get()).ok()?, i64::from(self.bucket.burst()));
        if cost > burst {
            return None;
        }
        // A token takes whole nanoseconds, and the wait is that much shorter. The product is below the reset.
        if self.bucket.earned() == 1 && reset_nanos < u64::MAX {
            return Some(reset_nanos - (burst - cost).unsigned_abs() * self.bucket.per_nanos());
        }
        Some(self.wait_until(cost))
    }

    #[inline]
    fn blank_at(&self, reset_nanos: u64) -> Timestamp {
        Timestamp::from_nanos(self.now.as_nanos().saturating_add(reset_nanos))
    }

    #[inline]
    fn state(&self) -> State {
        State::from_halves(self.since.as_nanos(), self.tokens.cast_unsigned(), self.phase)
    }
}

fn capacity(bucket: &TokenBucket) -> i32 {
    i32::try_from(bucket.burst()).unwrap_or(i32::MAX)
}
