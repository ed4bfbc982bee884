//! Costs that are known only afterwards: what a request turned out to need less, or more.
//!
//! Nothing is given back that was not taken, or a handler that refunds would mint what its
//! client may spend: each counter's share is remembered with the decision.

use crate::backend::Deciding;
use crate::decision::Decision;
use crate::order::Costs;
use hivemind_core::Cost;
use hivemind_core::store::{Op, StoreError, Verdicts};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a request has taken from each of its counters, the client's own first.
pub(crate) struct Spent([AtomicU64; 2]);

impl Spent {
    /// One from each that admitted it, if all of it passed.
    pub(crate) fn of(verdicts: &Verdicts) -> Self {
        let mut each = verdicts.each().iter().map(|verdict| verdict.is_admitted() && verdicts.committed);
        Self(std::array::from_fn(|_| AtomicU64::new(each.next().unwrap_or_default().into())))
    }

    fn add(&self, cost: u64) -> Costs {
        self.0.each_ref().map(|spent| {
            spent.update(Ordering::Relaxed, Ordering::Relaxed, |spent| spent.saturating_add(cost));
            Cost::new(cost)
        })
    }

    /// As much of a cost as was taken, for each counter.
    fn take(&self, cost: u64) -> Costs {
        self.0.each_ref().map(|spent| {
            let before =
                spent.update(Ordering::Relaxed, Ordering::Relaxed, |spent| spent.saturating_sub(cost));
            Cost::new(before.min(cost))
        })
    }
}

impl Decision {
    /// Gives back what turned out not to be needed, to the counters that were charged, and at most what they
    /// were charged: nothing where a dry run passed what did not fit. Returns what is left for the client.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, Admission, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
    /// # let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// # let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
    /// # let decision = pass.decision().ok_or("no limit was asked")?;
    /// assert_eq!(decision.remaining(), 99);
    /// assert_eq!(runtime.block_on(decision.refund(1))?, 100); // It was answered from a cache.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the store failed; one in this process cannot. Nobody knows then whether it gave it back, so that
    /// it is not given back a second time.
    pub async fn refund(&self, cost: u64) -> Result<u64, StoreError> {
        self.settle(Op::Refund, self.spent().take(cost)).await
    }

    /// Takes a cost that is known only now, whether it fits or not: a bucket may sink to minus its
    /// burst, and the client waits that out. Returns what is left for the client.
    ///
    /// ```
    /// # use hivemind_core::ManualClock;
    /// # use hivemind_tower::{Limits, Admission, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::builder(Limits::new()).clock(ManualClock::default()).build()?.service_limiter("shop");
    /// # let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// # let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
    /// # let decision = pass.decision().ok_or("no limit was asked")?;
    /// assert_eq!(runtime.block_on(decision.debit(49))?, 50); // It turned out to be fifty pages.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the store failed; one in this process cannot.
    pub async fn debit(&self, cost: u64) -> Result<u64, StoreError> {
        let left = self.settle(Op::Debit, [Cost::new(cost); 2]).await?;
        self.spent().add(cost);
        Ok(left)
    }

    /// By the limits in force, which may have been swapped since: a counter is left as they have it.
    async fn settle(&self, op: Op, costs: Costs) -> Result<u64, StoreError> {
        let shared = self.shared();
        let order = self.order().renewed(&shared.limits.load());
        let context = shared.context(shared.clock.now());
        let verdicts = match shared.backend.decide(&order, op, costs, context) {
            Deciding::Now(verdicts) => verdicts,
            Deciding::Later(later) => shared.in_time(later).await?,
        };
        Ok(verdicts.each().first().map_or(0, |verdict| verdict.remaining))
    }
}
