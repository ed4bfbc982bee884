//! Stores of a test, and what they are asked.

use crate::server::SOON;
use hivemind_core::store::{Charge, Context, Key, KeySeed, Op, Parts, Store, StoreError, Verdicts};
use hivemind_core::{Cost, Limit, Timestamp};
use hivemind_redis::{Availability, RedisOptions, RedisStore};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A store that several can be handed: they share it.
#[derive(Clone)]
pub(crate) struct Lent(pub(crate) Arc<RedisStore>);

impl Store for Lent {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        self.0.decide(batch, context).await
    }

    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        self.0.try_decide(batch, context)
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.forget(charge).await
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A store that is available.
pub(crate) fn store(options: RedisOptions, runtime: &Runtime) -> Lent {
    let store = RedisStore::start(options, runtime.handle()).unwrap();
    runtime.block_on(comes_up(&store));
    Lent(Arc::new(store))
}

pub(crate) async fn comes_up(store: &RedisStore) {
    let mut availability = store.availability();
    let up = availability.wait_for(|state| *state == Availability::Up);
    let is_up = tokio::time::timeout(SOON, up).await.is_ok();
    assert!(is_up, "it is still {:?}", *store.availability().borrow());
}

/// One charge of one unit.
pub(crate) fn charge<'a>(parts: Parts<'a>, limit: &'a Limit, op: Op, units: u64) -> Charge<'a> {
    let key = Key::new(&KeySeed::from_cluster_id("test"), parts, limit, 0);
    Charge { cost: Cost::new(units), op, ..Charge::spend(key, parts, limit) }
}

pub(crate) fn now() -> Context {
    Context::at(Timestamp::from_millis(1_700_000_000_000))
}
