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
            spent.update(Ordering::Relaxed, Ordering::Relaxed, |spent| spent.saturating_add(cost));
        }
    }

    /// Takes out up to `cost` per counter, and returns what was there.
    pub(crate) fn take(&self, cost: u64) -> Costs {
        self.0.each_ref().map(|spent| {
            let before =
                spent.update(Ordering::Relaxed, Ordering::Relaxed, |spent| spent.saturating_sub(cost));
            Cost::new(before.min(cost))
        })
    }
}
