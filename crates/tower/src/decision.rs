//! What was decided about one request, for its handlers. It knows its counters, so
//! that a cost which is known only afterwards can still be put right.

use crate::bucket::{Bucket, LimitKind};
use crate::client::Client;
use crate::limiter::Shared;
use crate::order::Order;
use crate::retry_after::RetryAfter;
use hivemind_core::store::{Context, Op, StoreError, Verdict, Verdicts};
use hivemind_core::{Cost, Limit, Timestamp};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The decision about a request, in its extensions; cheap to clone.
///
/// It is there when a limit was asked. With limits switched off, or a store that failed, it
/// is not: take it as an `Option`.
#[derive(Clone)]
pub struct Decision(Arc<Decided>);

struct Decided {
    order: Order,
    shared: Arc<Shared>,
    verdict: Verdict,
    is_by_guard: bool,
    is_allowed: bool,
    at: Timestamp,
}

impl Decision {
    pub(crate) fn new(
        order: Order,
        shared: &Arc<Shared>,
        verdicts: &Verdicts,
        at: Timestamp,
    ) -> Option<Self> {
        let each = || verdicts.each().iter().enumerate();
        let refusing = each().filter(|(_, verdict)| !verdict.is_admitted());
        let strictest = refusing.min_by_key(|(_, verdict)| verdict.strictness());
        // Who passes is told of its own bucket: the guard's is shared with others of its address.
        let (index, verdict) = strictest.or_else(|| each().next())?;
        let (verdict, shared) = (*verdict, Arc::clone(shared));
        let is_allowed = verdicts.committed;
        Some(Self(Arc::new(Decided { order, shared, verdict, is_by_guard: index > 0, is_allowed, at })))
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
        let Decided { order, verdict, .. } = &*self.0;
        let is_held = verdict.is_admitted() && !order.bucket.dry_run;
        if is_held { order.bucket.delay(verdict.reset_after) } else { Duration::ZERO }
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

    /// The limit of the client's address, if that was charged as well.
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

    /// Gives back what turned out not to be needed, to the counters that were charged. Returns what
    /// is left for the client.
    ///
    /// # Errors
    /// If the store failed; one in this process cannot.
    pub async fn refund(&self, cost: u64) -> Result<u64, StoreError> {
        self.settle(Op::Refund, cost).await
    }

    /// Takes a cost that is known only now, whether it fits or not: a bucket may sink to minus its
    /// burst, and the client waits that out. Returns what is left for the client.
    ///
    /// # Errors
    /// If the store failed; one in this process cannot.
    pub async fn debit(&self, cost: u64) -> Result<u64, StoreError> {
        self.settle(Op::Debit, cost).await
    }

    async fn settle(&self, op: Op, cost: u64) -> Result<u64, StoreError> {
        let Decided { order, shared, .. } = &*self.0;
        let context = Context::at(shared.clock.now());
        let verdicts = shared.backend.decide(order, op, Cost::new(cost), context).wait().await?;
        Ok(verdicts.each().first().map_or(0, |verdict| verdict.remaining))
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
