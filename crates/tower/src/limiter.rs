//! The limiter that all layers of a process share: limits, counters, clock, identity
//! and answers. Limits are swapped whole; the rest is fixed when it is built.

use crate::answer::Answers;
use crate::backend::{Backend, Later};
use crate::effective_limit::EffectiveLimit;
use crate::identity::Identity;
use crate::layer::RateLimitLayer;
use crate::limiter_builder::RateLimiterBuilder;
use crate::limits::Limits;
use crate::limits_error::LimitsError;
use crate::open_connections::OpenConnections;
use crate::refusal_log::RefusalLog;
use crate::resolved::Resolved;
use crate::service_limiter::ServiceLimiter;
use arc_swap::ArcSwap;
use hivemind_core::store::{Context, KeySeed, StoreError, Sweeper, Verdicts};
use hivemind_core::{Clock, StartError, Timestamp};
use http::Extensions;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Poll;
use std::time::Duration;

pub(crate) type PeerOf = Box<dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync>;
pub(crate) type Sleeper = Box<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

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
    /// Its limits make no sense.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The sweep of its counters cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A rate limiter for any number of services; cheap to clone, and all clones are one.
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
pub struct RateLimiter(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) limits: ArcSwap<Resolved>,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) identity: Identity,
    pub(crate) answers: Answers,
    pub(crate) log: Arc<RefusalLog>,
    pub(crate) peer: PeerOf,
    pub(crate) open: OpenConnections,
    pub(crate) fails_closed: bool,
    pub(crate) store_timeout: Duration,
    pub(crate) warns_again_at: AtomicU64,
    pub(crate) warned_of_peer: AtomicBool,
    pub(crate) sleeper: Sleeper,
    pub(crate) seed: KeySeed,
    pub(crate) _sweeper: Option<Sweeper>,
}

impl RateLimiter {
    /// A limiter with its counters in this process, and the defaults of everything else.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new().platform(PartialLimit::per_second(10).burst(20)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the limits make no sense, or the thread that removes idle keys cannot be started.
    pub fn new(limits: Limits) -> Result<Self, LimiterError> {
        Self::builder(limits).build()
    }

    /// A limiter that is told more than its limits.
    ///
    /// ```
    /// # use hivemind_tower::{Headers, Limits, RateLimiter};
    /// let quiet = RateLimiter::builder(Limits::new()).headers(Headers::Off).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(limits: Limits) -> RateLimiterBuilder {
        RateLimiterBuilder::new(limits)
    }

    /// The layer to put before the service of this name.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new())?;
    /// let (shop, blog) = (limiter.layer("shop"), limiter.layer("blog")); // Each counts for itself.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn layer(&self, service: &str) -> RateLimitLayer {
        RateLimitLayer::of(self.clone(), service)
    }

    /// The gate before the service of this name, for who asks by hand instead of by a layer.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// assert_eq!(RateLimiter::new(Limits::new())?.service_limiter("shop").service(), "shop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn service_limiter(&self, service: &str) -> ServiceLimiter {
        ServiceLimiter::new(self.clone(), service)
    }

    /// How clients are told apart here.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new())?;
    /// assert_eq!(limiter.identity().address().header(), None); // No header is believed without a word.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Puts other limits in force, from the next request on, under traffic and without a lock. Counters
    /// stay: a changed limit goes on from what its clients have used.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new())?;
    /// let wrong = limiter.reload(&Limits::new().platform(PartialLimit::new().requests(0)));
    /// assert!(wrong.is_err()); // And all goes on as before.
    /// limiter.reload(&Limits::new().platform(PartialLimit::new().requests(50)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If they make no sense; then those before stay in force.
    pub fn reload(&self, limits: &Limits) -> Result<(), LimitsError> {
        let shared = &self.0;
        let resolved = Arc::new(Resolved::new(limits, &shared.seed)?);
        let before = shared.limits.swap(Arc::clone(&resolved));
        warn_of_capped(&resolved.effective, &before.effective);
        if resolved.effective != before.effective {
            shared.backend.hold(shared.clock.now(), resolved.longest_memory());
        }
        Ok(())
    }

    /// The limits in force, each beside what was configured for it.
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
        self.0.limits.load().effective.clone()
    }
}

impl Shared {
    pub(crate) async fn pause(&self, delay: Duration) {
        if !delay.is_zero() {
            (self.sleeper)(delay).await;
        }
    }

    /// A question to the store at this moment, and until when its answer is of use.
    pub(crate) fn context(&self, now: Timestamp) -> Context {
        Context { deadline: Some(now.saturating_add(self.store_timeout)), ..Context::at(now) }
    }

    /// What a store says that has to be waited for, if it says it in time.
    pub(crate) async fn in_time(&self, mut later: Later) -> Result<Verdicts, StoreError> {
        let mut end = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(verdicts) = later.as_mut().poll(cx) {
                return Poll::Ready(verdicts);
            }
            // No timer is set for who need not wait.
            let end = end.get_or_insert_with(|| (self.sleeper)(self.store_timeout));
            end.as_mut().poll(cx).map(|()| Err(StoreError::DeadlinePassed))
        })
        .await
    }
}

/// Warns of each limit that the platform's maximum holds down, unless it was so before. One that a
/// service has from the platform is the platform's, and told once.
pub(crate) fn warn_of_capped(now: &[EffectiveLimit], before: &[EffectiveLimit]) {
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
            "a limit is above the platform's maximum: configured is a {}, in force a {}; lower it or raise the maximum",
            capped.configured,
            capped.limit,
        );
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.0;
        f.debug_struct("RateLimiter")
            .field("limits", &shared.limits.load().effective)
            .field("identity", &shared.identity)
            .field("answers", &shared.answers)
            .finish_non_exhaustive()
    }
}
