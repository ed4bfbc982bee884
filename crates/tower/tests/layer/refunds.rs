//! Refunds and debits by handlers.

use crate::support::{Server, api, bucket, clock, limiter};
use axum::{Extension, Router, routing::get};
use hivemind_tower::{Decision, LimitKind, Limits, RateLimiter, ServiceLimits};

#[tokio::test]
async fn handler_gets_decision_from_extensions() {
    let limiter = limiter(api(bucket(1, 5)), &clock());
    let handler = |Extension(decision): Extension<Decision>| async move {
        assert_eq!((decision.is_allowed(), decision.remaining()), (true, 4));
        assert_eq!((decision.kind(), decision.limit().burst()), (LimitKind::Http, 5));
        assert_eq!((decision.service(), decision.endpoint()), ("api", "*"));
        decision.client().name().to_owned()
    };
    let server = Server::serve(Router::new().route("/", get(handler)).layer(limiter.layer("api"))).await;
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ip:127.0.0.1"));
}

/// Fails when a refund spends.
#[tokio::test]
async fn refund_returns_cost_and_debit_overdraws() {
    let limiter = limiter(api(bucket(1, 5)), &clock());
    let free = |Extension(decision): Extension<Decision>| async move {
        decision.refund(1).await.unwrap().to_string()
    };
    let debit = |Extension(decision): Extension<Decision>| async move {
        // On another task: the decision is `Send` and owns its data.
        tokio::spawn(async move { decision.debit(7).await }).await.unwrap().unwrap().to_string()
    };
    let router =
        Router::new().route("/free", get(free)).route("/debit", get(debit)).layer(limiter.layer("api"));
    let server = Server::serve(router).await;
    for _ in 0..9 {
        assert_eq!(server.get("/free").await.body, "5");
    }
    assert_eq!(server.get("/debit").await.body, "0");
    let answer = server.get("/free").await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, Some("4")),
        "the bucket is at minus three"
    );
}

#[tokio::test]
async fn refund_and_debit_apply_to_the_guard_too() {
    let limits = Limits::new().platform(bucket(1, 10)).ip_guard(bucket(1, 4));
    let limiter = limiter(limits, &clock());
    let debit = |Extension(decision): Extension<Decision>| async move {
        decision.debit(3).await.unwrap().to_string()
    };
    let server = Server::serve(Router::new().route("/", get(debit)).layer(limiter.layer("api"))).await;
    assert_eq!(server.ask("GET /", &[("X-API-Key-ID", "a")]).await.body, "6");
    let other = server.ask("GET /", &[("X-API-Key-ID", "b")]).await;
    assert_eq!((other.status, other.header("ratelimit-policy")), (429, Some(r#""address";q=1;w=1"#)));
}

/// A router with a handler that refunds `cost` twice, and one that refunds nothing.
fn refunding(limiter: &RateLimiter, cost: u64) -> Router {
    let free = move |Extension(decision): Extension<Decision>| async move {
        let first = decision.refund(cost).await.unwrap();
        format!("{first} {}", decision.refund(cost).await.unwrap())
    };
    let hello = get(|| async { "hello" });
    Router::new().route("/free", get(free)).route("/", hello).layer(limiter.layer("api"))
}

/// Fails when refunds are not bounded by the spent cost.
#[tokio::test]
async fn refund_returns_spent_cost_once() {
    let server = Server::serve(refunding(&limiter(api(bucket(1, 5)), &clock()), 5)).await;
    server.statuses(2, "/").await;
    assert_eq!(server.get("/free").await.body, "3 3");
}

/// Fails when a refund under dry run creates tokens.
#[tokio::test]
async fn refund_skips_cost_that_dry_run_did_not_take() {
    let server = Server::serve(refunding(&limiter(api(bucket(1, 1).dry_run(true)), &clock()), 1)).await;
    server.get("/").await;
    let answer = server.get("/free").await;
    assert_eq!((answer.header("x-ratelimit-dry-run"), answer.body.as_str()), (Some("refused"), "0 0"));
}

#[tokio::test]
async fn refund_can_return_debited_cost() {
    let limiter = limiter(api(bucket(1, 5)), &clock());
    let debit = |Extension(decision): Extension<Decision>| async move {
        let debited = decision.debit(2).await.unwrap();
        format!("{debited} {}", decision.refund(9).await.unwrap())
    };
    let server = Server::serve(Router::new().route("/", get(debit)).layer(limiter.layer("api"))).await;
    assert_eq!(server.get("/").await.body, "2 5");
}

/// Fails when the refund uses the limit of the decision.
#[tokio::test]
async fn refund_after_reload_uses_active_limit() {
    let limits = |burst| {
        let service = ServiceLimits::new("api").endpoint("/", bucket(1, burst));
        Limits::new().service(service).ip_guard(bucket(1, 100 * burst))
    };
    let limiter = limiter(limits(10), &clock());
    let reloaded = limiter.clone();
    let free = move |Extension(decision): Extension<Decision>| async move {
        reloaded.reload(&limits(2)).unwrap();
        let left = decision.refund(1).await.unwrap();
        reloaded.reload(&Limits::new()).unwrap();
        // Its endpoint is gone, so the debit uses the limit of the decision.
        format!("{left} {}", decision.debit(1).await.unwrap())
    };
    let server = Server::serve(Router::new().route("/", get(free)).layer(limiter.layer("api"))).await;
    assert_eq!(server.ask("GET /", &[("X-API-Key-ID", "a")]).await.body, "2 9");
}
