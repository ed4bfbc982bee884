//! Counter backends: a store in this process, or one that may have to be awaited.
//!
//! The trait object keeps the store out of the layer's type. A store in this process decides immediately and
//! without an allocation.

use crate::charge_plan::{ChargePlan, Costs};
use hivemind_core::Timestamp;
use hivemind_core::store::{Context, LocalStore, MemoryStore, Op, Store, StoreError, Verdicts};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type VerdictsFuture = Pin<Box<dyn Future<Output = Result<Verdicts, StoreError>> + Send>>;

/// The verdicts, or the future that returns them.
pub(crate) enum BackendReply {
    Ready(Verdicts),
    Pending(VerdictsFuture),
}

pub(crate) trait Backend: Send + Sync {
    fn decide(&self, plan: &ChargePlan, op: Op, costs: Costs, context: Context) -> BackendReply;

    /// Keeps existing counters for at least `memory` from now. Called after a reload, because the new limits
    /// may need them for longer.
    fn hold(&self, _now: Timestamp, _memory: Duration) {}
}

/// Counters in this process.
pub(crate) struct LocalBackend<S> {
    /// Decides on the counters in `memory`.
    pub(crate) store: Arc<S>,
    pub(crate) memory: Arc<MemoryStore>,
}

impl LocalBackend<MemoryStore> {
    pub(crate) fn new(store: Arc<MemoryStore>) -> Self {
        Self { memory: Arc::clone(&store), store }
    }
}

impl<S: LocalStore> Backend for LocalBackend<S> {
    fn decide(&self, plan: &ChargePlan, op: Op, costs: Costs, context: Context) -> BackendReply {
        let names = plan.names();
        let batch = plan.batch(&names, op, costs);
        BackendReply::Ready(self.store.decide_now(&batch, context))
    }

    fn hold(&self, now: Timestamp, memory: Duration) {
        self.memory.hold(now, now.saturating_add(memory));
    }
}

/// Counters in a store that several nodes share.
pub(crate) struct RemoteBackend<S>(pub(crate) Arc<S>);

impl<S: Store + 'static> Backend for RemoteBackend<S> {
    fn decide(&self, plan: &ChargePlan, op: Op, costs: Costs, context: Context) -> BackendReply {
        let names = plan.names();
        if let Some(verdicts) = self.0.try_decide(&plan.batch(&names, op, costs), context) {
            return BackendReply::Ready(verdicts);
        }
        let (store, plan) = (Arc::clone(&self.0), plan.clone());
        BackendReply::Pending(Box::pin(async move {
            let names = plan.names();
            let batch = plan.batch(&names, op, costs);
            store.decide(&batch, context).await
        }))
    }
}
