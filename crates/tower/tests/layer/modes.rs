//! Delay mode, dry run, disabling, and readiness.

use crate::support::{Server, api, bucket, builder, clock, limiter};
use axum::extract::ConnectInfo;
use bytes::Bytes;
use hivemind_core::ManualClock;
use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::{Layer, Service, ServiceExt, service_fn};

/// A limiter whose sleeper only records the delays, in order.
fn recording_limiter(limits: Limits, clock: &ManualClock) -> (RateLimiter, Arc<Mutex<Vec<Duration>>>) {
    let held = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&held);
    let limiter = builder(limits, clock).sleeper(move |delay| {
        recorded.lock().unwrap().push(delay);
        std::future::ready(())
    });
    (limiter.build().unwrap(), held)
}

/// As nginx with `rate=10r/s burst=5`, without and with `delay=2`.
#[tokio::test]
async fn delayed_requests_wait_like_nginx_without_nodelay() {
    for (after, delays) in [(0, vec![100, 200, 300, 400, 500]), (2, vec![100, 200, 300])] {
        let (limiter, held) = recording_limiter(api(bucket(10, 6).delay(after)), &clock());
        let server = Server::start(&limiter).await;
        assert_eq!(server.statuses(7, "/").await, [200, 200, 200, 200, 200, 200, 429]);
        let delays: Vec<_> = delays.into_iter().map(Duration::from_millis).collect();
        assert_eq!(*held.lock().unwrap(), delays);
    }
}

/// Fails when the delay is computed from whole tokens.
#[tokio::test]
async fn delay_accounts_for_fractions_of_a_token() {
    let clock = clock();
    let (limiter, held) = recording_limiter(api(bucket(10, 6).delay(0)), &clock);
    let server = Server::start(&limiter).await;
    server.get("/").await;
    clock.advance(Duration::from_millis(30));
    server.get("/").await;
    assert_eq!(*held.lock().unwrap(), [Duration::from_millis(70)]);
}

/// With tokio's paused clock, which advances to the next timer when all tasks wait.
#[tokio::test(start_paused = true)]
async fn delayed_request_holds_no_thread_and_runs_after_its_delay() {
    let limiter = builder(api(bucket(1, 3).delay(0)), &clock()).build().unwrap();
    let inner = service_fn(|_: Request<Empty<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let service = limiter.layer("api").layer(inner);
    let ask = || {
        let mut request = Request::new(Empty::new());
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 9))));
        service.clone().oneshot(request)
    };
    let deadline = tokio::time::timeout(Duration::from_millis(2_001), async {
        let (first, second, third) = tokio::join!(ask(), ask(), ask());
        [first, second, third].map(|answer| answer.unwrap().status())
    });
    assert_eq!(deadline.await.unwrap(), [StatusCode::OK; 3]);
    let early = tokio::time::timeout(Duration::from_millis(1), ask());
    assert_eq!(early.await.unwrap().unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn dry_run_counts_passes_and_sets_its_header() {
    let clock = clock();
    let service = ServiceLimits::new("api")
        .limit(bucket(1, 1).dry_run(true))
        .endpoint("/hard", PartialLimit::new().dry_run(false));
    let server = Server::start(&limiter(Limits::new().service(service), &clock)).await;
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.header("x-ratelimit-dry-run")), (200, None));
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.header("x-ratelimit-dry-run")), (200, Some("refused")));
    assert_eq!(answer.remaining(), 0);
    assert_eq!(server.calls(), 2);
    assert_eq!(server.statuses(2, "/hard").await, [200, 429]);
}

#[tokio::test]
async fn disabled_limiter_passes_all_without_headers() {
    let clock = clock();
    let limiter = limiter(api(bucket(1, 1)).enabled(false), &clock);
    let server = Server::start(&limiter).await;
    for _ in 0..5 {
        let answer = server.get("/").await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    limiter.reload(&api(bucket(1, 1))).unwrap();
    assert_eq!(server.statuses(2, "/").await, [200, 429]);
    limiter.reload(&api(bucket(1, 1)).enabled(false)).unwrap();
    assert_eq!(server.statuses(2, "/").await, [200, 200]);
    limiter.reload(&api(bucket(1, 1))).unwrap();
    assert_eq!(server.statuses(1, "/").await, [429], "spent budget stays spent");
    clock.advance(Duration::from_secs(1));
    assert_eq!(server.statuses(2, "/").await, [200, 429]);
}

/// A service that is never ready.
#[derive(Clone)]
struct NeverReady;

impl Service<Request<Empty<Bytes>>> for NeverReady {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Pending
    }

    fn call(&mut self, _: Request<Empty<Bytes>>) -> Self::Future {
        panic!("the service is not ready")
    }
}

/// Hangs when the layer is ready only if its service is.
#[tokio::test]
async fn refusal_is_immediate_and_pass_waits_for_readiness() {
    let limiter = limiter(api(bucket(1, 1)), &clock());
    let service = limiter.layer("api").layer(NeverReady);
    let mut passed = std::pin::pin!(service.clone().oneshot(Request::new(Empty::new())));
    let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(passed.as_mut().poll(cx).is_pending()));
    assert!(waits.await);
    let refused = service.oneshot(Request::new(Empty::new())).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
}
