//! Counter storage with fallback: this process, or a store shared by nodes with this process as
//! fallback. All frontends decide through [`Storage`].
//!
//! With memory alone, a decision costs one branch more than the memory store itself. A shared store
//! may be slow or fail; [`Storage`] then applies the `on_error` policy of each rule, in one place for all
//! frontends.

mod blocked_batch;
mod connection_changes;
mod counter_access;
mod fallback;
mod limiter_storage;
mod on_error;
mod open;
mod outage;
mod own_counters;
pub mod settings;
mod shared_store;
#[cfg(test)]
mod tests;

pub use counter_access::CounterStatus;
pub use limiter_storage::counting;
pub use on_error::OnError;
pub use open::{OpenedStorage, metrics, open};
pub use shared_store::SharedStore;

use crate::block_list::BlockList;
use arc_swap::ArcSwapOption;
use blocked_batch::BlockedBatch;
pub(crate) use blocked_batch::StorageVerdicts;
use hivemind_core::store::{Charge, Context, LocalStore, MemoryStore, Store, StoreError, Verdicts};
use hivemind_telemetry::Fallbacks;
use outage::Outage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The counters: in memory or shared, with the block list.
pub struct Storage<R = SharedStore> {
    memory: Arc<MemoryStore>,
    shared: Option<SharedStoreState<R>>,
    blocks: Arc<BlockList>,
    /// Shadow mode: blocked keys are reported, but not refused.
    only_watches: bool,
}

struct SharedStoreState<R> {
    store: Arc<R>,
    on_error: OnError,
    /// Whether it was ever connected. Until then this node decides locally, regardless of `on_error`: the policies
    /// are for a lost store, and this one has not counted anything yet.
    was_connected: AtomicBool,
    /// The error while it is unavailable.
    lost: ArcSwapOption<StoreError>,
    outage: Outage,
}

impl<R> Storage<R> {
    /// Counters in this process.
    pub fn in_memory(memory: MemoryStore) -> Self {
        Self { memory: Arc::new(memory), shared: None, blocks: Arc::default(), only_watches: false }
    }

    /// Counters in a shared store. `memory` is the fallback; `on_error` is the policy of rules
    /// that do not set one.
    pub fn shared(store: Arc<R>, memory: MemoryStore, on_error: OnError) -> Self {
        let (was_connected, lost, outage) =
            (AtomicBool::new(false), ArcSwapOption::empty(), Outage::default());
        let shared = SharedStoreState { store, on_error, was_connected, lost, outage };
        Self { memory: Arc::new(memory), shared: Some(shared), blocks: Arc::default(), only_watches: false }
    }

    /// Uses this block list.
    pub(crate) fn with_block_list(self, blocks: BlockList) -> Self {
        Self { blocks: Arc::new(blocks), ..self }
    }

    /// With `only_watches`, blocked keys are reported, but not refused (shadow mode).
    #[must_use]
    pub fn watching(self, only_watches: bool) -> Self {
        Self { only_watches, ..self }
    }

    /// The block list.
    pub fn blocks(&self) -> &Arc<BlockList> {
        &self.blocks
    }

    /// This node's own counters.
    pub fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }

    /// The shared store, if there is one.
    pub(crate) fn shared_store(&self) -> Option<&Arc<R>> {
        self.shared.as_ref().map(|shared| &shared.store)
    }

    /// Records that the shared store is connected.
    pub fn set_connected(&self) {
        if let Some(shared) = &self.shared {
            shared.lost.store(None);
            shared.was_connected.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the shared store was ever connected.
    pub(crate) fn was_connected(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.was_connected.load(Ordering::Relaxed))
    }

    /// Whether this node counts locally because its shared store was never connected.
    pub(crate) fn is_alone(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.was_connected.load(Ordering::Relaxed))
    }

    /// Records that the shared store is unavailable.
    pub fn set_lost(&self, reason: String) {
        if let Some(shared) = &self.shared {
            shared.lost.store(Some(Arc::new(StoreError::Unreachable { reason })));
        }
    }

    /// The error while the shared store is unavailable.
    pub fn lost(&self) -> Option<Arc<StoreError>> {
        self.shared.as_ref()?.lost.load_full()
    }

    /// The policy of rules without their own `on_error`.
    pub fn on_error(&self) -> OnError {
        self.shared.as_ref().map(|shared| shared.on_error).unwrap_or_default()
    }

    /// Counts of decisions made without the shared store.
    pub(crate) fn fallbacks(&self) -> Fallbacks {
        self.shared.as_ref().map(|shared| shared.outage.fallbacks()).unwrap_or_default()
    }

    /// Decides a batch after the shared store failed, each charge by its policy.
    #[cold]
    pub(crate) fn fall_back(
        &self,
        batch: &[Charge<'_>],
        policies: &[OnError],
        context: Context,
        error: &StoreError,
    ) -> StorageVerdicts {
        if let Some(blocked) = self.blocked_batch(batch, context) {
            if self.only_watches {
                return blocked.reports(&self.fall_back_on_policies(batch, policies, context, error));
            }
            let policies = blocked.of_others(policies);
            return blocked.refuses(&self.fall_back_on_policies(&blocked.others, &policies, context, error));
        }
        self.fall_back_on_policies(batch, policies, context, error).into()
    }

    fn fall_back_on_policies(
        &self,
        batch: &[Charge<'_>],
        policies: &[OnError],
        context: Context,
        error: &StoreError,
    ) -> Verdicts {
        if let Some(shared) = &self.shared {
            for policy in policies {
                shared.outage.count(*policy, 1);
            }
            shared.outage.warn(error, context.now);
        }
        fallback::decide(&self.memory, batch, policies, context)
    }

    /// The batch separated by the block list; none if no key of it is blocked.
    #[inline]
    fn blocked_batch<'a>(&'a self, batch: &[Charge<'a>], context: Context) -> Option<BlockedBatch<'a>> {
        if self.blocks.are_any(context.now) {
            BlockedBatch::of(batch, &self.blocks, context.now)
        } else {
            None
        }
    }
}

impl<R> SharedStoreState<R> {
    /// Whether the shared store decides this batch. An empty batch never needs it.
    fn is_asked(&self, batch: &[Charge<'_>]) -> bool {
        let was_connected = self.was_connected.load(Ordering::Relaxed);
        if !was_connected {
            self.outage.count_before_start(batch.len());
        }
        was_connected && !batch.is_empty()
    }
}

impl<R: Store> Storage<R> {
    /// Decides where the counters are. Pass an error to `fall_back`.
    pub async fn ask(&self, batch: &[Charge<'_>], context: Context) -> Result<StorageVerdicts, StoreError> {
        match self.blocked_batch(batch, context) {
            None => self.ask_store(batch, context).await.map(StorageVerdicts::from),
            Some(blocked) if self.only_watches => {
                self.ask_store(batch, context).await.map(|decided| blocked.reports(&decided))
            }
            Some(blocked) => {
                let others = self.ask_store(&blocked.others, context).await;
                others.map(|others| blocked.refuses(&others))
            }
        }
    }

    /// Like [`Storage::ask`], but returns `None` instead of waiting.
    #[inline]
    pub(crate) fn ask_at_once(&self, batch: &[Charge<'_>], context: Context) -> Option<StorageVerdicts> {
        match self.blocked_batch(batch, context) {
            None => self.ask_store_at_once(batch, context).map(StorageVerdicts::from),
            Some(blocked) if self.only_watches => {
                self.ask_store_at_once(batch, context).map(|decided| blocked.reports(&decided))
            }
            Some(blocked) => {
                let others = self.ask_store_at_once(&blocked.others, context);
                others.map(|others| blocked.refuses(&others))
            }
        }
    }

    async fn ask_store(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        match &self.shared {
            Some(shared) if shared.is_asked(batch) => shared.store.decide(batch, context).await,
            _ => Ok(self.memory.decide_now(batch, context)),
        }
    }

    #[inline]
    fn ask_store_at_once(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        match &self.shared {
            Some(shared) if shared.is_asked(batch) => shared.store.try_decide(batch, context),
            _ => Some(self.memory.decide_now(batch, context)),
        }
    }
}

/// For frontends without rules: the default `on_error` applies to all charges. With `local` this
/// node decides; otherwise the frontend admits or refuses on error. Blocked keys are refused even in the
/// shadow mode of the service that has rules.
impl<R: Store> Store for Storage<R> {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        let blocked = self.blocked_batch(batch, context);
        let asked = match &blocked {
            Some(blocked) => self.ask_store(&blocked.others, context).await,
            None => self.ask_store(batch, context).await,
        };
        let error = match asked {
            Err(error) => error,
            Ok(decided) => {
                return Ok(match &blocked {
                    Some(blocked) => blocked.refused(&decided),
                    None => decided,
                });
            }
        };
        if let Some(shared) = &self.shared {
            shared.outage.count(shared.on_error, batch.len());
            if shared.on_error != OnError::Local && blocked.is_none() {
                return Err(error);
            }
            shared.outage.warn(&error, context.now);
        }
        Ok(match &blocked {
            Some(blocked) => blocked.refused(&self.memory.decide_now(&blocked.others, context)),
            None => self.memory.decide_now(batch, context),
        })
    }

    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        match self.blocked_batch(batch, context) {
            None => self.ask_store_at_once(batch, context),
            Some(blocked) => {
                let others = self.ask_store_at_once(&blocked.others, context);
                others.map(|others| blocked.refused(&others))
            }
        }
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.forget_now(charge.key);
        match &self.shared {
            // Before its first connection nothing was counted there.
            Some(shared) if shared.was_connected.load(Ordering::Relaxed) => shared.store.forget(charge).await,
            _ => Ok(()),
        }
    }
}
