//! Time limit of a request: for all its commands together, and at most until its caller's deadline.

use hivemind_core::store::{Context, StoreError};
use hivemind_core::{Clock, SystemClock, Timestamp};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    until: Timestamp,
    at_most: Duration,
    /// Whether the caller's deadline is earlier than the timeout.
    is_the_callers: bool,
}

impl Wait {
    /// The timeout of a call, starting now.
    pub(crate) fn new(at_most: Duration) -> Self {
        Self { until: SystemClock.now().saturating_add(at_most), at_most, is_the_callers: false }
    }

    /// The same, but at most until the deadline of a request.
    pub(crate) fn of(context: Context, timeout: Duration) -> Result<Self, StoreError> {
        let Some(deadline) = context.deadline else { return Ok(Self::new(timeout)) };
        let left = deadline.since(context.now);
        if left.is_zero() {
            return Err(StoreError::DeadlinePassed);
        }
        Ok(Self { is_the_callers: left < timeout, ..Self::new(timeout.min(left)) })
    }

    /// The remaining time, even if the clock is set in the meantime.
    pub(crate) fn left(&self) -> Duration {
        self.until.since(SystemClock.now()).min(self.at_most)
    }

    pub(crate) const fn is_the_callers(&self) -> bool {
        self.is_the_callers
    }

    pub(crate) const fn at_most(&self) -> Duration {
        self.at_most
    }
}
