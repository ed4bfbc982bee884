//! What an operator does to counters: beside all decisions, in no metric of theirs, and whatever is blocked. Whoever
//! keeps them has said what it is told, or it is an error.

use super::{SharedStore, Storage};
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Context, LocalStore, StoreError, Verdict, Verdicts};
use hivemind_mesh::Holding;
use std::sync::atomic::Ordering;

/// What is left of one counter.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Of all nodes together, where they share it.
    pub(crate) verdict: Verdict,
    /// Who has what of it, in a mesh.
    pub(crate) holding: Option<Holding>,
    /// Whether it is shared with strangers' keys, for want of room: nothing can be given back to it alone.
    pub(crate) is_crowded: bool,
}

impl Storage<SharedStore> {
    /// Looks at counters, wherever they are kept. It spends nothing.
    pub(crate) async fn look(&self, batch: &[Charge<'_>], context: Context) -> Result<Vec<Seen>, StoreError> {
        if let Some(store) = self.keeper(batch) {
            return store.look(batch, context).await;
        }
        let verdicts = self.memory.decide_now(batch, context);
        let seen = |(charge, verdict): (&Charge<'_>, &Verdict)| Seen {
            verdict: *verdict,
            holding: None,
            is_crowded: self.is_crowded(charge, context.now),
        };
        Ok(batch.iter().zip(verdicts.each()).map(seen).collect())
    }

    /// Gives back to counters, wherever they are kept.
    pub(crate) async fn operate(
        &self,
        batch: &[Charge<'_>],
        context: Context,
    ) -> Result<Verdicts, StoreError> {
        match self.keeper(batch) {
            Some(store) => store.operate(batch, context).await,
            None => Ok(self.memory.decide_now(batch, context)),
        }
    }

    /// Whether a counter is shared with strangers' keys, since `rate_limiting.max_keys` is reached here.
    pub(crate) fn is_crowded(&self, charge: &Charge<'_>, now: Timestamp) -> bool {
        let is_own = self.keeper(std::slice::from_ref(charge)).is_none();
        is_own && self.memory.is_crowded(charge.key, charge.limit, now)
    }

    /// The shared store, if that keeps these counters.
    fn keeper(&self, batch: &[Charge<'_>]) -> Option<&SharedStore> {
        let shared = self.shared.as_ref().filter(|shared| shared.is_met.load(Ordering::Relaxed));
        shared.filter(|_| !batch.is_empty()).map(|shared| shared.store.as_ref())
    }
}
