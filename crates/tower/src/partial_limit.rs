//! Partial limits: the fields of a limit that one configuration level sets.
//!
//! Fields left out are inherited from the next level. Nothing is validated here, because only the merged limit
//! can be valid or invalid.

use std::time::Duration;

/// The algorithm of a limit.
///
/// ```
/// use hivemind_tower::{Algorithm, LimitKind, Limits, PartialLimit, RateLimiter};
///
/// let hourly = PartialLimit::new().algorithm(Algorithm::FixedWindow);
/// let limits = RateLimiter::new(Limits::new().platform(hourly))?.effective_limits();
/// let http = limits.iter().find(|limit| limit.kind == LimitKind::Http).ok_or("none for requests")?;
/// assert_eq!(http.limit.to_string(), "100 in each window of 60s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Bursts up to a capacity that refills steadily.
    #[default]
    TokenBucket,
    /// A count that restarts at each multiple of the window since the Unix epoch.
    FixedWindow,
    /// A count of this window plus the weighted count of the previous one.
    SlidingWindow,
}

/// What happens to requests over the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    Reject,
    Delay { after: u32 },
}

/// The fields of a limit that one level sets: the platform, a service or an endpoint.
///
/// ```
/// use hivemind_tower::PartialLimit;
/// use std::time::Duration;
///
/// let login = PartialLimit::new().requests(5).window(Duration::from_secs(60)).burst(5);
/// let search = PartialLimit::per_second(10); // Ten requests in a window of one second.
/// # let _ = (login, search);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct PartialLimit {
    pub(crate) requests: Option<u32>,
    pub(crate) window: Option<Duration>,
    pub(crate) burst: Option<u32>,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) excess: Option<Excess>,
    pub(crate) dry_run: Option<bool>,
}

impl PartialLimit {
    /// No field: everything is inherited.
    pub const fn new() -> Self {
        Self { requests: None, window: None, burst: None, algorithm: None, excess: None, dry_run: None }
    }

    /// `requests_per_second`: this many requests in a window of one second.
    pub const fn per_second(requests: u32) -> Self {
        Self::new().requests(requests).window(Duration::from_secs(1))
    }

    /// Sets the requests per window.
    pub const fn requests(self, requests: u32) -> Self {
        Self { requests: Some(requests), ..self }
    }

    /// Sets the window.
    pub const fn window(self, window: Duration) -> Self {
        Self { window: Some(window), ..self }
    }

    /// Sets the burst: the capacity of a token bucket. Window algorithms ignore it.
    pub const fn burst(self, burst: u32) -> Self {
        Self { burst: Some(burst), ..self }
    }

    /// Sets the algorithm.
    ///
    /// ```
    /// # use hivemind_tower::{Algorithm, Limits, PartialLimit};
    /// let sliding = PartialLimit::per_second(10).algorithm(Algorithm::SlidingWindow);
    /// assert!(Limits::new().platform(sliding).check().is_ok());
    /// assert!(Limits::new().platform(sliding.delay(1)).check().is_err()); // Only token buckets can delay.
    /// ```
    pub const fn algorithm(self, algorithm: Algorithm) -> Self {
        Self { algorithm: Some(algorithm), ..self }
    }

    /// Delays excess requests, as nginx does without `nodelay`: after the first request and `delay_after` more,
    /// each one waits until the rate allows it. Requests over the burst are refused. Token buckets only.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit};
    /// // Two pass immediately; the third to the twentieth are delayed.
    /// let smooth = PartialLimit::per_second(10).burst(20).delay(1);
    /// assert!(Limits::new().platform(smooth).check().is_ok());
    /// ```
    pub const fn delay(self, delay_after: u32) -> Self {
        Self { excess: Some(Excess::Delay { after: delay_after }), ..self }
    }

    /// Refuses requests over the limit immediately. This is the default; it overrides a level that delays.
    ///
    /// ```
    /// # use hivemind_tower::PartialLimit;
    /// assert_ne!(PartialLimit::new().reject(), PartialLimit::new()); // Set explicitly, not inherited.
    /// ```
    pub const fn reject(self) -> Self {
        Self { excess: Some(Excess::Reject), ..self }
    }

    /// Dry run: counts and admits every request, and reports which ones the limit would have refused.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter};
    /// let trial = Limits::new().platform(PartialLimit::per_second(10).dry_run(true));
    /// assert!(RateLimiter::new(trial)?.effective_limits().iter().any(|limit| limit.dry_run));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run: Some(dry_run), ..self }
    }

    /// Fills in fields that are left out from the level below.
    pub(crate) fn or(self, below: Self) -> Self {
        Self {
            requests: self.requests.or(below.requests),
            window: self.window.or(below.window),
            burst: self.burst.or(below.burst),
            algorithm: self.algorithm.or(below.algorithm),
            excess: self.excess.or(below.excess),
            dry_run: self.dry_run.or(below.dry_run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_come_from_the_level_below() {
        let service = PartialLimit::new().requests(50).algorithm(Algorithm::FixedWindow).delay(3);
        let endpoint = PartialLimit::new().burst(5).reject().dry_run(true);
        let both = endpoint.or(service).or(PartialLimit::per_second(9).burst(7));
        let expected = PartialLimit::per_second(50).burst(5).algorithm(Algorithm::FixedWindow);
        assert_eq!(both, expected.reject().dry_run(true));
    }
}
