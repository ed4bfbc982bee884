//! The layer: a limiter and the name of the service that it stands before.

use crate::limiter::{LimiterError, RateLimiter};
use crate::limits::Limits;
use crate::service::RateLimit;
use std::sync::Arc;
use tower_layer::Layer;

/// Puts a rate limit before a service.
#[derive(Clone, Debug)]
pub struct RateLimitLayer {
    limiter: RateLimiter,
    service: Arc<str>,
}

impl RateLimitLayer {
    /// A layer with a limiter of its own, before the one service `default`.
    ///
    /// # Errors
    /// If the limits make no sense, or the thread that removes idle keys cannot be started.
    pub fn new(limits: Limits) -> Result<Self, LimiterError> {
        Ok(RateLimiter::new(limits)?.layer("default"))
    }

    pub(crate) fn of(limiter: RateLimiter, service: &str) -> Self {
        Self { limiter, service: service.into() }
    }

    /// The limiter behind it, to reload it or to see its limits.
    #[must_use]
    pub const fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, self.limiter.clone(), Arc::clone(&self.service))
    }
}
