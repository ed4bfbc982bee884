//! What was decided about one request, for its handlers. It knows its counters, so
//! that a cost which is known only afterwards can still be put right.

use crate::bucket::{Bucket, LimitKind};
use crate::client::Client;
use crate::limiter::Shared;
use crate::order::Order;
use crate::retry_after::RetryAfter;
use crate::settle::Spent;
use hivemind_core::store::{Charge, Op, StoreError, Verdict, Verdicts};
use hivemind_core::{Cost, Limit, Timestamp};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The decision about a request, in its extensions; cheap to clone.
///
/// It is there when a limit was asked. With limits switched off, or a store that failed, it
/// is not: take it as an `Option`.
///
/// ```
/// use hivemind_tower::{Limits, Admission, RateLimiter};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let peer = Some([203, 0, 113, 9].into());
/// let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, peer)) else { panic!("refused") };
/// // Behind a layer, a handler has it from `request.extensions().get::<Decision>()`.
/// let decision = pass.decision().ok_or("no limit was asked")?;
/// assert!(decision.is_allowed() && decision.retry_after().is_none() && decision.delay().is_zero());
/// assert_eq!(decision.client().name(), "ip:203.0.113.9");
/// assert_eq!((decision.service(), decision.endpoint(), decision.kind().name()), ("shop", "*", "http"));
/// assert_eq!((decision.limit().burst(), decision.remaining()), (100, 99));
/// assert!(!decision.is_dry_run_refusal() && decision.reset_after().as_millis() == 600);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Decision(Arc<Decided>);

struct Decided {
    order: Order,
    shared: Arc<Shared>,
    verdict: Verdict,
    is_by_guard: bool,
    is_allowed: bool,
    guard_refuses: bool,
    delay: Duration,
    spent: Spent,
    at: Timestamp,
}

impl Decision {
    pub(crate) fn new(
        order: Order,
        shared: &Arc<Shared>,
        verdicts: &Verdicts,
        at: Timestamp,
    ) -> Result<Self, StoreError> {
        let (each, is_allowed) = (verdicts.each(), verdicts.committed);
        let wrong = || StoreError::Unreachable { reason: "it gave another number of verdicts".into() };
        let (own, guard) = match each {
            [own, rest @ ..] if order.has(each.len()) => (own, rest.first()),
            _ => return Err(wrong()),
        };
        let is_refusing = |(index, verdict): &(usize, &Verdict)| {
            !verdict.is_admitted() && (is_allowed || order.enforces(*index))
        };
        let refusing = each.iter().enumerate().filter(is_refusing);
        let strictest = refusing.min_by_key(|(_, verdict)| verdict.strictness());
        // Who passes is told of its own bucket: the guard's is shared with others of its address.
        let (index, verdict) = strictest.unwrap_or((0, own));
        let is_held_back = is_allowed && own.is_admitted() && order.enforces(0);
        Ok(Self(Arc::new(Decided {
            shared: Arc::clone(shared),
            verdict: *verdict,
            is_by_guard: index > 0,
            is_allowed,
            guard_refuses: !is_allowed && order.enforces(1) && guard.is_some_and(|of| !of.is_admitted()),
            delay: if is_held_back { order.bucket.delay(own.reset_after) } else { Duration::ZERO },
            spent: Spent::of(verdicts),
            at,
            order,
        })))
    }

    /// Whether the guard of its address refuses it, alone or beside the client's own limit.
    pub(crate) fn guard_refuses(&self) -> bool {
        self.0.guard_refuses
    }

    pub(crate) fn order(&self) -> &Order {
        &self.0.order
    }

    pub(crate) fn spent(&self) -> &Spent {
        &self.0.spent
    }

    /// The limit that the decision is told of.
    pub(crate) fn bucket(&self) -> &Bucket {
        match &self.0.order.guard {
            Some(guard) if self.0.is_by_guard => &guard.bucket,
            _ => &self.0.order.bucket,
        }
    }

    pub(crate) fn verdict(&self) -> &Verdict {
        &self.0.verdict
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(crate) fn at(&self) -> Timestamp {
        self.0.at
    }

    /// How long the request is held back before it goes on; zero unless its limit delays.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.0.delay
    }

    /// Who was charged.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.order.client
    }

    /// The service, as its layer calls it.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.0.order.service
    }

    /// The pattern of the endpoint that has a limit of its own, or `*`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.0.order.bucket.endpoint
    }

    /// What the limit counts that the decision is told of.
    #[must_use]
    pub fn kind(&self) -> LimitKind {
        self.bucket().kind
    }

    /// The limit that the decision is told of: of a refusal the one that refused, else the client's own.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.bucket().limit
    }

    /// Shows the charge that the decision is told of: the counter's key and the parts of its name.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, Admission, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
    /// # let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// # let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
    /// # let decision = pass.decision().ok_or("no limit was asked")?;
    /// let named = decision.with_charge(|charge| charge.parts.entries[0].1.to_owned());
    /// assert_eq!(named.as_deref(), Some("shop")); // The service is the first part of the name.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_charge<T>(&self, show: impl FnOnce(&Charge<'_>) -> T) -> Option<T> {
        let names = self.0.order.names();
        let charges = self.0.order.batch(&names, Op::Spend, [Cost::ONE; 2]);
        charges.get(usize::from(self.0.is_by_guard)).map(show)
    }

    /// The limit of the client's address, if that was charged as well.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, Admission, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
    /// let (request, ()) = http::Request::get("/").header("x-api-key-id", "k1").body(())?.into_parts();
    /// # let peer = Some([203, 0, 113, 9].into());
    /// # let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, peer)) else { panic!("refused") };
    /// # let decision = pass.decision().ok_or("no limit was asked")?;
    /// // It named itself, so its address is charged too, by ten times what one client has.
    /// assert_eq!(decision.guard_limit().map(|limit| limit.requests()), Some(1_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn guard_limit(&self) -> Option<Limit> {
        self.0.order.guard.as_ref().map(|guard| guard.bucket.limit)
    }

    /// Whether the request may go on.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.0.is_allowed
    }

    /// Whether a limit in dry run passed what it would otherwise have refused.
    #[must_use]
    pub fn is_dry_run_refusal(&self) -> bool {
        self.0.is_allowed && !self.0.verdict.is_admitted()
    }

    /// What was left of the limit when it was decided.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.0.verdict.remaining
    }

    /// When the limit's whole budget is back, from the moment of the decision.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        self.0.verdict.reset_after
    }

    /// What a refused client is told about its next attempt; none for one that was admitted.
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
