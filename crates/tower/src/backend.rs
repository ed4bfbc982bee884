//! Whatever keeps the counters, behind one door without type parameters: a layer's
//! type shall not say where its limiter counts. The store in this process answers at
//! once and costs no allocation; every other one may have to be waited for.

use crate::order::{Costs, Order};
use hivemind_core::Timestamp;
use hivemind_core::store::{Context, LocalStore, MemoryStore, Op, Store, StoreError, Verdicts};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type Later = Pin<Box<dyn Future<Output = Result<Verdicts, StoreError>> + Send>>;

pub(crate) enum Deciding {
    Now(Verdicts),
    Later(Later),
}

pub(crate) trait Backend: Send + Sync {
    fn decide(&self, order: &Order, op: Op, costs: Costs, context: Context) -> Deciding;

    /// Limits have changed: what is remembered now may have to be remembered for longer.
    fn hold(&self, _now: Timestamp, _memory: Duration) {}
}

/// The counters of this process.
pub(crate) struct Local<S> {
    /// Who decides on them.
    pub(crate) store: Arc<S>,
    pub(crate) memory: Arc<MemoryStore>,
}

impl Local<MemoryStore> {
    pub(crate) fn new(store: Arc<MemoryStore>) -> Self {
        Self { memory: Arc::clone(&store), store }
    }
}

impl<S: LocalStore> Backend for Local<S> {
    fn decide(&self, order: &Order, op: Op, costs: Costs, context: Context) -> Deciding {
        let names = order.names();
        let batch = order.batch(&names, op, costs);
        Deciding::Now(self.store.decide_now(&batch, context))
    }

    fn hold(&self, now: Timestamp, memory: Duration) {
        self.memory.hold(now, now.saturating_add(memory));
    }
}

/// Counters that are shared with others.
pub(crate) struct Remote<S>(pub(crate) Arc<S>);

impl<S: Store + 'static> Backend for Remote<S> {
    fn decide(&self, order: &Order, op: Op, costs: Costs, context: Context) -> Deciding {
        let names = order.names();
        if let Some(verdicts) = self.0.try_decide(&order.batch(&names, op, costs), context) {
            return Deciding::Now(verdicts);
        }
        let (store, order) = (Arc::clone(&self.0), order.clone());
        Deciding::Later(Box::pin(async move {
            let names = order.names();
            let batch = order.batch(&names, op, costs);
            store.decide(&batch, context).await
        }))
    }
}
