//! Where counters are kept: in this process, or in a store that nodes share, with this
//! process to fall back to. The one type that every front door decides with.
//!
//! With memory alone a decision is one branch away from the memory store. A shared store
//! may have to be waited for, and may fail; what to do then is decided here, once, by
//! the policy of each rule.

mod changes;
mod fallback;
mod for_http;
mod on_error;
mod open;
mod operated;
mod outage;
mod own_counters;
mod screened;
mod shared_store;
#[cfg(test)]
mod tests;

pub(crate) use for_http::counting;
pub(crate) use on_error::OnError;
pub(crate) use open::{Opened, metrics, open};
pub(crate) use operated::Seen;
pub(crate) use shared_store::SharedStore;

use crate::blocks::Blocks;
use arc_swap::ArcSwapOption;
use hivemind_core::store::{Charge, Context, LocalStore, MemoryStore, Store, StoreError, Verdicts};
use hivemind_telemetry::Fallbacks;
use outage::Outage;
pub(crate) use screened::Ruled;
use screened::Screened;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where counters are kept.
pub(crate) struct Storage<R = SharedStore> {
    memory: Arc<MemoryStore>,
    shared: Option<Shared<R>>,
    blocks: Arc<Blocks>,
    /// Whether a call passes whatever is blocked, and is only told so.
    only_watches: bool,
}

struct Shared<R> {
    store: Arc<R>,
    on_error: OnError,
    /// Whether it was ever there. Until then this node decides alone, whatever the policies
    /// say: they are for a store that is lost, and nothing was counted in this one yet.
    is_met: AtomicBool,
    /// Why it is not asked now.
    lost: ArcSwapOption<StoreError>,
    outage: Outage,
}

impl<R> Storage<R> {
    /// In this process.
    pub(crate) fn in_memory(memory: MemoryStore) -> Self {
        Self { memory: Arc::new(memory), shared: None, blocks: Arc::default(), only_watches: false }
    }

    /// In a store that is shared; `memory` is what this node falls back to, `on_error` what
    /// counts where a rule says nothing.
    pub(crate) fn shared(store: Arc<R>, memory: MemoryStore, on_error: OnError) -> Self {
        let (is_met, lost, outage) = (AtomicBool::new(false), ArcSwapOption::empty(), Outage::default());
        let shared = Shared { store, on_error, is_met, lost, outage };
        Self { memory: Arc::new(memory), shared: Some(shared), blocks: Arc::default(), only_watches: false }
    }

    /// The same, with these keys blocked.
    pub(crate) fn heeding(self, blocks: Blocks) -> Self {
        Self { blocks: Arc::new(blocks), ..self }
    }

    /// The same, where `only_watches` for calls that pass whatever is blocked.
    pub(crate) fn watching(self, only_watches: bool) -> Self {
        Self { only_watches, ..self }
    }

    /// The keys that an operator has blocked.
    pub(crate) fn blocks(&self) -> &Arc<Blocks> {
        &self.blocks
    }

    /// This node's own counters.
    pub(crate) fn memory(&self) -> &Arc<MemoryStore> {
        &self.memory
    }

    /// The store that is shared, if one is.
    pub(crate) fn shared_store(&self) -> Option<&Arc<R>> {
        self.shared.as_ref().map(|shared| &shared.store)
    }

    /// From now on the shared store is asked: it is there.
    pub(crate) fn meet(&self) {
        if let Some(shared) = &self.shared {
            shared.lost.store(None);
            shared.is_met.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the shared store was ever there.
    pub(crate) fn is_met(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.is_met.load(Ordering::Relaxed))
    }

    /// Whether this node counts alone what all shall count together.
    pub(crate) fn is_alone(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.is_met.load(Ordering::Relaxed))
    }

    /// From now on the shared store is not asked: it is away.
    pub(crate) fn lose(&self, reason: String) {
        if let Some(shared) = &self.shared {
            shared.lost.store(Some(Arc::new(StoreError::Unreachable { reason })));
        }
    }

    /// Why the shared store is not asked, if it is known to be away.
    pub(crate) fn lost(&self) -> Option<Arc<StoreError>> {
        self.shared.as_ref()?.lost.load_full()
    }

    /// What a rule without a word of its own does on an error.
    pub(crate) fn on_error(&self) -> OnError {
        self.shared.as_ref().map(|shared| shared.on_error).unwrap_or_default()
    }

    /// What was decided without the shared store.
    pub(crate) fn fallbacks(&self) -> Fallbacks {
        self.shared.as_ref().map(|shared| shared.outage.fallbacks()).unwrap_or_default()
    }

    /// Decides a batch that the shared store could not decide, each charge by its policy.
    #[cold]
    pub(crate) fn fall_back(
        &self,
        batch: &[Charge<'_>],
        policies: &[OnError],
        context: Context,
        error: &StoreError,
    ) -> Ruled {
        if let Some(screened) = self.screened(batch, context) {
            if self.only_watches {
                return screened.tells(&self.fall_back_unscreened(batch, policies, context, error));
            }
            let policies = screened.of_others(policies);
            return screened.refuses(&self.fall_back_unscreened(&screened.others, &policies, context, error));
        }
        self.fall_back_unscreened(batch, policies, context, error).into()
    }

    fn fall_back_unscreened(
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

    /// A batch with something in it that is blocked.
    #[inline]
    fn screened<'a>(&'a self, batch: &[Charge<'a>], context: Context) -> Option<Screened<'a>> {
        if self.blocks.are_any(context.now) { Screened::of(batch, &self.blocks, context.now) } else { None }
    }
}

impl<R> Shared<R> {
    /// Whether this batch is for the shared store: where nothing is charged there is nothing to ask.
    fn is_asked(&self, batch: &[Charge<'_>]) -> bool {
        let is_met = self.is_met.load(Ordering::Relaxed);
        if !is_met {
            self.outage.count_before_start(batch.len());
        }
        is_met && !batch.is_empty()
    }
}

impl<R: Store> Storage<R> {
    /// Asks whoever keeps the counters. An error is for [`Storage::fall_back`].
    pub(crate) async fn ask(&self, batch: &[Charge<'_>], context: Context) -> Result<Ruled, StoreError> {
        match self.screened(batch, context) {
            None => self.ask_unscreened(batch, context).await.map(Ruled::from),
            Some(screened) if self.only_watches => {
                self.ask_unscreened(batch, context).await.map(|decided| screened.tells(&decided))
            }
            Some(screened) => {
                let others = self.ask_unscreened(&screened.others, context).await;
                others.map(|others| screened.refuses(&others))
            }
        }
    }

    /// The same without waiting; `None` where it would have to.
    #[inline]
    pub(crate) fn ask_at_once(&self, batch: &[Charge<'_>], context: Context) -> Option<Ruled> {
        match self.screened(batch, context) {
            None => self.ask_unscreened_at_once(batch, context).map(Ruled::from),
            Some(screened) if self.only_watches => {
                self.ask_unscreened_at_once(batch, context).map(|decided| screened.tells(&decided))
            }
            Some(screened) => {
                let others = self.ask_unscreened_at_once(&screened.others, context);
                others.map(|others| screened.refuses(&others))
            }
        }
    }

    async fn ask_unscreened(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        match &self.shared {
            Some(shared) if shared.is_asked(batch) => shared.store.decide(batch, context).await,
            _ => Ok(self.memory.decide_now(batch, context)),
        }
    }

    #[inline]
    fn ask_unscreened_at_once(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        match &self.shared {
            Some(shared) if shared.is_asked(batch) => shared.store.try_decide(batch, context),
            _ => Some(self.memory.decide_now(batch, context)),
        }
    }
}

/// For front doors without rules: everything is by the policy for all. Where that is
/// `local`, this node decides; otherwise it is for the front door to pass or to refuse. What is
/// blocked is refused here whatever the mode of the service that has rules.
impl<R: Store> Store for Storage<R> {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        let screened = self.screened(batch, context);
        let asked = match &screened {
            Some(screened) => self.ask_unscreened(&screened.others, context).await,
            None => self.ask_unscreened(batch, context).await,
        };
        let error = match asked {
            Err(error) => error,
            Ok(decided) => {
                return Ok(match &screened {
                    Some(screened) => screened.refused(&decided),
                    None => decided,
                });
            }
        };
        if let Some(shared) = &self.shared {
            shared.outage.count(shared.on_error, batch.len());
            if shared.on_error != OnError::Local && screened.is_none() {
                return Err(error);
            }
            shared.outage.warn(&error, context.now);
        }
        Ok(match &screened {
            Some(screened) => screened.refused(&self.memory.decide_now(&screened.others, context)),
            None => self.memory.decide_now(batch, context),
        })
    }

    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        match self.screened(batch, context) {
            None => self.ask_unscreened_at_once(batch, context),
            Some(screened) => {
                let others = self.ask_unscreened_at_once(&screened.others, context);
                others.map(|others| screened.refused(&others))
            }
        }
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.forget_now(charge.key);
        match &self.shared {
            // Until it is met this node decides alone, and there is nothing to forget elsewhere.
            Some(shared) if shared.is_met.load(Ordering::Relaxed) => shared.store.forget(charge).await,
            _ => Ok(()),
        }
    }
}
