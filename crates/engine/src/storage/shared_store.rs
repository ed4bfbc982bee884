//! Enum of the stores that nodes can share. Dispatch is a branch without allocation.

use super::counter_access::CounterStatus;
use hivemind_core::store::{Charge, Context, Store, StoreError, Verdict, Verdicts};
use hivemind_mesh::Inspection;
use hivemind_mesh_net::PeerStore;
use hivemind_redis::RedisStore;
use std::time::Duration;

/// Wait for recalled allowance: it arrives after a round trip, or it was spent or its node is unreachable.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
const MOST_LOOKS: u32 = 5;

/// A store shared by nodes.
pub enum SharedStore {
    Redis(Box<RedisStore>),
    Mesh(PeerStore),
}

impl SharedStore {
    /// Reads counters for an operator. The result comes from the owner of the counters, or is an error.
    pub(super) async fn look(
        &self,
        batch: &[Charge<'_>],
        context: Context,
    ) -> Result<Vec<CounterStatus>, StoreError> {
        match self {
            Self::Redis(store) => {
                let verdicts = store.decide(batch, context).await?;
                let seen =
                    |verdict: &Verdict| CounterStatus { verdict: *verdict, holding: None, is_crowded: false };
                Ok(verdicts.each().iter().map(seen).collect())
            }
            Self::Mesh(store) => {
                let mut sights = store.look(batch, context).await?;
                // The first read recalls unaccounted allowance; later reads see the result.
                let mut ticks = tokio::time::interval(BETWEEN_LOOKS);
                ticks.tick().await; // The first tick completes immediately.
                for number in 1..=MOST_LOOKS {
                    if !sights.iter().any(is_unsettled) {
                        break;
                    }
                    ticks.tick().await;
                    let later = context.now.saturating_add(BETWEEN_LOOKS * number);
                    sights = store.look(batch, Context { now: later, ..context }).await.unwrap_or(sights);
                }
                let sights = sights.into_iter();
                let seen = |Inspection { verdict, holding, .. }| CounterStatus {
                    verdict,
                    holding,
                    is_crowded: false,
                };
                Ok(sights.map(seen).collect())
            }
        }
    }

    /// Decides for an operator. The result comes from the owner of the counters, or is an error.
    pub(super) async fn operate(
        &self,
        batch: &[Charge<'_>],
        context: Context,
    ) -> Result<Verdicts, StoreError> {
        match self {
            Self::Redis(store) => store.decide(batch, context).await,
            Self::Mesh(store) => store.operate(batch, context).await,
        }
    }
}

/// Whether nodes may hold allowance that the counter's owner has not accounted for.
fn is_unsettled(inspection: &Inspection) -> bool {
    inspection.holding.as_ref().is_some_and(|holding| holding.unaccounted > 0)
}

impl Store for SharedStore {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        match self {
            Self::Redis(store) => store.decide(batch, context).await,
            Self::Mesh(store) => store.decide(batch, context).await,
        }
    }

    #[inline]
    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        match self {
            Self::Redis(store) => store.try_decide(batch, context),
            Self::Mesh(store) => store.try_decide(batch, context),
        }
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        match self {
            Self::Redis(store) => store.forget(charge).await,
            Self::Mesh(store) => store.forget(charge).await,
        }
    }
}
