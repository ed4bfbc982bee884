//! Sampling options: lines per client and window, and lines per second of all clients.

use hivemind_core::Timestamp;
use std::num::NonZeroU32;
use std::time::Duration;

/// How many lines are written per client and window, and per second of all clients together.
///
/// ```
/// use hivemind_tower::{LogSampling, RefusalLog};
/// use std::{num::NonZeroU32, time::Duration};
///
/// // For a jail with maxretry = 5 and findtime = 10m.
/// let five = NonZeroU32::new(5).ok_or("zero")?;
/// let log = RefusalLog::events().with_sampling(LogSampling::new(five, Duration::from_secs(600)));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSampling {
    pub(super) first: NonZeroU32,
    window: Duration,
    pub(super) per_second: NonZeroU32,
}

impl LogSampling {
    /// Writes the `first` lines of a client in each `window`. Use your jail's `maxretry` and `findtime`: with
    /// fewer lines fail2ban would never ban. All clients together get 1,000 lines per second.
    #[must_use]
    pub const fn new(first: NonZeroU32, window: Duration) -> Self {
        const THOUSAND: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);
        Self { first, window, per_second: THOUSAND }
    }

    /// Bounds the lines per second of all clients together. Lines over the bound are counted and reported; their
    /// clients are banned later.
    ///
    /// ```
    /// # use hivemind_tower::LogSampling;
    /// # use std::num::NonZeroU32;
    /// let fewer = LogSampling::default().most_per_second(NonZeroU32::new(100).ok_or("zero")?);
    /// assert_ne!(fewer, LogSampling::default());
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub const fn most_per_second(self, lines: NonZeroU32) -> Self {
        Self { per_second: lines, ..self }
    }

    pub(super) fn is_expired(self, since: Timestamp, now: Timestamp) -> bool {
        // Otherwise a clock that was set back by more than a window would silence a client for that long.
        now.since(since) >= self.window || since.since(now) >= self.window
    }
}

/// 20 lines in 60 seconds, as in the jail in `deploy/fail2ban`.
impl Default for LogSampling {
    fn default() -> Self {
        const TWENTY: NonZeroU32 = NonZeroU32::MIN.saturating_add(19);
        Self::new(TWENTY, Duration::from_secs(60))
    }
}
