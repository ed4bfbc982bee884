//! Limits of a request: inheritance, endpoints, scopes and the bucket that is charged.

use crate::support::{Server, api, bucket, clock, limiter};
use hivemind_tower::error::{LimiterError, LimitsError};
use hivemind_tower::{Algorithm, LimitKind, Limits, PartialLimit, RateLimiter, ServiceLimits};
use std::net::Ipv4Addr;
use std::time::Duration;

fn first(limits: Limits, kind: LimitKind, endpoint: &str) -> hivemind_core::Limit {
    let limiter = RateLimiter::new(limits).unwrap();
    let all = limiter.effective_limits();
    all.iter()
        .find(|limit| limit.kind == kind && limit.endpoint == endpoint && limit.service.is_some())
        .unwrap()
        .limit
}

#[test]
fn limit_fields_inherit_from_endpoint_service_and_platform() {
    let service = ServiceLimits::new("shop")
        .limit(PartialLimit::new().requests(50))
        .endpoint("/login", PartialLimit::new().burst(3).algorithm(Algorithm::TokenBucket));
    let limits = Limits::new().platform(PartialLimit::new().window(Duration::from_secs(30))).service(service);
    let login = first(limits.clone(), LimitKind::Http, "/login");
    assert_eq!((login.requests(), login.period().length().as_secs(), login.burst()), (50, 30, 3));
    let rest = first(limits.clone(), LimitKind::Http, "*");
    assert_eq!((rest.requests(), rest.period().length().as_secs(), rest.burst()), (50, 30, 100));
    let connection = first(limits.clone(), LimitKind::WsConnection, "*");
    assert_eq!(
        (connection.requests(), connection.period().length().as_secs(), connection.burst()),
        (10, 60, 5)
    );
    let message = first(limits, LimitKind::WsMessage, "*");
    assert_eq!((message.requests(), message.period().length().as_secs(), message.burst()), (100, 1, 50));
}

#[test]
fn limits_are_capped_and_listed_with_configured_values() {
    let service = ServiceLimits::new("shop")
        .limit(PartialLimit::new().requests(5_000))
        .endpoint("/all", PartialLimit::new().requests(9_000).algorithm(Algorithm::SlidingWindow));
    let limits = Limits::new().max_requests(50).max_burst(20).service(service);
    let effective = RateLimiter::new(limits).unwrap().effective_limits();
    for limit in effective.iter().filter(|limit| limit.kind != LimitKind::IpGuard) {
        assert!(limit.limit.requests() <= 50, "{limit:?}");
        assert!(!matches!(limit.limit, hivemind_core::Limit::TokenBucket(_)) || limit.limit.burst() <= 20);
    }
    let all = effective.iter().find(|limit| limit.endpoint == "/all").unwrap();
    assert_eq!((all.configured.requests(), all.limit.requests(), all.is_capped()), (9_000, 50, true));
    let connection = effective.iter().find(|limit| limit.kind == LimitKind::WsConnection).unwrap();
    assert!(!connection.is_capped(), "10 per 60 s and 5 at once are within it");
}

#[tokio::test]
async fn endpoint_matches_method_and_path_and_has_own_bucket() {
    let service = ServiceLimits::new("api")
        .limit(bucket(1, 50))
        .endpoint("POST /login", bucket(1, 1))
        .endpoint("/users/{id}", bucket(1, 2))
        .endpoint("GET /users/me", bucket(1, 3));
    let server = Server::start(&limiter(Limits::new().service(service), &clock())).await;
    for (request, left) in [
        ("POST /login", 0),
        ("GET /login", 49),
        ("GET /", 48),
        ("GET /users/7", 1),
        ("POST /users/8", 0),
        ("GET /users/me", 2),
        ("GET /users/me?x=1", 1),
    ] {
        let answer = server.ask(request, &[]).await;
        assert_eq!((answer.status, answer.remaining()), (200, left), "{request}");
    }
    // An encoded letter does not bypass the endpoint.
    assert_eq!(server.ask("POST /%6Cogin", &[]).await.status, 429);
    let refused = server.ask("POST /login", &[]).await;
    assert_eq!(refused.header("ratelimit-policy"), Some(r#""api POST /login";q=1;w=1"#));
}

#[tokio::test]
async fn each_client_and_service_has_its_own_bucket() {
    let limiter = limiter(Limits::new().platform(bucket(1, 1)), &clock());
    let server = Server::start(&limiter).await;
    let other = axum::Router::new().fallback(|| async { "other" }).layer(limiter.layer("other"));
    let other = Server::serve(other).await;
    assert_eq!(server.statuses(2, "/").await, [200, 429]);
    assert_eq!(other.statuses(2, "/").await, [200, 429]);
    for (name, value) in [
        ("X-API-Key-ID", "a"),
        ("X-API-Key-ID", "b"),
        ("X-Session-ID", "a"),
        ("Cookie", "hivemind_session=b"),
    ] {
        assert_eq!(server.ask("GET /", &[(name, value)]).await.status, 200, "{name}: {value}");
        assert_eq!(server.ask("GET /", &[(name, value)]).await.status, 429, "{name}: {value}");
    }
    assert_eq!(server.ask_from(Ipv4Addr::new(127, 0, 0, 3), "GET /", &[]).await.status, 200);
}

/// Fails when the key of the global bucket contains the service.
#[tokio::test]
async fn global_scope_shares_one_bucket_over_all_services() {
    let limiter = limiter(Limits::new().platform(bucket(1, 2)).global_scope(), &clock());
    let server = Server::start(&limiter).await;
    let other = axum::Router::new().fallback(|| async { "other" }).layer(limiter.layer("other"));
    let other = Server::serve(other).await;
    assert_eq!(server.get("/").await.status, 200);
    assert_eq!(other.get("/").await.status, 200);
    assert_eq!(server.get("/").await.status, 429);
}

#[tokio::test]
async fn each_level_can_set_its_own_algorithm() {
    let clock = clock();
    let window = PartialLimit::new().requests(2).window(Duration::from_secs(60));
    let service = ServiceLimits::new("api")
        .limit(window.algorithm(Algorithm::FixedWindow))
        .endpoint("/bucket", window.burst(2).algorithm(Algorithm::TokenBucket));
    let server = Server::start(&limiter(Limits::new().service(service), &clock)).await;
    assert_eq!(server.statuses(3, "/").await, [200, 200, 429]);
    assert_eq!(server.statuses(3, "/bucket").await, [200, 200, 429]);
    clock.advance(Duration::from_secs(30));
    assert_eq!(server.statuses(1, "/").await, [429], "a window keeps its count until it ends");
    assert_eq!(server.statuses(2, "/bucket").await, [200, 429], "the bucket has earned one token");
    clock.advance(Duration::from_secs(30));
    assert_eq!(server.statuses(3, "/").await, [200, 200, 429]);
}

#[test]
fn invalid_limits_errors_name_place_and_remedy() {
    let shop = || ServiceLimits::new("shop");
    let with = |service| Limits::new().service(service);
    let zero = PartialLimit::new().requests(0);
    for (limits, place, remedy) in [
        (with(shop().limit(zero)), "`shop` *", "use a window limit of 0"),
        (with(shop().endpoint("/a", PartialLimit::new().burst(0))), "`shop` /a", "at least 1"),
        (Limits::new().platform(PartialLimit::new().window(Duration::ZERO)), "the platform", "longer than 0"),
        (with(ServiceLimits::new("a b")), "`a b`", "1 to 64 ASCII"),
        (with(shop().endpoint("login", bucket(1, 1))), "`login` of `shop`", "`POST /login`"),
        (with(shop().endpoint("post /login", bucket(1, 1))), "`post /login`", "in capitals"),
        (with(shop().endpoint("/a\"b", bucket(1, 1))), "of `shop`", "quotes"),
        (with(shop().endpoint("/{a}", bucket(1, 1)).endpoint("/{b}", bucket(1, 1))), "`/{b}`", "onflict"),
        (with(shop().limit(bucket(1, 1))).global_scope(), "`shop`", "leave out"),
        (with(shop().ws_message(bucket(1, 1).delay(0))), "`shop` * (ws_message)", "leave out `delay`"),
        (Limits::new().ip_guard(bucket(1, 1).delay(0)), "the platform (ip_guard)", "leave out `delay`"),
        (with(shop().websocket("GET /chat")), "`GET /chat` of `shop`", "without a method"),
        (with(shop().websocket("/{a}").websocket("/{b}")), "`/{b}`", "onflict"),
        (api(PartialLimit::new().delay(0).algorithm(Algorithm::FixedWindow)), "`api` *", "leave out `delay`"),
    ] {
        let error = RateLimiter::new(limits).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(remedy), "{error}");
    }
    let long = "x".repeat(65);
    let Err(LimiterError::Limits(LimitsError::ServiceName { name })) =
        RateLimiter::new(with(ServiceLimits::new(&long)))
    else {
        panic!("a name of 65 letters names a service")
    };
    assert_eq!(name, long[..64], "and is cut to 64 characters");
    assert!(RateLimiter::new(with(ServiceLimits::new(name))).is_ok());
}
