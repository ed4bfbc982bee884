//! What one level of the configuration says of a limit. Every field may be left
//! open; the level below fills it in. Nothing is checked here: only the whole,
//! resolved from all its levels, can be right or wrong.

use std::time::Duration;

/// How a limit counts.
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
    /// Bursts up to a capacity, refilled steadily.
    #[default]
    TokenBucket,
    /// A count that starts anew at each multiple of the window since the Unix epoch.
    FixedWindow,
    /// A count of this window and the remaining part of the last one.
    SlidingWindow,
}

/// What becomes of requests that come faster than the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    Reject,
    Delay { after: u32 },
}

/// The fields of a limit that one level sets: platform, service or endpoint.
///
/// ```
/// use hivemind_tower::PartialLimit;
/// use std::time::Duration;
///
/// let login = PartialLimit::new().requests(5).window(Duration::from_secs(60)).burst(5);
/// let search = PartialLimit::per_second(10); // Short for ten requests in a window of a second.
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
    /// Nothing: all of it comes from the level below.
    pub const fn new() -> Self {
        Self { requests: None, window: None, burst: None, algorithm: None, excess: None, dry_run: None }
    }

    /// `requests_per_second`: short for so many requests in a window of one second.
    pub const fn per_second(requests: u32) -> Self {
        Self::new().requests(requests).window(Duration::from_secs(1))
    }

    /// How many requests in each window.
    pub const fn requests(self, requests: u32) -> Self {
        Self { requests: Some(requests), ..self }
    }

    /// How long a window is.
    pub const fn window(self, window: Duration) -> Self {
        Self { window: Some(window), ..self }
    }

    /// How many may come at once: a token bucket's capacity. Windows have none.
    pub const fn burst(self, burst: u32) -> Self {
        Self { burst: Some(burst), ..self }
    }

    /// How it counts.
    ///
    /// ```
    /// # use hivemind_tower::{Algorithm, Limits, PartialLimit};
    /// let sliding = PartialLimit::per_second(10).algorithm(Algorithm::SlidingWindow);
    /// assert!(Limits::new().platform(sliding).check().is_ok());
    /// assert!(Limits::new().platform(sliding.delay(1)).check().is_err()); // Only a bucket delays.
    /// ```
    pub const fn algorithm(self, algorithm: Algorithm) -> Self {
        Self { algorithm: Some(algorithm), ..self }
    }

    /// Lets requests wait for their turn, as nginx does without `nodelay`: past the first
    /// and `delay_after` more, each is held back until the rate allows it. What is over the
    /// burst is refused. For token buckets only.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit};
    /// // Two pass at once; the third to the twentieth wait for their turn.
    /// let smooth = PartialLimit::per_second(10).burst(20).delay(1);
    /// assert!(Limits::new().platform(smooth).check().is_ok());
    /// ```
    pub const fn delay(self, delay_after: u32) -> Self {
        Self { excess: Some(Excess::Delay { after: delay_after }), ..self }
    }

    /// Refuses at once what is over the limit. The default; an endpoint says it where its service delays.
    ///
    /// ```
    /// # use hivemind_tower::PartialLimit;
    /// assert_ne!(PartialLimit::new().reject(), PartialLimit::new()); // Said, and not left open.
    /// ```
    pub const fn reject(self) -> Self {
        Self { excess: Some(Excess::Reject), ..self }
    }

    /// Counts and passes everything, and says what it would have refused.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter};
    /// let first_look = Limits::new().platform(PartialLimit::per_second(10).dry_run(true));
    /// assert!(RateLimiter::new(first_look)?.effective_limits().iter().any(|limit| limit.dry_run));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run: Some(dry_run), ..self }
    }

    /// This level over the one below, field by field.
    pub(crate) fn over(self, below: Self) -> Self {
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
    fn a_level_goes_over_the_one_below_field_by_field() {
        let service = PartialLimit::new().requests(50).algorithm(Algorithm::FixedWindow).delay(3);
        let endpoint = PartialLimit::new().burst(5).reject().dry_run(true);
        let both = endpoint.over(service).over(PartialLimit::per_second(9).burst(7));
        let expected = PartialLimit::per_second(50).burst(5).algorithm(Algorithm::FixedWindow);
        assert_eq!(both, expected.reject().dry_run(true));
    }
}
