//! An active limit: its counters' key prefix, its address guard and its precomputed headers.

use crate::limit_kind::{LimitKind, LimitScope, SCOPED_GUARD_KEYS};
use crate::limits_error::LimitsError;
use crate::partial_limit::{Algorithm, Excess, PartialLimit};
use crate::policy::Policy;
use hivemind_core::store::{KeyPrefix, KeySeed};
use hivemind_core::{Limit, LimitError, Period, Rate};
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// An active limit.
pub(crate) struct Bucket {
    pub(crate) kind: LimitKind,
    pub(crate) limit: Limit,
    /// The service in the names of its counters; `None` is the service of the request.
    pub(crate) service: Option<Box<str>>,
    /// The endpoint's pattern or name, or `*`.
    pub(crate) endpoint: Box<str>,
    pub(crate) prefix: KeyPrefix,
    pub(crate) dry_run: bool,
    /// The address guard of this limit, if it is stricter than the global one.
    pub(crate) guard: Option<Arc<Bucket>>,
    /// Of a guard: whether it applies to one service and endpoint instead of all requests.
    pub(crate) is_scoped: bool,
    /// In delay mode: requests pass without delay while refilling the bucket takes at most this long.
    pub(crate) delay_threshold: Option<Duration>,
    pub(crate) policy: Policy,
}

impl Bucket {
    pub(crate) fn new(
        seed: &KeySeed,
        scope: &LimitScope<'_>,
        merged: PartialLimit,
        limit: Limit,
    ) -> Result<Self, LimitsError> {
        let prefix = KeyPrefix::new(seed, scope.kind.domain(), scope.kind.keys().iter().copied(), &limit, 0);
        let delay_threshold = match (merged.excess, &limit) {
            (None | Some(Excess::Reject), _) => None,
            (Some(Excess::Delay { .. }), _) if !scope.kind.is_delayable() => {
                return Err(LimitsError::Undelayable { place: scope.to_string(), kind: scope.kind });
            }
            (Some(Excess::Delay { after }), Limit::TokenBucket(_)) => Some(delay_threshold(&limit, after)),
            (Some(Excess::Delay { .. }), _) => {
                return Err(LimitsError::DelayedWindow { place: scope.to_string(), kind: scope.kind });
            }
        };
        Ok(Self {
            kind: scope.kind,
            limit,
            service: scope.service.map(Into::into),
            endpoint: scope.endpoint.into(),
            prefix,
            dry_run: merged.dry_run.unwrap_or_default(),
            guard: None,
            is_scoped: false,
            delay_threshold,
            policy: Policy::new(scope, &limit),
        })
    }

    /// An address guard for this scope alone, with counters of its own.
    pub(crate) fn new_scoped_guard(
        seed: &KeySeed,
        scope: &LimitScope<'_>,
        merged: PartialLimit,
        limit: Limit,
    ) -> Result<Self, LimitsError> {
        // Connections are counted apart from requests, and so are their addresses.
        let endpoint = if scope.kind == LimitKind::Http { scope.endpoint } else { scope.kind.domain() };
        let guard_scope = LimitScope { kind: LimitKind::IpGuard, service: scope.service, endpoint };
        let prefix = KeyPrefix::new(seed, guard_scope.kind.domain(), SCOPED_GUARD_KEYS, &limit, 0);
        Ok(Self { prefix, is_scoped: true, ..Self::new(seed, &guard_scope, merged, limit)? })
    }

    /// How long to delay an admitted request, given the time until the bucket is full again.
    pub(crate) fn delay(&self, reset_after: Duration) -> Duration {
        self.delay_threshold.map_or(Duration::ZERO, |threshold| reset_after.saturating_sub(threshold))
    }

    /// Whether it admits less than another. A limit in dry run refuses no request and is never stricter than
    /// one that refuses.
    pub(crate) fn is_stricter_than(&self, other: &Self) -> bool {
        let by_burst = || self.limit.burst().cmp(&other.limit.burst());
        let by_limit = || cmp_by_rate(&self.limit, &other.limit).then_with(by_burst);
        self.dry_run.cmp(&other.dry_run).then_with(by_limit).is_lt()
    }
}

/// Orders limits by their rate, the slowest first.
pub(crate) fn cmp_by_rate(one: &Limit, other: &Limit) -> Ordering {
    let cross_product =
        |one: &Limit, other: &Limit| u128::from(one.requests()) * other.period().length().as_nanos();
    cross_product(one, other).cmp(&cross_product(other, one))
}

/// The limit of fields that were merged from all levels.
pub(crate) fn build_limit(merged: PartialLimit) -> Result<Limit, LimitError> {
    let period = Period::new(merged.window.unwrap_or_default())?;
    let requests = merged.requests.unwrap_or_default();
    match merged.algorithm.unwrap_or_default() {
        Algorithm::TokenBucket => {
            Limit::token_bucket(Rate::new(requests, period)?, merged.burst.unwrap_or_default())
        }
        Algorithm::FixedWindow => Ok(Limit::fixed_window(requests, period)),
        Algorithm::SlidingWindow => Ok(Limit::sliding_window(requests, period)),
    }
}

/// The time in which the tokens of the first request and of `after` more are earned.
fn delay_threshold(limit: &Limit, after: u32) -> Duration {
    let units = (u128::from(after) + 1) * limit.period().length().as_nanos();
    let nanos = units.div_ceil(u128::from(limit.requests().max(1)));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
