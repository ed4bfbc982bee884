//! Stores that are awaited, stall or fail.

use crate::events::EventLog;
use crate::support::{START, Server, api, bucket, builder, clock, hello, request_from};
use bytes::Bytes;
use hivemind_core::Timestamp;
use hivemind_core::store::{
    Charge, Context, Key, KeySeed, LocalStore, MemoryStore, Outcome, Store, StoreError, StoreOptions,
    Verdict, Verdicts,
};
use hivemind_tower::Decision;
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::{Layer, ServiceExt, service_fn};

/// A store that is pending at the first poll, like one over a network, or that fails.
pub(crate) struct AsyncStore {
    memory: MemoryStore,
    fails: AtomicBool,
}

impl AsyncStore {
    fn new() -> Arc<Self> {
        Arc::new(Self { memory: MemoryStore::new(StoreOptions::default()), fails: AtomicBool::new(false) })
    }

    pub(crate) fn failing() -> Self {
        Self { memory: MemoryStore::new(StoreOptions::default()), fails: AtomicBool::new(true) }
    }
}

impl Store for AsyncStore {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        tokio::task::yield_now().await;
        if self.fails.load(Ordering::SeqCst) {
            return Err(StoreError::Unreachable { reason: "no route".into() });
        }
        for charge in batch {
            let named = Key::new(&KeySeed::from_cluster_id("test"), charge.parts, charge.limit, 0);
            assert_eq!(named, charge.key, "the readable parts match the key");
        }
        Ok(self.memory.decide_now(batch, context))
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.forget_now(charge.key);
        Ok(())
    }
}

/// Always returns the same verdicts.
struct FixedStore(Verdicts);

impl Store for FixedStore {
    async fn decide(&self, _: &[Charge<'_>], _: Context) -> Result<Verdicts, StoreError> {
        Ok(self.0.clone())
    }

    async fn forget(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Never responds. It records the deadline of the call.
#[derive(Default)]
pub(crate) struct StalledStore(Mutex<Option<Timestamp>>);

impl Store for StalledStore {
    async fn decide(&self, _: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        *self.0.lock().unwrap() = context.deadline;
        std::future::pending().await
    }

    async fn forget(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Responds to one call and then stalls.
#[derive(Default)]
struct OneShotStore(AtomicBool);

impl Store for OneShotStore {
    async fn decide(&self, _: &[Charge<'_>], _: Context) -> Result<Verdicts, StoreError> {
        if self.0.swap(true, Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let outcome = Outcome::Admitted;
        let verdict = Verdict { outcome, available: 1, remaining: 0, reset_after: Duration::ZERO };
        Ok(Verdicts::new(true, [verdict]))
    }

    async fn forget(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

pub(crate) fn seed() -> KeySeed {
    KeySeed::from_cluster_id("test")
}

#[tokio::test]
async fn async_store_decides_requests() {
    let limits = api(bucket(1, 2)).ip_guard(bucket(1, 3));
    let limiter = builder(limits, &clock()).store(AsyncStore::new(), seed()).build().unwrap();
    let server = Server::start(&limiter).await;
    assert_eq!(server.statuses(3, "/").await, [200, 200, 429]);
    assert_eq!(server.calls(), 2);
    for (key, status) in [("a", 200), ("b", 200), ("c", 200), ("d", 429)] {
        assert_eq!(server.ask("GET /", &[("X-API-Key-ID", key)]).await.status, status);
    }
}

#[tokio::test]
async fn failing_store_passes_requests_with_throttled_warnings() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    let (store, clock) = (AsyncStore::new(), clock());
    let limiter = builder(api(bucket(1, 1)), &clock).store(Arc::clone(&store), seed()).build().unwrap();
    let server = Server::start(&limiter).await;
    store.fails.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        let answer = server.get("/").await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    assert_eq!(events_log.lines("rate limit store failed").len(), 1);
    clock.advance(Duration::from_secs(10));
    server.get("/").await;
    assert_eq!(events_log.lines("rate limit store failed").len(), 2);
    store.fails.store(false, Ordering::SeqCst);
    assert_eq!(server.statuses(2, "/").await, [200, 429]);
}

#[tokio::test]
async fn fail_closed_returns_503_and_skips_the_service() {
    let store = AsyncStore::new();
    store.fails.store(true, Ordering::SeqCst);
    let limiter = builder(api(bucket(1, 1)), &clock()).store(store, seed()).fail_closed().build().unwrap();
    let server = Server::start(&limiter).await;
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(server.calls(), 0);
}

#[tokio::test]
async fn shared_memory_store_counts_for_both_limiters() {
    let store = Arc::new(MemoryStore::new(StoreOptions::default()));
    for expected in [[200, 200], [200, 429]] {
        let limiter = builder(api(bucket(1, 3)), &clock()).memory_store(Arc::clone(&store), seed());
        let server = Server::start(&limiter.build().unwrap()).await;
        assert_eq!(server.statuses(2, "/").await, expected);
    }
}

/// Fails when the outcome is derived from the verdicts, and when missing verdicts count as a pass.
#[tokio::test]
async fn request_passes_only_if_the_store_commits_its_batch() {
    let verdict = |outcome| Verdict { outcome, available: 1, remaining: 1, reset_after: Duration::ZERO };
    let (admitted, refused) = (Outcome::Admitted, Outcome::Refused { retry_after: None });
    for (verdicts, status) in [
        (Verdicts::new(true, [verdict(refused)]), 200),
        (Verdicts::new(false, [verdict(admitted)]), 429),
        (Verdicts::new(false, [verdict(refused)]), 429),
        (Verdicts::new(true, []), 503),
        (Verdicts::new(true, [verdict(admitted); 2]), 503),
    ] {
        let limiter = builder(api(bucket(1, 1)), &clock()).store(Arc::new(FixedStore(verdicts)), seed());
        let server = Server::start(&limiter.fail_closed().build().unwrap()).await;
        assert_eq!(server.get("/").await.status, status);
    }
}

/// With tokio's paused clock. Hangs without a time-out.
#[tokio::test(start_paused = true)]
async fn store_wait_ends_after_its_timeout() {
    let set = Duration::from_millis(20);
    for (timeout, expected) in [(None, Duration::from_millis(50)), (Some(set), set)] {
        for (fails_closed, status) in [(false, StatusCode::OK), (true, StatusCode::SERVICE_UNAVAILABLE)] {
            let store = Arc::new(StalledStore::default());
            let mut builder = builder(api(bucket(1, 1)), &clock()).store(Arc::clone(&store), seed());
            builder = if fails_closed { builder.fail_closed() } else { builder };
            if let Some(timeout) = timeout {
                builder = builder.store_timeout(timeout);
            }
            let service = builder.build().unwrap().layer("api").layer(hello());
            let late = expected + Duration::from_millis(2); // The resolution of the timer, and one more millisecond.
            let answer = tokio::time::timeout(late, service.oneshot(request_from(1))).await;
            assert_eq!(answer.unwrap().unwrap().status(), status);
            assert_eq!(*store.0.lock().unwrap(), Some(START.saturating_add(expected)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refund_wait_ends_after_store_timeout() {
    let store = Arc::new(OneShotStore::default());
    let limiter = builder(api(bucket(1, 1)), &clock()).store(store, seed()).build().unwrap();
    let inner = service_fn(|request: Request<Empty<Bytes>>| async move {
        let decision: &Decision = request.extensions().get().unwrap();
        assert_eq!(decision.refund(1).await, Err(StoreError::DeadlinePassed));
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let answer = limiter.layer("api").layer(inner).oneshot(request_from(1));
    let answer = tokio::time::timeout(Duration::from_secs(1), answer).await;
    assert_eq!(answer.unwrap().unwrap().status(), StatusCode::OK);
}
