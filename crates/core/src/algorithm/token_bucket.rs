//! The token bucket, in whole tokens and exact time. No float, and no fraction of
//! a token is ever dropped: `since` stays at the instant of the last whole token,
//! which at seven a second is no whole nanosecond, so its part after the point is
//! kept too (`phase`). Invariant: within any span `d`, at most `burst + rate x d`
//! are admitted, and a bucket idle for ever holds one burst.
//!
//! Tokens are kept rather than the time at which the bucket will be full (GCRA):
//! a reload changes rate and burst, and tokens mean the same under both.

use super::{Counter, State, clamped};
use crate::limit::TokenBucket;
use crate::time::{STEP_BACK, Timestamp};
use crate::verdict::Cost;
use std::time::Duration;

/// A bucket's level at one moment.
pub(super) struct Level<'a> {
    bucket: &'a TokenBucket,
    now: Timestamp,
    tokens: i32,
    /// The last whole token was earned `phase / earned` nanoseconds after `since`, and `phase < earned`.
    since: Timestamp,
    phase: u32,
    /// Progress towards the next token, counted so that a token takes `per_nanos` and
    /// a nanosecond brings `earned`; below zero where the clock stepped back.
    progress: i128,
}

impl<'a> Level<'a> {
    #[inline]
    pub(super) fn at(bucket: &'a TokenBucket, state: Option<State>, now: Timestamp) -> Self {
        let Some(state) = state else { return Self::full(bucket, now) };
        let (tokens, phase) = state.halves();
        // A debt made under a larger burst is cut to this one's, as tokens above it are.
        let tokens = tokens.cast_signed().max(-capacity(bucket));
        let since = Timestamp::from_nanos(state.since);
        if tokens >= capacity(bucket) {
            return Self::full(bucket, now);
        }
        if since.since(now) > STEP_BACK {
            return Self { bucket, now, tokens, since: now, phase: 0, progress: 0 };
        }
        // A reload may have left a phase of another rate: it errs by less than a nanosecond.
        let phase = phase.min(bucket.earned() - 1);
        let elapsed = i128::from(now.as_nanos()) - i128::from(state.since);
        let progress = elapsed * i128::from(bucket.earned()) - i128::from(phase);
        Self { bucket, now, tokens, since, phase, progress }.refilled()
    }

    fn full(bucket: &'a TokenBucket, now: Timestamp) -> Self {
        Self { bucket, now, tokens: capacity(bucket), since: now, phase: 0, progress: 0 }
    }

    #[inline]
    fn refilled(self) -> Self {
        let per_token = i128::from(self.bucket.per_nanos());
        if self.progress < per_token {
            return self; // Also where the clock stepped back: progress is then below zero.
        }
        let missing = i128::from(capacity(self.bucket)) - i128::from(self.tokens);
        if self.progress >= missing * per_token {
            return Self::full(self.bucket, self.now);
        }
        let earned = self.progress / per_token;
        self.with_tokens(earned)
    }

    /// Adds whole tokens and moves `since` to the instant of the last of them.
    fn with_tokens(self, earned: i128) -> Self {
        let progress = self.progress - earned * i128::from(self.bucket.per_nanos());
        let step = i128::from(self.bucket.earned());
        let ago = (progress + step - 1) / step;
        let phase = ago * step - progress;
        Self {
            tokens: saturating_i32(i128::from(self.tokens) + earned),
            since: Timestamp::from_nanos(self.now.as_nanos().saturating_sub(saturating_u64(ago))),
            phase: u32::try_from(phase).unwrap_or(0), // Below `step`, which is a u32.
            progress,
            ..self
        }
    }

    /// The wait until the bucket holds `level` tokens.
    fn wait_until(&self, level: i64) -> Duration {
        let missing = i128::from(level) - i128::from(self.tokens);
        if missing <= 0 {
            return Duration::ZERO;
        }
        let short = missing * i128::from(self.bucket.per_nanos()) - self.progress;
        let short = u128::try_from(short).unwrap_or(0);
        Duration::from_nanos(match u64::try_from(short) {
            Ok(short) => short.div_ceil(u64::from(self.bucket.earned())),
            Err(_) => clamped(short.div_ceil(u128::from(self.bucket.earned()))),
        })
    }
}

impl Counter for Level<'_> {
    #[inline]
    fn fits(&self, cost: Cost) -> bool {
        i64::try_from(cost.get()).is_ok_and(|cost| i64::from(self.tokens) >= cost)
    }

    #[inline]
    fn take(&mut self, cost: Cost) {
        let cost = i64::try_from(cost.get()).unwrap_or(i64::MAX);
        let left = i64::from(self.tokens).saturating_sub(cost);
        self.tokens = saturating_i32(i128::from(left).max(-i128::from(capacity(self.bucket))));
    }

    fn give_back(&mut self, cost: Cost) {
        let tokens = i128::from(self.tokens) + i128::from(cost.get());
        self.tokens = saturating_i32(tokens.min(i128::from(capacity(self.bucket))));
    }

    fn count_refused(&mut self, _: Cost) {}

    #[inline]
    fn remaining(&self) -> u64 {
        u64::try_from(self.tokens).unwrap_or(0)
    }

    #[inline]
    fn reset_after(&self) -> Duration {
        self.wait_until(i64::from(self.bucket.burst()))
    }

    #[inline]
    fn wait_for(&self, cost: Cost) -> Option<Duration> {
        let cost = i64::try_from(cost.get()).ok()?;
        (cost <= i64::from(self.bucket.burst())).then(|| self.wait_until(cost))
    }

    #[inline]
    fn blank_at(&self, reset_after: Duration) -> Timestamp {
        self.now.saturating_add(reset_after)
    }

    #[inline]
    fn state(&self) -> State {
        State::from_halves(self.since.as_nanos(), self.tokens.cast_unsigned(), self.phase)
    }
}

fn capacity(bucket: &TokenBucket) -> i32 {
    i32::try_from(bucket.burst()).unwrap_or(i32::MAX)
}

fn saturating_i32(value: i128) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}

fn saturating_u64(value: i128) -> u64 {
    u64::try_from(value).unwrap_or(if value < 0 { 0 } else { u64::MAX })
}
