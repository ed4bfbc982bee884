//! What an operator does to counters: beside all decisions, in no metric of theirs, and whatever is blocked. Whoever
//! keeps them has said what it is told, or it is an error.

use super::{SharedStore, Storage};
use hivemind_core::store::{Charge, Context, LocalStore, StoreError, Verdicts};
use std::sync::atomic::Ordering;

impl Storage<SharedStore> {
    /// Looks at counters, or gives back to them, wherever they are kept.
    pub(crate) async fn operate(
        &self,
        batch: &[Charge<'_>],
        context: Context,
    ) -> Result<Verdicts, StoreError> {
        match &self.shared {
            Some(shared) if shared.is_met.load(Ordering::Relaxed) && !batch.is_empty() => {
                shared.store.operate(batch, context).await
            }
            _ => Ok(self.memory.decide_now(batch, context)),
        }
    }
}
