//! Limits, rates and periods, valid by construction: the constructors reject a zero
//! that makes no sense and a product that would overflow, so a decision has nothing
//! left to check.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

/// An invalid limit, and what to write instead.
///
/// ```
/// use hivemind_core::{Limit, LimitError, Rate};
///
/// assert_eq!(Rate::per_second(0), Err(LimitError::ZeroRate));
/// let error = Limit::token_bucket(Rate::per_second(10)?, 0).unwrap_err();
/// assert_eq!(error.to_string(), "`burst` must be at least 1; to block, use a window limit of 0 requests");
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A rate of zero.
    #[error("a rate must be at least 1 request; to block, use a window limit of 0 requests")]
    ZeroRate,
    /// A bucket without capacity.
    #[error("`burst` must be at least 1; to block, use a window limit of 0 requests")]
    ZeroBurst,
    /// More tokens than a bucket's state can store.
    #[error("`burst` must be at most {max}; it is {burst}", max = TokenBucket::MAX_BURST)]
    BurstTooLarge {
        /// The requested burst.
        burst: u32,
    },
    /// A period of zero.
    #[error("a period must be longer than 0; give it as `1s`, `5m` or `1h`")]
    ZeroPeriod,
    /// A period longer than 100 years.
    #[error("a period must be at most 100 years; split the limit or leave it out")]
    PeriodTooLong,
}

/// A span of time that is neither empty nor longer than 100 years.
///
/// ```
/// use hivemind_core::{LimitError, Period};
/// use std::time::Duration;
///
/// assert_eq!(Period::MINUTE.times(5)?.length(), Duration::from_secs(300));
/// assert_eq!(Period::SECOND.nanos(), 1_000_000_000);
/// assert_eq!(Period::new(Duration::ZERO), Err(LimitError::ZeroPeriod));
/// assert!(Period::SECOND < Period::MINUTE && Period::MINUTE < Period::HOUR && Period::HOUR < Period::DAY);
/// assert!(Period::DAY < Period::WEEK && Period::WEEK < Period::MONTH && Period::MONTH < Period::YEAR);
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period(NonZeroU64);

impl Period {
    /// One second.
    pub const SECOND: Self = Self::from_whole_seconds(1);
    /// One minute.
    pub const MINUTE: Self = Self::from_whole_seconds(60);
    /// One hour.
    pub const HOUR: Self = Self::from_whole_seconds(3_600);
    /// One day: as a window, from midnight to midnight UTC.
    pub const DAY: Self = Self::from_whole_seconds(86_400);
    /// Seven days: as a window, from Thursday to Thursday, because the epoch was one.
    pub const WEEK: Self = Self::from_whole_seconds(7 * 86_400);
    /// Thirty days, whatever the calendar says.
    pub const MONTH: Self = Self::from_whole_seconds(30 * 86_400);
    /// 365 days, whatever the calendar says.
    pub const YEAR: Self = Self::from_whole_seconds(365 * 86_400);

    const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

    const fn from_whole_seconds(seconds: u64) -> Self {
        match NonZeroU64::new(seconds * 1_000_000_000) {
            Some(nanos) => Self(nanos),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// A period of the given length.
    ///
    /// ```
    /// # use hivemind_core::{LimitError, Period};
    /// # use std::time::Duration;
    /// assert_eq!(Period::new(Duration::from_secs(60)), Ok(Period::MINUTE));
    /// let error = Period::new(Duration::MAX).unwrap_err();
    /// assert_eq!(error.to_string(), "a period must be at most 100 years; split the limit or leave it out");
    /// ```
    ///
    /// # Errors
    /// If it is zero, or longer than 100 years.
    pub fn new(length: Duration) -> Result<Self, LimitError> {
        if length > Self::LONGEST {
            return Err(LimitError::PeriodTooLong);
        }
        let nanos = u64::try_from(length.as_nanos()).map_err(|_| LimitError::PeriodTooLong)?;
        NonZeroU64::new(nanos).map(Self).ok_or(LimitError::ZeroPeriod)
    }

    /// This period, `times` over: five minutes is a minute, five times.
    ///
    /// ```
    /// # use hivemind_core::{LimitError, Period};
    /// assert_eq!(Period::DAY.times(7), Ok(Period::WEEK));
    /// assert_eq!(Period::DAY.times(0), Err(LimitError::ZeroPeriod));
    /// ```
    ///
    /// # Errors
    /// If `times` is zero, or the product is longer than 100 years.
    pub fn times(self, times: u32) -> Result<Self, LimitError> {
        let length = self.length().checked_mul(times).ok_or(LimitError::PeriodTooLong)?;
        Self::new(length)
    }

    /// Its length.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_nanos(self.0.get())
    }

    /// Its length in nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0.get()
    }
}

/// A number of requests per period, at least one.
///
/// ```
/// use hivemind_core::{Limit, Period, Rate};
///
/// assert_eq!(Rate::per_second(10)?, Rate::new(10, Period::SECOND)?);
/// let limit = Limit::token_bucket(Rate::new(100, Period::HOUR)?, 10)?;
/// assert_eq!((limit.requests(), limit.period()), (100, Period::HOUR));
/// # Ok::<(), hivemind_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    requests: NonZeroU32,
    period: Period,
}

impl Rate {
    /// `requests` per `period`.
    ///
    /// ```
    /// # use hivemind_core::{LimitError, Period, Rate};
    /// assert_eq!(Rate::new(10, Period::SECOND), Rate::per_second(10));
    /// assert_eq!(Rate::new(0, Period::SECOND), Err(LimitError::ZeroRate));
    /// ```
    ///
    /// # Errors
    /// If `requests` is zero.
    pub fn new(requests: u32, period: Period) -> Result<Self, LimitError> {
        let requests = NonZeroU32::new(requests).ok_or(LimitError::ZeroRate)?;
        Ok(Self { requests, period })
    }

    /// `requests` per second.
    ///
    /// # Errors
    /// If `requests` is zero.
    pub fn per_second(requests: u32) -> Result<Self, LimitError> {
        Self::new(requests, Period::SECOND)
    }
}

/// A bucket that holds `burst` tokens and refills at `rate`.
///
/// ```
/// use hivemind_core::{Limit, Rate, algorithm::TokenBucket};
///
/// let bucket = TokenBucket::new(Rate::per_second(10)?, 20)?;
/// assert_eq!(Limit::TokenBucket(bucket), Limit::token_bucket(Rate::per_second(10)?, 20)?);
/// # Ok::<(), hivemind_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    rate: Rate,
    burst: NonZeroU32,
    // The rate in lowest terms: products stay small, and most fit a machine word.
    earned: NonZeroU32,
    per_nanos: NonZeroU64,
}

impl TokenBucket {
    /// The largest capacity of a bucket: its state stores tokens in 31 bits and a sign.
    ///
    /// ```
    /// # use hivemind_core::{Rate, algorithm::TokenBucket};
    /// let bucket = TokenBucket::new(Rate::per_second(10)?, TokenBucket::MAX_BURST)?;
    /// assert!(bucket.with_burst(TokenBucket::MAX_BURST + 1).is_err());
    /// # Ok::<(), hivemind_core::LimitError>(())
    /// ```
    pub const MAX_BURST: u32 = i32::MAX as u32;

    /// A bucket of capacity `burst`.
    ///
    /// # Errors
    /// If `burst` is zero or above [`TokenBucket::MAX_BURST`].
    pub fn new(rate: Rate, burst: u32) -> Result<Self, LimitError> {
        let (earned, per_nanos) = lowest_terms(rate.requests, rate.period.0);
        Self { rate, burst: NonZeroU32::MIN, earned, per_nanos }.with_burst(burst)
    }

    /// A bucket of the same rate and another capacity.
    ///
    /// ```
    /// # use hivemind_core::{LimitError, Rate, algorithm::TokenBucket};
    /// let small = TokenBucket::new(Rate::per_second(10)?, 1)?;
    /// assert_eq!(small.with_burst(20)?, TokenBucket::new(Rate::per_second(10)?, 20)?);
    /// # Ok::<(), LimitError>(())
    /// ```
    ///
    /// # Errors
    /// If `burst` is zero or above [`TokenBucket::MAX_BURST`].
    #[inline]
    pub fn with_burst(self, burst: u32) -> Result<Self, LimitError> {
        let capacity = NonZeroU32::new(burst).ok_or(LimitError::ZeroBurst)?;
        if burst > Self::MAX_BURST {
            return Err(LimitError::BurstTooLarge { burst });
        }
        Ok(Self { burst: capacity, ..self })
    }

    /// Tokens earned per [`TokenBucket::per_nanos`]: the rate in lowest terms.
    ///
    /// ```
    /// # use hivemind_core::{LimitError, Rate, algorithm::TokenBucket};
    /// assert_eq!(TokenBucket::new(Rate::per_second(10)?, 20)?.earned(), 1); // One per tenth of a second.
    /// # Ok::<(), LimitError>(())
    /// ```
    #[must_use]
    pub const fn earned(&self) -> u32 {
        self.earned.get()
    }

    /// Nanoseconds in which the bucket earns [`TokenBucket::earned`] tokens.
    ///
    /// ```
    /// # use hivemind_core::{LimitError, Rate, algorithm::TokenBucket};
    /// let bucket = TokenBucket::new(Rate::per_second(7)?, 20)?;
    /// assert_eq!((bucket.earned(), bucket.per_nanos()), (7, 1_000_000_000)); // One takes a fraction of a nanosecond.
    /// # Ok::<(), LimitError>(())
    /// ```
    #[must_use]
    pub const fn per_nanos(&self) -> u64 {
        self.per_nanos.get()
    }

    pub(crate) const fn burst(&self) -> u32 {
        self.burst.get()
    }
}

fn lowest_terms(requests: NonZeroU32, nanos: NonZeroU64) -> (NonZeroU32, NonZeroU64) {
    let (mut a, mut b) = (nanos.get(), u64::from(requests.get()));
    while b != 0 {
        (a, b) = (b, a % b);
    }
    // The divisor is at least 1 and divides both, so neither becomes zero nor grows.
    let divided = u32::try_from(u64::from(requests.get()) / a).ok().and_then(NonZeroU32::new);
    (divided.unwrap_or(requests), NonZeroU64::new(nanos.get() / a).unwrap_or(nanos))
}

/// A number of requests per window; 0 blocks.
///
/// ```
/// use hivemind_core::{Limit, Period, algorithm::Window};
///
/// let window = Window::new(100, Period::MINUTE);
/// assert_eq!(Limit::FixedWindow(window), Limit::fixed_window(100, Period::MINUTE));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    requests: u32,
    period: Period,
}

impl Window {
    /// `requests` in each window of `period`, aligned to the Unix epoch.
    #[must_use]
    pub const fn new(requests: u32, period: Period) -> Self {
        Self { requests, period }
    }

    pub(crate) const fn requests(&self) -> u32 {
        self.requests
    }

    pub(crate) const fn nanos(&self) -> u64 {
        self.period.nanos()
    }
}

/// The budget of one counter.
///
/// ```
/// use hivemind_core::{Limit, Period, Rate};
///
/// let bucket = Limit::token_bucket(Rate::per_second(10)?, 20)?;
/// assert_eq!(bucket.to_string(), "token bucket of 20 refilled by 10 in 1s");
/// let window = Limit::fixed_window(1_000, Period::DAY);
/// assert_eq!((window.algorithm(), window.requests(), window.period()), ("fixed_window", 1_000, Period::DAY));
/// # Ok::<(), hivemind_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Bursts up to a capacity, refilled steadily.
    TokenBucket(TokenBucket),
    /// A count that restarts at each multiple of the period since the Unix epoch.
    FixedWindow(Window),
    /// The current window's count plus a share of the previous window's.
    SlidingWindow(Window),
}

impl Limit {
    /// A token bucket of capacity `burst` that refills at `rate`.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Rate};
    /// let limit = Limit::token_bucket(Rate::per_second(10)?, 20)?;
    /// assert_eq!((limit.requests(), limit.burst()), (10, 20));
    /// # Ok::<(), hivemind_core::LimitError>(())
    /// ```
    ///
    /// # Errors
    /// If `burst` is zero or above [`TokenBucket::MAX_BURST`].
    pub fn token_bucket(rate: Rate, burst: u32) -> Result<Self, LimitError> {
        TokenBucket::new(rate, burst).map(Self::TokenBucket)
    }

    /// At most `requests` in each window of `period`; 0 blocks.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period};
    /// let limit = Limit::fixed_window(100, Period::MINUTE);
    /// assert_eq!(limit.to_string(), "100 in each window of 60s");
    /// ```
    #[must_use]
    pub const fn fixed_window(requests: u32, period: Period) -> Self {
        Self::FixedWindow(Window::new(requests, period))
    }

    /// At most `requests` in any span of `period`, as estimated from two counters; 0 blocks.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period};
    /// let limit = Limit::sliding_window(100, Period::MINUTE);
    /// assert_eq!(limit.to_string(), "100 in any 60s");
    /// ```
    #[must_use]
    pub const fn sliding_window(requests: u32, period: Period) -> Self {
        Self::SlidingWindow(Window::new(requests, period))
    }

    /// The name of its algorithm in rules and output.
    #[must_use]
    pub const fn algorithm(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "token_bucket",
            Self::FixedWindow(_) => "fixed_window",
            Self::SlidingWindow(_) => "sliding_window",
        }
    }

    /// Requests per period.
    #[must_use]
    pub const fn requests(&self) -> u32 {
        match self {
            Self::TokenBucket(bucket) => bucket.rate.requests.get(),
            Self::FixedWindow(window) | Self::SlidingWindow(window) => window.requests,
        }
    }

    /// The period that [`Limit::requests`] is counted in.
    #[must_use]
    pub const fn period(&self) -> Period {
        match self {
            Self::TokenBucket(bucket) => bucket.rate.period,
            Self::FixedWindow(window) | Self::SlidingWindow(window) => window.period,
        }
    }

    /// The largest cost that can pass at one moment.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Rate};
    /// assert_eq!(Limit::token_bucket(Rate::per_second(1)?, 9)?.burst(), 9);
    /// assert_eq!(Limit::fixed_window(5, Period::DAY).burst(), 5);
    /// # Ok::<(), hivemind_core::LimitError>(())
    /// ```
    #[must_use]
    pub const fn burst(&self) -> u32 {
        match self {
            Self::TokenBucket(bucket) => bucket.burst.get(),
            Self::FixedWindow(window) | Self::SlidingWindow(window) => window.requests,
        }
    }

    /// Whether a counter's state means the same under both limits.
    pub(crate) fn counts_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::TokenBucket(_), Self::TokenBucket(_)) => true,
            (Self::FixedWindow(a), Self::FixedWindow(b))
            | (Self::SlidingWindow(a), Self::SlidingWindow(b)) => a.period == b.period,
            _ => false,
        }
    }

    /// The longest time after which an untouched counter is blank, as if it were new.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period};
    // A sliding window includes a share of the previous one.
    /// assert_eq!(Limit::sliding_window(5, Period::DAY).longest_memory(), 2 * Period::DAY.length());
    /// ```
    #[must_use]
    pub fn longest_memory(&self) -> Duration {
        match self {
            // A debit may have lowered it to minus its burst.
            Self::TokenBucket(bucket) => {
                let units = 2 * u128::from(bucket.burst()) * u128::from(bucket.per_nanos());
                let nanos = units.div_ceil(u128::from(bucket.earned()));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            Self::FixedWindow(window) => window.period.length(),
            Self::SlidingWindow(window) => window.period.length().saturating_mul(2),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requests, length) = (self.requests(), self.period().length());
        match self {
            Self::TokenBucket(bucket) => {
                write!(f, "token bucket of {} refilled by {requests} in {length:?}", bucket.burst)
            }
            Self::FixedWindow(_) => write!(f, "{requests} in each window of {length:?}"),
            Self::SlidingWindow(_) => write!(f, "{requests} in any {length:?}"),
        }
    }
}
