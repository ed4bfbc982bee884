//! Reload of limits under traffic.

use crate::support::{Server, api, bucket, builder, clock, limiter};
use bytes::Bytes;
use hivemind_tower::{ClientAddress, Decision, Identity, IdentitySource, Limits, PartialLimit, RateLimiter};
use http::{Request, Response};
use http_body_util::Empty;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use tower::{Layer, ServiceExt, service_fn};

#[tokio::test]
async fn changed_limit_continues_from_used_budget() {
    let limiter = limiter(api(bucket(1, 10)), &clock());
    let server = Server::start(&limiter).await;
    for left in (4..10).rev() {
        assert_eq!(server.get("/").await.remaining(), left);
    }
    limiter.reload(&api(bucket(1, 20))).unwrap();
    assert_eq!(server.get("/").await.remaining(), 3, "a larger burst starts with the old tokens");
    limiter.reload(&api(bucket(1, 2))).unwrap();
    let answer = server.get("/").await;
    assert_eq!(
        (answer.remaining(), answer.header("x-ratelimit-limit")),
        (1, Some("1")),
        "cut to the new burst"
    );
}

#[tokio::test]
async fn invalid_limits_change_nothing_on_reload() {
    let limiter = limiter(api(bucket(1, 1)), &clock());
    let before = limiter.effective_limits();
    assert!(limiter.reload(&api(PartialLimit::new().requests(0))).is_err());
    assert_eq!(limiter.effective_limits(), before);
}

/// Each request triggers a reload while its client is identified. Fails when the guard comes from a second load
/// of the limits.
#[tokio::test]
async fn request_never_mixes_old_and_new_limits() {
    let limits = |burst: u32| Limits::new().platform(bucket(1, burst)).ip_guard(bucket(1, burst));
    let (reloaded, reloads) = (Arc::new(OnceLock::<RateLimiter>::new()), AtomicU32::new(0));
    let limiter = Arc::clone(&reloaded);
    let reload = IdentitySource::custom("reload", move |_| {
        let burst = 1_000 + reloads.fetch_add(1, Ordering::SeqCst);
        limiter.get().unwrap().reload(&limits(burst)).unwrap();
        Some("one".to_owned())
    });
    let identity = Identity::new([reload.unwrap()], ClientAddress::peer()).unwrap();
    let limiter = builder(limits(999), &clock()).identity(identity).build().unwrap();
    reloaded.set(limiter.clone()).unwrap();
    let inner = service_fn(|request: Request<Empty<Bytes>>| async move {
        let decision: &Decision = request.extensions().get().unwrap();
        assert_eq!(decision.guard_limit(), Some(decision.limit()));
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let service = limiter.layer("api").layer(inner);
    for request in 0..50 {
        let response = service.clone().oneshot(Request::new(Empty::new())).await.unwrap();
        assert_eq!(response.headers()["x-ratelimit-remaining"], (998 - request).to_string());
    }
}
