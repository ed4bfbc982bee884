//! The decision in a handler's hands, and costs that are known only afterwards.

use crate::support::{Server, api, bucket, clock, limiter};
use axum::{Extension, Router, routing::get};
use hivemind_tower::{Decision, LimitKind, Limits};

#[tokio::test]
async fn a_handler_sees_what_was_decided() {
    let limiter = limiter(api(bucket(1, 5)), &clock());
    let seen = |Extension(decision): Extension<Decision>| async move {
        assert_eq!((decision.is_allowed(), decision.remaining()), (true, 4));
        assert_eq!((decision.kind(), decision.limit().burst()), (LimitKind::Http, 5));
        assert_eq!((decision.service(), decision.endpoint()), ("api", "*"));
        decision.client().name().to_owned()
    };
    let server = Server::serve(Router::new().route("/", get(seen)).layer(limiter.layer("api"))).await;
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ip:127.0.0.1"));
}

/// Seen failing with a refund that spends.
#[tokio::test]
async fn a_refund_gives_back_and_a_debit_takes_what_was_not_there() {
    let limiter = limiter(api(bucket(1, 5)), &clock());
    let free = |Extension(decision): Extension<Decision>| async move {
        decision.refund(1).await.unwrap().to_string()
    };
    let dear = |Extension(decision): Extension<Decision>| async move {
        // On another task: the handle is its own.
        tokio::spawn(async move { decision.debit(7).await }).await.unwrap().unwrap().to_string()
    };
    let router =
        Router::new().route("/free", get(free)).route("/dear", get(dear)).layer(limiter.layer("api"));
    let server = Server::serve(router).await;
    for _ in 0..9 {
        assert_eq!(server.get("/free").await.body, "5");
    }
    assert_eq!(server.get("/dear").await.body, "0");
    let answer = server.get("/free").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("4")), "it sank to minus three");
}

#[tokio::test]
async fn a_refund_and_a_debit_reach_the_guard_as_well() {
    let limits = Limits::new().platform(bucket(1, 10)).ip_guard(bucket(1, 4));
    let limiter = limiter(limits, &clock());
    let dear = |Extension(decision): Extension<Decision>| async move {
        decision.debit(3).await.unwrap().to_string()
    };
    let server = Server::serve(Router::new().route("/", get(dear)).layer(limiter.layer("api"))).await;
    assert_eq!(server.ask("GET /", &[("X-API-Key-ID", "a")]).await.body, "6");
    let other = server.ask("GET /", &[("X-API-Key-ID", "b")]).await;
    assert_eq!((other.status, other.header("ratelimit-policy")), (429, Some(r#""address";q=1;w=1"#)));
}
