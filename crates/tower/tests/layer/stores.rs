//! Stores that have to be waited for, and stores that fail.

use crate::events::Heard;
use crate::support::{Server, api, bucket, builder, clock};
use hivemind_core::store::{
    Charge, Context, Key, KeySeed, LocalStore, MemoryStore, Store, StoreError, StoreOptions, Verdicts,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Answers only when it is asked twice, as a store over a network would, or not at all.
struct Distant {
    memory: MemoryStore,
    fails: AtomicBool,
}

impl Distant {
    fn new() -> Arc<Self> {
        Arc::new(Self { memory: MemoryStore::new(StoreOptions::default()), fails: AtomicBool::new(false) })
    }
}

impl Store for Distant {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        tokio::task::yield_now().await;
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Unreachable { reason: "no route".into() });
        }
        for charge in batch {
            let named = Key::new(&KeySeed::from_cluster_id("test"), charge.parts, charge.limit, 0);
            assert_eq!(named, charge.key, "the readable parts are the key's own");
        }
        Ok(self.memory.decide_now(batch, context))
    }

    async fn forget(&self, key: Key) -> Result<(), StoreError> {
        self.memory.forget_now(key);
        Ok(())
    }
}

fn seed() -> KeySeed {
    KeySeed::from_cluster_id("test")
}

#[tokio::test]
async fn a_store_that_has_to_be_waited_for_decides_all_the_same() {
    let limits = api(bucket(1, 2)).ip_guard(bucket(1, 3));
    let limiter = builder(limits, &clock()).store(Distant::new(), seed()).build().unwrap();
    let server = Server::start(&limiter).await;
    assert_eq!(server.statuses(3, "/").await, [200, 200, 429]);
    assert_eq!(server.asked(), 2);
    for (key, status) in [("a", 200), ("b", 200), ("c", 200), ("d", 429)] {
        assert_eq!(server.ask("GET /", &[("X-API-Key-ID", key)]).await.status, status);
    }
}

#[tokio::test]
async fn requests_pass_while_the_store_fails_with_a_warning_now_and_then_and_limits_hold_when_it_is_back() {
    let heard = Heard::default();
    let _listening = heard.listen();
    let (store, clock) = (Distant::new(), clock());
    let limiter = builder(api(bucket(1, 1)), &clock).store(Arc::clone(&store), seed()).build().unwrap();
    let server = Server::start(&limiter).await;
    store.fails.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        let answer = server.get("/").await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    assert_eq!(heard.lines("no limit could be asked").len(), 1);
    clock.advance(Duration::from_secs(10));
    server.get("/").await;
    assert_eq!(heard.lines("no limit could be asked").len(), 2);
    store.fails.store(false, Ordering::SeqCst);
    assert_eq!(server.statuses(2, "/").await, [200, 429]);
}

#[tokio::test]
async fn failing_closed_is_no_refusal_but_an_outage_and_the_service_is_not_asked() {
    let store = Distant::new();
    store.fails.store(true, Ordering::SeqCst);
    let limiter = builder(api(bucket(1, 1)), &clock()).store(store, seed()).fail_closed().build().unwrap();
    let server = Server::start(&limiter).await;
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(server.asked(), 0);
}

#[tokio::test]
async fn a_memory_store_can_be_shared() {
    let store = Arc::new(MemoryStore::new(StoreOptions::default()));
    for expected in [[200, 200], [200, 429]] {
        let limiter = builder(api(bucket(1, 3)), &clock()).memory_store(Arc::clone(&store), seed());
        let server = Server::start(&limiter.build().unwrap()).await;
        assert_eq!(server.statuses(2, "/").await, expected);
    }
}
