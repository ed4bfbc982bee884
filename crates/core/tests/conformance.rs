//! The memory store under the conformance suite, with room for every key, with
//! one shard, and behind a future that really waits.

use hivemind_core::testing::conforms;
use hivemind_core::{
    Charge, Context, Key, LocalStore, MemoryStore, Store, StoreError, StoreOptions, Verdicts,
};
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

// Seen failing on: a peek alone that was recorded; a batch that kept what its passing limits spent (docs/mutations.md).
#[test]
fn the_memory_store_decides_like_the_model() {
    conforms(|| MemoryStore::new(StoreOptions::default()));
}

#[test]
fn a_memory_store_of_one_shard_decides_like_the_model() {
    let options = StoreOptions { max_keys: 64, idle_ttl: Duration::ZERO };
    conforms(|| MemoryStore::new(options));
}

/// A store as remote ones are: its answers come from another thread, after some polls.
struct Remote(MemoryStore);

impl Store for Remote {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        WokenByAnother(None).await;
        Ok(self.0.decide_now(batch, context))
    }

    async fn forget(&self, key: Key) -> Result<(), StoreError> {
        WokenByAnother(None).await;
        self.0.forget_now(key);
        Ok(())
    }
}

struct WokenByAnother(Option<std::thread::JoinHandle<()>>);

impl Future for WokenByAnother {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<()> {
        match &self.0 {
            Some(thread) if thread.is_finished() => Poll::Ready(()),
            Some(_) => {
                // A waker may be called early: whoever is polled early is polled again.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                let waker = context.waker().clone();
                self.0 = Some(std::thread::spawn(move || waker.wake()));
                Poll::Pending
            }
        }
    }
}

#[test]
fn a_store_whose_futures_wait_can_be_held_to_the_model() {
    conforms(|| Remote(MemoryStore::new(StoreOptions::default())));
}
