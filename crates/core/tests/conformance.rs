//! The memory store under the conformance suite, with room for every key, with
//! one shard, and behind a future that really waits.
#![expect(clippy::expect_used, reason = "a helper of a test may fail it")]

use hivemind_core::store::{
    Charge, Context, LocalStore, MemoryStore, Store, StoreError, StoreOptions, Verdicts,
};
use hivemind_core::testing::conforms;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Poll, Waker};
use std::time::Duration;

// Seen failing on: one token more than there is fits; a refund has no cap; `<` for `<=` in the fixed
// window's `fits`.
#[test]
fn the_memory_store_decides_like_the_model() {
    conforms(|| MemoryStore::new(StoreOptions::default()));
}

// Seen failing on: one token more than there is fits; a refund has no cap; `<` for `<=` in the fixed
// window's `fits`.
#[test]
fn a_memory_store_of_one_shard_decides_like_the_model() {
    let options = StoreOptions { max_keys: 64, idle_ttl: Duration::ZERO };
    conforms(|| MemoryStore::new(options));
}

/// A store as remote ones are: another thread lets its answers come, after the first poll.
struct Remote {
    store: MemoryStore,
    wakers: Sender<(Arc<AtomicBool>, Waker)>,
}

impl Remote {
    fn answered(&self) -> Answered {
        Answered { wakers: self.wakers.clone(), come: None }
    }
}

impl Store for Remote {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        self.answered().await;
        Ok(self.store.decide_now(batch, context))
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.answered().await;
        self.store.forget_now(charge.key);
        Ok(())
    }
}

struct Answered {
    wakers: Sender<(Arc<AtomicBool>, Waker)>,
    come: Option<Arc<AtomicBool>>,
}

impl Future for Answered {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<()> {
        if self.come.as_ref().is_some_and(|come| come.load(Ordering::SeqCst)) {
            return Poll::Ready(());
        }
        let come = Arc::clone(self.come.get_or_insert_default());
        self.wakers.send((come, context.waker().clone())).expect("the other thread lives");
        Poll::Pending
    }
}

// Seen failing on: one token more than there is fits; a refund has no cap; `<` for `<=` in the fixed
// window's `fits`.
#[test]
fn a_store_whose_futures_wait_can_be_held_to_the_model() {
    let (wakers, asked) = channel::<(Arc<AtomicBool>, Waker)>();
    let answering = std::thread::spawn(move || {
        for (come, waker) in asked {
            come.store(true, Ordering::SeqCst);
            waker.wake();
        }
    });
    conforms(|| Remote { store: MemoryStore::new(StoreOptions::default()), wakers: wakers.clone() });
    drop(wakers);
    assert!(answering.join().is_ok());
}
