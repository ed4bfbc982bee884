//! Conformance of the memory store: with room for every key, with one shard, and behind
//! a future that really waits.
#![expect(clippy::expect_used, reason = "a test helper may panic")]

use hivemind_core::store::{
    Charge, Context, LocalStore, MemoryStore, Store, StoreError, StoreOptions, Verdicts,
};
use hivemind_core::testing::{conforms, oversized_costs_take_nothing};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Poll, Waker};
use std::time::Duration;

// Fails when a cost above the remaining tokens fits; a refund has no upper bound; the fixed window's `fits` compares with `<`.
#[test]
fn memory_store_decides_like_the_model() {
    conforms(|| MemoryStore::new(StoreOptions::default()));
}

// Fails when a cost above the remaining tokens fits; a refund has no upper bound; the fixed window's `fits` compares with `<`.
#[test]
fn single_shard_memory_store_decides_like_the_model() {
    let options = StoreOptions { max_keys: 64, idle_ttl: Duration::ZERO };
    conforms(|| MemoryStore::new(options));
}

// Fails when a refused cost above the limit is counted in the table, or in a shared bucket of a full store.
#[test]
fn oversized_cost_bars_no_client_of_full_memory_store() {
    for max_keys in [1, 64] {
        let options = StoreOptions { max_keys, idle_ttl: Duration::ZERO };
        oversized_costs_take_nothing(|| MemoryStore::new(options), 64);
    }
}

/// A store that behaves like a remote one: another thread wakes its futures after the first poll.
struct Remote {
    store: MemoryStore,
    wakers: Sender<(Arc<AtomicBool>, Waker)>,
}

impl Remote {
    fn reply(&self) -> ReplyFuture {
        ReplyFuture { wakers: self.wakers.clone(), arrived: None }
    }
}

impl Store for Remote {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        self.reply().await;
        Ok(self.store.decide_now(batch, context))
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.reply().await;
        self.store.forget_now(charge.key);
        Ok(())
    }
}

struct ReplyFuture {
    wakers: Sender<(Arc<AtomicBool>, Waker)>,
    arrived: Option<Arc<AtomicBool>>,
}

impl Future for ReplyFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<()> {
        if self.arrived.as_ref().is_some_and(|arrived| arrived.load(Ordering::SeqCst)) {
            return Poll::Ready(());
        }
        let arrived = Arc::clone(self.arrived.get_or_insert_default());
        self.wakers.send((arrived, context.waker().clone())).expect("the other thread runs");
        Poll::Pending
    }
}

// Fails when a cost above the remaining tokens fits; a refund has no upper bound; the fixed window's `fits` compares with `<`.
#[test]
fn async_store_decides_like_the_model() {
    let (wakers, requests) = channel::<(Arc<AtomicBool>, Waker)>();
    let replies = std::thread::spawn(move || {
        for (arrived, waker) in requests {
            arrived.store(true, Ordering::SeqCst);
            waker.wake();
        }
    });
    conforms(|| Remote { store: MemoryStore::new(StoreOptions::default()), wakers: wakers.clone() });
    drop(wakers);
    assert!(replies.join().is_ok());
}
