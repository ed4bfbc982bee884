//! A limit as it was written and as it is in force, for those who ask why.

use crate::bucket::{LimitKind, Place};
use crate::level::{Levels, Origin};
use crate::partial_limit::Excess;
use hivemind_core::Limit;

/// One limit in force, beside what was configured for it.
///
/// ```
/// use hivemind_tower::{LimitKind, Limits, PartialLimit, RateLimiter, ServiceLimits};
///
/// let shop = ServiceLimits::new("shop").endpoint("POST /login", PartialLimit::new().requests(5).burst(5));
/// let limits = RateLimiter::new(Limits::new().service(shop))?.effective_limits();
/// let login = limits.iter().find(|limit| limit.endpoint == "POST /login").ok_or("no limit of its own")?;
/// assert_eq!((login.service.as_deref(), login.kind), (Some("shop"), LimitKind::Http));
/// assert!(login.limit.requests() == 5 && !login.is_capped() && !login.dry_run);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectiveLimit {
    /// The service; none for the platform's, which holds for every service without its own.
    pub service: Option<String>,
    /// The endpoint's pattern, or `*`.
    pub endpoint: String,
    /// What it matches, `POST /login` or `/files/{*path}`; nothing where it is for a whole service.
    pub patterns: Vec<String>,
    /// What it counts.
    pub kind: LimitKind,
    /// What the levels of the configuration add up to.
    pub configured: Limit,
    /// What is in force: the same, at most the platform's maximum.
    pub limit: Limit,
    /// Which level says each field.
    pub origin: Origin,
    /// Whether it only tells what it would refuse.
    pub dry_run: bool,
    /// How many requests more than the first are not held back, where those over the rate are; none: they are refused.
    pub delay_after: Option<u32>,
}

impl EffectiveLimit {
    pub(crate) fn new(place: &Place<'_>, levels: &Levels, configured: Limit, limit: Limit) -> Self {
        let whole = levels.whole();
        Self {
            service: place.service.map(Into::into),
            endpoint: place.endpoint.into(),
            patterns: Vec::new(),
            kind: place.kind,
            configured,
            limit,
            origin: levels.origin(),
            dry_run: whole.dry_run.unwrap_or(false),
            delay_after: match whole.excess {
                Some(Excess::Delay { after }) => Some(after),
                Some(Excess::Reject) | None => None,
            },
        }
    }

    /// Whether the platform's maximum holds it down.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter};
    /// let limits = Limits::new().max_requests(50).platform(PartialLimit::new().requests(80));
    /// assert!(RateLimiter::new(limits)?.effective_limits().iter().any(|limit| limit.is_capped()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.configured != self.limit
    }
}
