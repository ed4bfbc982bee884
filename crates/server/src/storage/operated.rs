//! What an operator does to counters: beside all decisions, in no metric of theirs, and whatever is blocked.

use super::Storage;
use hivemind_core::store::{Charge, Context, LocalStore, Store, StoreError, Verdicts};
use std::sync::atomic::Ordering;

impl<R: Store> Storage<R> {
    /// Looks at counters, or gives back to them, wherever they are kept.
    pub(crate) async fn operate(
        &self,
        batch: &[Charge<'_>],
        context: Context,
    ) -> Result<Verdicts, StoreError> {
        match &self.shared {
            Some(shared) if shared.is_met.load(Ordering::Relaxed) && !batch.is_empty() => {
                shared.store.decide(batch, context).await
            }
            _ => Ok(self.memory.decide_now(batch, context)),
        }
    }
}
