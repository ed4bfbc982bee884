//! Costs that a request has spent so far, per counter: the upper bound of its refunds.

use crate::charge_plan::Costs;
use hivemind_core::Cost;
use hivemind_core::store::Verdicts;
use std::sync::atomic::{AtomicU64, Ordering};

/// The cost that a request has spent on each of its counters, the client's own first.
pub(crate) struct SpentCosts([AtomicU64; 2]);

impl SpentCosts {
    /// One unit for each counter that admitted the request, if the batch was committed.
    pub(crate) fn new(verdicts: &Verdicts) -> Self {
        let mut each = verdicts.each().iter().map(|verdict| verdict.is_admitted() && verdicts.committed);
        Self(std::array::from_fn(|_| AtomicU64::new(each.next().unwrap_or_default().into())))
    }

    /// Adds a debit to each counter.
    pub(crate) fn add(&self, cost: u64) {
        for spent in &self.0 {
            let add = |spent: u64| Some(spent.saturating_add(cost));
            let _ = spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }

    /// Takes out up to `cost` per counter, and returns what was there.
    pub(crate) fn take(&self, cost: u64) -> Costs {
        self.0.each_ref().map(|spent| {
            let subtract = |spent: u64| Some(spent.saturating_sub(cost));
            let before = spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
            Cost::new(before.unwrap_or_default().min(cost))
        })
    }
}
