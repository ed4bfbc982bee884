//! Configuration levels of a limit: endpoint, service, platform, built-in default. A field that one level leaves
//! out is inherited from the next.

use crate::partial_limit::PartialLimit;

/// The level that a field of a limit comes from.
///
/// ```
/// use hivemind_tower::operator::Level;
///
/// assert!(Level::Endpoint > Level::Service && Level::Service > Level::Platform); // The most specific is the greatest.
/// assert_eq!(Level::BuiltIn.name(), "built_in");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// The built-in default.
    BuiltIn,
    /// The platform.
    Platform,
    /// The service.
    Service,
    /// The endpoint.
    Endpoint,
}

impl Level {
    /// Its name in API responses: `built_in`, `platform`, `service` or `endpoint`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built_in",
            Self::Platform => "platform",
            Self::Service => "service",
            Self::Endpoint => "endpoint",
        }
    }
}

/// The level that each field of a limit comes from.
///
/// ```
/// use hivemind_tower::operator::Level;
/// use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};
///
/// let shop = ServiceLimits::new("shop").limit(PartialLimit::new().burst(7));
/// let limits = Limits::new().platform(PartialLimit::new().requests(80)).service(shop);
/// let limits = RateLimiter::new(limits)?.effective_limits();
/// let shop = limits.iter().find(|limit| limit.service.as_deref() == Some("shop")).ok_or("no shop")?;
/// assert_eq!((shop.origin.requests, shop.origin.burst), (Level::Platform, Level::Service));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The requests per window.
    pub requests: Level,
    /// The window.
    pub window: Level,
    /// The burst.
    pub burst: Level,
    /// The algorithm.
    pub algorithm: Level,
    /// Whether excess is refused or delayed.
    pub mode: Level,
    /// Whether the limit is in dry run.
    pub dry_run: Level,
}

/// The fields of one limit at each level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitLevels {
    pub(crate) endpoint: PartialLimit,
    pub(crate) service: PartialLimit,
    pub(crate) platform: PartialLimit,
    pub(crate) built_in: PartialLimit,
}

impl LimitLevels {
    /// The levels of a whole service.
    pub(crate) const fn new(service: PartialLimit, platform: PartialLimit, built_in: PartialLimit) -> Self {
        Self { endpoint: PartialLimit::new(), service, platform, built_in }
    }

    /// Merges the levels field by field.
    pub(crate) fn merged(&self) -> PartialLimit {
        self.endpoint.or(self.service).or(self.platform).or(self.built_in)
    }

    pub(crate) fn origin(&self) -> Origin {
        let first = |sets: fn(&PartialLimit) -> bool| {
            let nearest = [
                (&self.endpoint, Level::Endpoint),
                (&self.service, Level::Service),
                (&self.platform, Level::Platform),
            ];
            nearest.into_iter().find(|(limit, _)| sets(limit)).map_or(Level::BuiltIn, |(_, level)| level)
        };
        Origin {
            requests: first(|limit| limit.requests.is_some()),
            window: first(|limit| limit.window.is_some()),
            burst: first(|limit| limit.burst.is_some()),
            algorithm: first(|limit| limit.algorithm.is_some()),
            mode: first(|limit| limit.excess.is_some()),
            dry_run: first(|limit| limit.dry_run.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when the service precedes the endpoint.
    #[test]
    fn each_field_comes_from_the_nearest_level_that_sets_it() {
        let levels = LimitLevels {
            endpoint: PartialLimit::new().requests(5),
            service: PartialLimit::new().requests(9).burst(3),
            platform: PartialLimit::per_second(20).burst(7).dry_run(true),
            built_in: PartialLimit::per_second(100).burst(50),
        };
        let Origin { requests, window, burst, algorithm, mode, dry_run } = levels.origin();
        assert_eq!([requests, burst, window], [Level::Endpoint, Level::Service, Level::Platform]);
        assert_eq!([dry_run, algorithm, mode], [Level::Platform, Level::BuiltIn, Level::BuiltIn]);
        assert_eq!(levels.merged(), PartialLimit::per_second(5).burst(3).dry_run(true));
    }
}
