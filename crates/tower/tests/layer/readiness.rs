//! Readiness of an inner service with a concurrency limit.

use crate::stores::{StalledStore, seed};
use crate::support::{api, bucket, builder, clock, hello, limiter, request_from};
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt};

/// Panics in tower's concurrency limit when a clone counts as ready.
#[tokio::test]
async fn cloned_service_is_not_ready() {
    let limiter = limiter(api(bucket(1, 5)), &clock());
    let mut service = limiter.layer("api").layer(ConcurrencyLimitLayer::new(1).layer(hello()));
    for _ in 0..2 {
        // As many layers do: the ready service handles the request, and a clone stays.
        service.ready().await.unwrap();
        let clone = service.clone();
        let mut ready = std::mem::replace(&mut service, clone);
        assert_eq!(ready.call(request_from(1)).await.unwrap().status(), StatusCode::OK);
    }
}

/// Hangs when the ready service is kept during the delay. The service that stays in the layer must release its
/// permit too, since it may live on, for example in a buffer.
#[tokio::test(start_paused = true)]
async fn delayed_request_does_not_hold_service_readiness() {
    let builder = || builder(api(bucket(1, 3).delay(0)), &clock()).sleeper(|_| std::future::pending());
    let store = builder().store(Arc::new(StalledStore::default()), seed());
    for (limiter, undelayed) in [(builder().build().unwrap(), 1), (store.build().unwrap(), 0)] {
        let inner = ConcurrencyLimitLayer::new(1).layer(hello());
        let mut service = limiter.layer("api").layer(inner.clone());
        for _ in 0..undelayed {
            service.ready().await.unwrap().call(request_from(1)).await.unwrap();
        }
        let mut waiting = std::pin::pin!(service.ready().await.unwrap().call(request_from(1)));
        let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
        assert!(waits.await);
        let other = tokio::time::timeout(Duration::from_secs(1), inner.oneshot(request_from(2)));
        assert_eq!(other.await.unwrap().unwrap().status(), StatusCode::OK);
    }
}
