//! The stores that nodes can share, behind one type: which one it is, is a branch and no allocation.

use super::operated::Seen;
use hivemind_core::store::{Charge, Context, Store, StoreError, Verdict, Verdicts};
use hivemind_mesh::Sight;
use hivemind_mesh_net::PeerStore;
use hivemind_redis::RedisStore;
use std::time::Duration;

/// What nodes are asked back for is there a round trip later, and else it was spent or is out of reach.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
const MOST_LOOKS: u32 = 5;

/// A store that nodes share.
pub(crate) enum SharedStore {
    Redis(Box<RedisStore>),
    Mesh(PeerStore),
}

impl SharedStore {
    /// What an operator sees of counters, who is told what was said by whoever keeps them, or nothing.
    pub(super) async fn look(&self, batch: &[Charge<'_>], context: Context) -> Result<Vec<Seen>, StoreError> {
        match self {
            Self::Redis(store) => {
                let verdicts = store.decide(batch, context).await?;
                let seen = |verdict: &Verdict| Seen { verdict: *verdict, holding: None, is_crowded: false };
                Ok(verdicts.each().iter().map(seen).collect())
            }
            Self::Mesh(store) => {
                let mut sights = store.look(batch, context).await?;
                // The first look has what is not accounted for asked back, and the next ones know of it.
                let mut ticks = tokio::time::interval(BETWEEN_LOOKS);
                ticks.tick().await; // The first is now.
                for number in 1..=MOST_LOOKS {
                    if !sights.iter().any(is_unsettled) {
                        break;
                    }
                    ticks.tick().await;
                    let later = context.now.saturating_add(BETWEEN_LOOKS * number);
                    sights = store.look(batch, Context { now: later, ..context }).await.unwrap_or(sights);
                }
                let sights = sights.into_iter();
                let seen = |Sight { verdict, holding, .. }| Seen { verdict, holding, is_crowded: false };
                Ok(sights.map(seen).collect())
            }
        }
    }

    /// Decides for an operator, who is told what was said by whoever keeps the counters, or nothing.
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

/// Whether nodes may hold a part that the counter's owner does not know of.
fn is_unsettled(sight: &Sight) -> bool {
    sight.holding.as_ref().is_some_and(|holding| holding.unaccounted > 0)
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
