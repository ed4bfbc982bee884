//! Refunds and debits: settling a request whose real cost is known only after it ran.
//!
//! A counter gets back at most what the request has spent on it. Otherwise a handler that refunds would raise
//! its client's budget.

use crate::backend::BackendReply;
use crate::charge_plan::Costs;
use crate::decision::Decision;
use hivemind_core::Cost;
use hivemind_core::store::{Op, StoreError};

impl Decision {
    /// Returns cost that was not needed to the counters that were charged, at most as much as was charged. A
    /// request that passed only because of dry run was not charged and gets nothing back. Returns the remaining
    /// budget of the client.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, Admission, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
    /// # let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// # let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
    /// # let decision = pass.decision().ok_or("no limit was asked")?;
    /// assert_eq!(decision.remaining(), 99);
    /// assert_eq!(runtime.block_on(decision.refund(1))?, 100); // The response came from a cache.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the store failed; a store in this process cannot fail. It is unknown then whether the refund was
    /// applied, so the same cost cannot be refunded again.
    pub async fn refund(&self, cost: u64) -> Result<u64, StoreError> {
        self.settle(Op::Refund, self.spent().take(cost)).await
    }

    /// Charges additional cost, whether it fits or not: a bucket may sink to minus its burst, and the client
    /// has to wait until it is positive again. Returns the remaining budget of the client.
    ///
    /// ```
    /// # use hivemind_core::ManualClock;
    /// # use hivemind_tower::{Limits, Admission, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::builder(Limits::new()).clock(ManualClock::default()).build()?.service_limiter("shop");
    /// # let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// # let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
    /// # let decision = pass.decision().ok_or("no limit was asked")?;
    /// assert_eq!(runtime.block_on(decision.debit(49))?, 50); // The export had fifty pages.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the store failed; a store in this process cannot fail.
    pub async fn debit(&self, cost: u64) -> Result<u64, StoreError> {
        let left = self.settle(Op::Debit, [Cost::new(cost); 2]).await?;
        self.spent().add(cost);
        Ok(left)
    }

    /// Applies the costs with the active limits, which a reload may have replaced since the decision.
    async fn settle(&self, op: Op, costs: Costs) -> Result<u64, StoreError> {
        let state = self.state();
        let plan = self.plan().refreshed(&state.limits.load());
        let context = state.context(state.clock.now());
        let verdicts = match state.backend.decide(&plan, op, costs, context) {
            BackendReply::Ready(verdicts) => verdicts,
            BackendReply::Pending(verdicts) => state.await_verdicts(verdicts).await?,
        };
        Ok(verdicts.each().first().map_or(0, |verdict| verdict.remaining))
    }
}
