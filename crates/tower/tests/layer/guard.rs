//! The address guard, charged in addition to the clients of an address.

use crate::support::{Server, api, bucket, clock, limiter};
use hivemind_tower::{Limits, PartialLimit, ServiceLimits};
use std::net::Ipv4Addr;

async fn ask_as(server: &Server, token: usize) -> crate::support::TestResponse {
    server.ask("GET /", &[("Authorization", &format!("Bearer {token}"))]).await
}

/// Fails when the guard is not part of the batch.
#[tokio::test]
async fn client_with_made_up_tokens_is_limited_by_address_guard() {
    let server = Server::start(&limiter(Limits::new().platform(bucket(1, 2)), &clock())).await;
    for token in 0..20 {
        assert_eq!(ask_as(&server, token).await.status, 200, "ten times a burst of two");
    }
    let answer = ask_as(&server, 20).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""address";q=10;w=1"#));
    let elsewhere = server.ask_from(Ipv4Addr::new(127, 0, 0, 2), "GET /", &[]).await;
    assert_eq!(elsewhere.status, 200);
}

#[tokio::test]
async fn client_identified_by_address_is_not_charged_to_guard() {
    let limits = api(bucket(1, 5)).ip_guard(bucket(1, 1));
    let server = Server::start(&limiter(limits, &clock())).await;
    assert_eq!(server.statuses(6, "/").await, [200, 200, 200, 200, 200, 429]);
}

/// Fails with two batches, the client's own first.
#[tokio::test]
async fn request_refused_by_guard_spends_nothing_of_its_client() {
    let clock = clock();
    let server = Server::start(&limiter(api(bucket(1, 5)).ip_guard(bucket(1, 1)), &clock)).await;
    assert_eq!(ask_as(&server, 1).await.remaining(), 4);
    for _ in 0..3 {
        assert_eq!(ask_as(&server, 1).await.status, 429);
    }
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(ask_as(&server, 1).await.remaining(), 4, "one earned, one spent");
}

#[tokio::test]
async fn address_guard_spans_services_and_can_be_disabled() {
    let limits = |limits: Limits| limits.platform(bucket(1, 5));
    for (limits, third) in [
        (limits(Limits::new()).ip_guard(PartialLimit::per_second(1).burst(2)), 429),
        (limits(Limits::new()).without_ip_guard(), 200),
    ] {
        let limiter = limiter(limits, &clock());
        let first = Server::start(&limiter).await;
        let hello = axum::Router::new().fallback(|| async { "other" }).layer(limiter.layer("other"));
        let other = Server::serve(hello).await;
        assert_eq!(ask_as(&first, 1).await.status, 200);
        assert_eq!(ask_as(&other, 2).await.status, 200);
        assert_eq!(ask_as(&first, 3).await.status, third);
    }
}

// Fails with a single global guard that admits the widest limit.
#[tokio::test]
async fn strict_endpoint_guard_is_ten_times_its_own_limit() {
    let api = ServiceLimits::new("api").endpoint("POST /login", bucket(1, 3));
    let limits = Limits::new().platform(bucket(100, 100)).service(api);
    let server = Server::start(&limiter(limits, &clock())).await;
    let login = async |token: usize| {
        server.ask("POST /login", &[("Authorization", &format!("Bearer {token}"))]).await
    };
    for token in 0..30 {
        assert_eq!(login(token).await.status, 200, "{token}: ten times a burst of three");
    }
    let answer = login(30).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""address";q=10;w=1"#));
    // It applies to that endpoint and address only.
    assert_eq!(ask_as(&server, 31).await.status, 200);
    let elsewhere = server.ask_from(Ipv4Addr::new(127, 0, 0, 2), "POST /login", &[]).await;
    assert_eq!(elsewhere.status, 200);
}

#[tokio::test]
async fn configured_guard_applies_unless_limit_is_stricter() {
    // Ten times the limit is wider than the guard, so the guard applies.
    let limits = api(bucket(1, 5)).ip_guard(bucket(1, 60));
    let server = Server::start(&limiter(limits, &clock())).await;
    let mut passed = 0;
    for token in 0..80 {
        passed += usize::from(ask_as(&server, token).await.status == 200);
    }
    assert_eq!(passed, 60);
}
