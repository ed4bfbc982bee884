//! Effective limits: each active limit with the configured one and its origin, for operators.

use crate::level::{LimitLevels, Origin};
use crate::limit_kind::{LimitKind, LimitScope};
use crate::partial_limit::Excess;
use hivemind_core::Limit;

/// An active limit, with the configured limit that it results from.
///
/// ```
/// use hivemind_tower::{LimitKind, Limits, PartialLimit, RateLimiter, ServiceLimits};
///
/// let shop = ServiceLimits::new("shop").endpoint("POST /login", PartialLimit::new().requests(5).burst(5));
/// let limits = RateLimiter::new(Limits::new().service(shop))?.effective_limits();
/// let login = limits.iter().find(|limit| limit.endpoint == "POST /login").ok_or("not found")?;
/// assert_eq!((login.service.as_deref(), login.kind), (Some("shop"), LimitKind::Http));
/// assert!(login.limit.requests() == 5 && !login.is_capped() && !login.dry_run);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectiveLimit {
    /// The service; `None` is the platform: every service without limits of its own.
    pub service: Option<String>,
    /// The endpoint's pattern or name, or `*`.
    pub endpoint: String,
    /// The patterns that it matches, such as `POST /login` or `/files/{*path}`; empty for a whole service.
    pub patterns: Vec<String>,
    /// What it counts.
    pub kind: LimitKind,
    /// The limit merged from all levels of the configuration.
    pub configured: Limit,
    /// The active limit: the configured one, capped by the platform's maximum.
    pub limit: Limit,
    /// The level that each field comes from.
    pub origin: Origin,
    /// Whether it only reports what it would refuse.
    pub dry_run: bool,
    /// In delay mode, how many requests after the first pass without delay; `None` if excess is refused.
    pub delay_after: Option<u32>,
}

impl EffectiveLimit {
    pub(crate) fn new(scope: &LimitScope<'_>, levels: &LimitLevels, configured: Limit, limit: Limit) -> Self {
        let merged = levels.merged();
        Self {
            service: scope.service.map(Into::into),
            endpoint: scope.endpoint.into(),
            patterns: Vec::new(),
            kind: scope.kind,
            configured,
            limit,
            origin: levels.origin(),
            dry_run: merged.dry_run.unwrap_or(false),
            delay_after: match merged.excess {
                Some(Excess::Delay { after }) => Some(after),
                Some(Excess::Reject) | None => None,
            },
        }
    }

    /// Whether the platform's maximum caps it.
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
