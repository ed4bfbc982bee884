//! The decision about one request, for its handlers.
//!
//! A decision knows the counters that were charged, so that a handler can refund or debit them later.

use crate::bucket::Bucket;
use crate::charge_plan::ChargePlan;
use crate::client::Client;
use crate::limit_kind::LimitKind;
use crate::limiter_state::LimiterState;
use crate::retry_after::RetryAfter;
use crate::spent_costs::SpentCosts;
use hivemind_core::store::{Charge, Op, StoreError, Verdict, Verdicts};
use hivemind_core::{Cost, Limit, Timestamp};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The decision about a request, in the request's extensions. It is cheap to clone.
///
/// Extract it as an `Option`: there is none if limits are disabled or the store failed.
///
/// ```
/// use hivemind_tower::{Limits, Admission, RateLimiter};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let peer = Some([203, 0, 113, 9].into());
/// let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, peer)) else { panic!("refused") };
/// // Behind a layer, a handler gets it from `request.extensions().get::<Decision>()`.
/// let decision = pass.decision().ok_or("no decision")?;
/// assert!(decision.is_allowed() && decision.retry_after().is_none() && decision.delay().is_zero());
/// assert_eq!(decision.client().name(), "ip:203.0.113.9");
/// assert_eq!((decision.service(), decision.endpoint(), decision.kind().name()), ("shop", "*", "http"));
/// assert_eq!((decision.limit().burst(), decision.remaining()), (100, 99));
/// assert!(!decision.is_dry_run_refusal() && decision.reset_after().as_millis() == 600);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Decision(Arc<DecisionInner>);

struct DecisionInner {
    plan: ChargePlan,
    state: Arc<LimiterState>,
    /// The verdict of the limit that the decision reports.
    verdict: Verdict,
    is_by_guard: bool,
    is_allowed: bool,
    is_guard_refusal: bool,
    delay: Duration,
    spent: SpentCosts,
    at: Timestamp,
}

impl Decision {
    pub(crate) fn new(
        plan: ChargePlan,
        state: &Arc<LimiterState>,
        verdicts: &Verdicts,
        at: Timestamp,
    ) -> Result<Self, StoreError> {
        let (each, is_allowed) = (verdicts.each(), verdicts.committed);
        let wrong_count =
            || StoreError::Unreachable { reason: "it returned a wrong number of verdicts".into() };
        let (own, guard) = match each {
            [own, rest @ ..] if plan.len() == each.len() => (own, rest.first()),
            _ => return Err(wrong_count()),
        };
        let is_refusing = |(index, verdict): &(usize, &Verdict)| {
            !verdict.is_admitted() && (is_allowed || plan.is_enforced(*index))
        };
        let refusing = each.iter().enumerate().filter(is_refusing);
        let strictest = refusing.min_by_key(|(_, verdict)| verdict.strictness());
        // An admitted request reports its own bucket: the guard's is shared with other clients of its address.
        let (index, verdict) = strictest.unwrap_or((0, own));
        let is_delayable = is_allowed && own.is_admitted() && plan.is_enforced(0);
        let is_guard_refusal =
            !is_allowed && plan.is_enforced(1) && guard.is_some_and(|guard| !guard.is_admitted());
        Ok(Self(Arc::new(DecisionInner {
            state: Arc::clone(state),
            verdict: *verdict,
            is_by_guard: index > 0,
            is_allowed,
            is_guard_refusal,
            delay: if is_delayable { plan.bucket.delay(own.reset_after) } else { Duration::ZERO },
            spent: SpentCosts::new(verdicts),
            at,
            plan,
        })))
    }

    /// Whether the guard of the client's address refuses it, alone or together with the client's own limit.
    pub(crate) fn is_guard_refusal(&self) -> bool {
        self.0.is_guard_refusal
    }

    pub(crate) fn plan(&self) -> &ChargePlan {
        &self.0.plan
    }

    pub(crate) fn spent(&self) -> &SpentCosts {
        &self.0.spent
    }

    /// The limit that the decision reports.
    pub(crate) fn bucket(&self) -> &Bucket {
        match &self.0.plan.guard {
            Some(guard) if self.0.is_by_guard => &guard.bucket,
            _ => &self.0.plan.bucket,
        }
    }

    pub(crate) fn verdict(&self) -> &Verdict {
        &self.0.verdict
    }

    pub(crate) fn state(&self) -> &Arc<LimiterState> {
        &self.0.state
    }

    pub(crate) fn at(&self) -> Timestamp {
        self.0.at
    }

    /// How long the request is delayed before it continues; zero unless its limit delays.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.0.delay
    }

    /// The client that was charged.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.plan.client
    }

    /// The name that the layer gives the service.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.0.plan.service
    }

    /// The pattern or name of the endpoint, or `*` if none with its own limit matches.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.0.plan.bucket.endpoint
    }

    /// What the reported limit counts.
    #[must_use]
    pub fn kind(&self) -> LimitKind {
        self.bucket().kind
    }

    /// The reported limit: of a refusal the one that refused, otherwise the client's own.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.bucket().limit
    }

    /// Calls `read` with the charge of the reported limit: the counter's key and the parts of its name.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, Admission, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
    /// # let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// # let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
    /// # let decision = pass.decision().ok_or("no decision")?;
    /// let named = decision.with_charge(|charge| charge.parts.entries[0].1.to_owned());
    /// assert_eq!(named.as_deref(), Some("shop")); // The first part of the name is the service.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_charge<T>(&self, read: impl FnOnce(&Charge<'_>) -> T) -> Option<T> {
        let names = self.0.plan.names();
        let charges = self.0.plan.batch(&names, Op::Spend, [Cost::ONE; 2]);
        charges.get(usize::from(self.0.is_by_guard)).map(read)
    }

    /// The limit of the client's address, if it was charged in addition.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, Admission, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
    /// let (request, ()) = http::Request::get("/").header("x-api-key-id", "k1").body(())?.into_parts();
    /// # let peer = Some([203, 0, 113, 9].into());
    /// # let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, peer)) else { panic!("refused") };
    /// # let decision = pass.decision().ok_or("no decision")?;
    /// // The client has a name, so its address is charged too, with ten times the limit of one client.
    /// assert_eq!(decision.guard_limit().map(|limit| limit.requests()), Some(1_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn guard_limit(&self) -> Option<Limit> {
        self.0.plan.guard.as_ref().map(|guard| guard.bucket.limit)
    }

    /// Whether the request is admitted.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.0.is_allowed
    }

    /// Whether the request passed only because the refusing limit is in dry run.
    #[must_use]
    pub fn is_dry_run_refusal(&self) -> bool {
        self.0.is_allowed && !self.0.verdict.is_admitted()
    }

    /// The remaining budget of the limit after the decision.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.0.verdict.remaining
    }

    /// The time from the decision until the limit's whole budget is available again.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.0.verdict.reset_after
    }

    /// When a refused client may retry; `None` for an admitted request.
    #[must_use]
    pub fn retry_after(&self) -> Option<RetryAfter> {
        RetryAfter::of(self.0.verdict.outcome)
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("client", self.client())
            .field("service", &self.service())
            .field("endpoint", &self.endpoint())
            .field("limit", &self.limit())
            .field("is_allowed", &self.is_allowed())
            .field("verdict", self.verdict())
            .finish_non_exhaustive()
    }
}
