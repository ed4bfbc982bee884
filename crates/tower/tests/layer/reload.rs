//! Limits that change under traffic.

use crate::support::{Server, api, bucket, clock, limiter};
use bytes::Bytes;
use hivemind_tower::{Decision, Limits, PartialLimit, RateLimiter};
use http::{Request, Response};
use http_body_util::Empty;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tower::{Layer, ServiceExt, service_fn};

#[tokio::test]
async fn a_changed_limit_goes_on_from_what_its_clients_have_used() {
    let limiter = limiter(api(bucket(1, 10)), &clock());
    let server = Server::start(&limiter).await;
    for left in (4..10).rev() {
        assert_eq!(server.get("/").await.remaining(), left);
    }
    limiter.reload(&api(bucket(1, 20))).unwrap();
    assert_eq!(server.get("/").await.remaining(), 3, "more room, and nothing in it yet");
    limiter.reload(&api(bucket(1, 2))).unwrap();
    let answer = server.get("/").await;
    assert_eq!(
        (answer.remaining(), answer.header("x-ratelimit-limit")),
        (1, Some("1")),
        "cut to the new burst"
    );
}

#[tokio::test]
async fn limits_that_make_no_sense_change_nothing() {
    let limiter = limiter(api(bucket(1, 1)), &clock());
    let before = limiter.effective_limits();
    assert!(limiter.reload(&api(PartialLimit::new().requests(0))).is_err());
    assert_eq!(limiter.effective_limits(), before);
}

/// The client's own limit and the guard's always change together. Seen failing with the guard taken from a
/// second load of the limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_request_is_in_the_old_limits_and_the_new_at_once() {
    let limits = |burst: u32| Limits::new().platform(bucket(1, burst)).ip_guard(bucket(1, burst));
    let limiter = RateLimiter::builder(limits(1_000_000)).clock(clock()).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (reloaded, stopped) = (limiter.clone(), Arc::clone(&stop));
    let reloads = tokio::task::spawn_blocking(move || {
        let mut reloads = 0;
        while !stopped.load(Ordering::Relaxed) {
            let burst = if reloads % 2 == 0 { 2_000_000 } else { 1_000_000 };
            reloaded.reload(&limits(burst)).unwrap();
            reloads += 1;
        }
        reloads
    });
    let inner = service_fn(|request: Request<Empty<Bytes>>| async move {
        let decision: &Decision = request.extensions().get().unwrap();
        let mut response = Response::new(Empty::<Bytes>::new());
        response.extensions_mut().insert(format!("{decision:?}"));
        assert_eq!(decision.guard_limit(), Some(decision.limit()));
        Ok::<_, Infallible>(response)
    });
    let service = limiter.layer("api").layer(inner);
    for _ in 0..20_000 {
        let request = Request::get("/").header("X-API-Key-ID", "a").body(Empty::new()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 200);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(reloads.await.unwrap() > 10);
}
