//! The rate limiter that all layers of a process share.

use crate::active_limits::ActiveLimits;
use crate::effective_limit::EffectiveLimit;
use crate::identity::Identity;
use crate::limiter_state::LimiterState;
use crate::limits::Limits;
use crate::limits_error::LimitsError;
use crate::open_connections::OpenConnections;
use crate::refusal_response::RefusalBody;
use hivemind_core::StartError;
use hivemind_core::store::{KeySeed, Sweeper};
use http::Extensions;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

pub(crate) type PeerLookup = Box<dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync>;

/// Why a limiter cannot be built.
///
/// ```
/// use hivemind_tower::{Limits, PartialLimit, RateLimiter};
///
/// let error = RateLimiter::new(Limits::new().platform(PartialLimit::new().burst(0))).unwrap_err();
/// assert!(error.to_string().contains("`burst` must be at least 1"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimiterError {
    /// The limits are invalid.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The thread that removes idle counters cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A rate limiter for any number of services. Clones are cheap and share all counters.
///
/// ```
/// use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};
///
/// let limiter = RateLimiter::new(Limits::new())?;
/// let (shop, blog) = (limiter.layer("shop"), limiter.layer("blog"));
/// # let _ = (shop, blog);
/// let stricter = ServiceLimits::new("shop").limit(PartialLimit::per_second(5).burst(5));
/// limiter.reload(&Limits::new().service(stricter))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RateLimiter(pub(crate) Arc<LimiterInner>);

pub(crate) struct LimiterInner {
    pub(crate) state: Arc<LimiterState>,
    pub(crate) identity: Identity,
    pub(crate) refusal_body: RefusalBody,
    pub(crate) peer: PeerLookup,
    pub(crate) open: OpenConnections,
    pub(crate) fails_closed: bool,
    /// When to warn of a failing store again, in nanoseconds.
    pub(crate) next_warning_at: AtomicU64,
    pub(crate) missing_peer_warned: AtomicBool,
    pub(crate) seed: KeySeed,
    pub(crate) _sweeper: Option<Sweeper>,
}

impl RateLimiter {
    /// How it identifies clients.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new())?;
    /// assert_eq!(limiter.identity().address().header(), None); // By default no header is trusted.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Replaces the limits, without a lock and without interrupting requests. Counters are kept: a changed
    /// limit continues from the budget that its clients have used.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new())?;
    /// let wrong = limiter.reload(&Limits::new().platform(PartialLimit::new().requests(0)));
    /// assert!(wrong.is_err()); // The previous limits stay active.
    /// limiter.reload(&Limits::new().platform(PartialLimit::new().requests(50)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the limits are invalid. The previous limits stay active.
    pub fn reload(&self, limits: &Limits) -> Result<(), LimitsError> {
        let state = &self.0.state;
        let active = Arc::new(ActiveLimits::new(limits, &self.0.seed)?);
        let before = state.limits.swap(Arc::clone(&active));
        warn_capped_limits(&active.effective, &before.effective);
        if active.effective != before.effective {
            state.backend.hold(state.clock.now(), active.longest_memory());
        }
        Ok(())
    }

    /// The active limits, each with the configured limit that it results from.
    ///
    /// ```
    /// # use hivemind_tower::{LimitKind, Limits, PartialLimit, RateLimiter};
    /// let limits = Limits::new().max_requests(50).platform(PartialLimit::new().requests(80));
    /// let limits = RateLimiter::new(limits)?.effective_limits();
    /// let http = limits.iter().find(|limit| limit.kind == LimitKind::Http).ok_or("none for requests")?;
    /// assert_eq!((http.configured.requests(), http.limit.requests()), (80, 50));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn effective_limits(&self) -> Vec<EffectiveLimit> {
        self.0.state.limits.load().effective.clone()
    }
}

/// Logs a warning for each limit that the platform's maximum caps, unless it was capped before. A limit that
/// a service inherits from the platform is logged once, for the platform.
pub(crate) fn warn_capped_limits(now: &[EffectiveLimit], before: &[EffectiveLimit]) {
    let is_inherited = |limit: &EffectiveLimit| {
        let platforms = |of: &&EffectiveLimit| of.service.is_none() && of.kind == limit.kind;
        limit.service.is_some()
            && now.iter().find(platforms).is_some_and(|of| of.configured == limit.configured)
    };
    let is_new =
        |limit: &&EffectiveLimit| limit.is_capped() && !before.contains(limit) && !is_inherited(limit);
    for capped in now.iter().filter(is_new) {
        tracing::warn!(
            service = capped.service.as_deref().unwrap_or("(platform)"),
            endpoint = capped.endpoint,
            r#type = capped.kind.name(),
            "limit above the platform's maximum: {} is configured, {} is active; lower the limit or raise the maximum",
            capped.configured,
            capped.limit,
        );
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimiterInner { state, identity, .. } = &*self.0;
        f.debug_struct("RateLimiter")
            .field("limits", &state.limits.load().effective)
            .field("identity", identity)
            .field("headers", &state.headers)
            .finish_non_exhaustive()
    }
}
