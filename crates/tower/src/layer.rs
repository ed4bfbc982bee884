//! The tower layer: a rate limiter and the name of the service that it limits.

use crate::limiter::{LimiterError, RateLimiter};
use crate::limits::Limits;
use crate::service::RateLimit;
use std::sync::Arc;
use tower_layer::Layer;

/// A tower layer that limits the requests to a service.
///
/// ```
/// use hivemind_tower::{Limits, PartialLimit, RateLimitLayer};
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let layer = RateLimitLayer::new(Limits::new().platform(PartialLimit::new().requests(1).burst(1)))?;
/// let hello = service_fn(|_: Request<()>| async { Ok::<_, std::convert::Infallible>(Response::new("hello")) });
/// let limited = layer.layer(hello);
/// assert_eq!(runtime.block_on(limited.clone().oneshot(Request::new(())))?.status(), 200);
/// assert_eq!(runtime.block_on(limited.oneshot(Request::new(())))?.status(), 429);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    limiter: RateLimiter,
    service: Arc<str>,
}

impl RateLimitLayer {
    /// A layer with its own limiter, for a service named `default`.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimitLayer};
    /// let layer = RateLimitLayer::new(Limits::new().platform(PartialLimit::per_second(10).burst(20)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the limits are invalid, or the thread that removes idle keys cannot be started.
    pub fn new(limits: Limits) -> Result<Self, LimiterError> {
        Ok(RateLimiter::new(limits)?.layer("default"))
    }

    /// Its limiter, for example to reload the limits.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimitLayer};
    /// let layer = RateLimitLayer::new(Limits::new())?;
    /// layer.limiter().reload(&Limits::new().platform(PartialLimit::per_second(5)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }
}

impl RateLimiter {
    /// The layer for the service of this name.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new())?;
    /// let (shop, blog) = (limiter.layer("shop"), limiter.layer("blog")); // Each has its own counters.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn layer(&self, service: &str) -> RateLimitLayer {
        RateLimitLayer { limiter: self.clone(), service: service.into() }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, self.limiter.clone(), Arc::clone(&self.service))
    }
}
