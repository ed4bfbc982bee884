//! Operator access to counters: inspection, refunds and resets. They bypass the block list and decision metrics, and
//! never fall back: each result comes from the store that owns the counters, or is an error.

use super::{SharedStore, Storage};
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Context, LocalStore, StoreError, Verdict, Verdicts};
use hivemind_mesh::Holding;
use std::sync::atomic::Ordering;

/// State of one counter.
#[derive(Debug)]
pub struct CounterStatus {
    /// Of all nodes together, if they share it.
    pub verdict: Verdict,
    /// How the mesh's nodes share it.
    pub holding: Option<Holding>,
    /// Whether other keys share this counter because the store is full; it cannot be refunded separately then.
    pub is_crowded: bool,
}

impl Storage<SharedStore> {
    /// Reads counters from the store that owns them, without spending.
    pub async fn look(
        &self,
        batch: &[Charge<'_>],
        context: Context,
    ) -> Result<Vec<CounterStatus>, StoreError> {
        if let Some(store) = self.keeper(batch) {
            return store.look(batch, context).await;
        }
        let verdicts = self.memory.decide_now(batch, context);
        let seen = |(charge, verdict): (&Charge<'_>, &Verdict)| CounterStatus {
            verdict: *verdict,
            holding: None,
            is_crowded: self.is_crowded(charge, context.now),
        };
        Ok(batch.iter().zip(verdicts.each()).map(seen).collect())
    }

    /// Applies refunds and resets in the store that owns the counters.
    pub async fn operate(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        match self.keeper(batch) {
            Some(store) => store.operate(batch, context).await,
            None => Ok(self.memory.decide_now(batch, context)),
        }
    }

    /// Whether other keys share this counter because `rate_limiting.max_keys` is reached on this node.
    pub fn is_crowded(&self, charge: &Charge<'_>, now: Timestamp) -> bool {
        let is_own = self.keeper(std::slice::from_ref(charge)).is_none();
        is_own && self.memory.is_crowded(charge.key, charge.limit, now)
    }

    /// The shared store, if it owns these counters.
    fn keeper(&self, batch: &[Charge<'_>]) -> Option<&SharedStore> {
        let shared = self.shared.as_ref().filter(|shared| shared.was_connected.load(Ordering::Relaxed));
        shared.filter(|_| !batch.is_empty()).map(|shared| shared.store.as_ref())
    }
}
