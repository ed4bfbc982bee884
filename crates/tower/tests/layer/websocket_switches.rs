//! Counting of WebSocket connections and messages, at declared paths or anywhere.

use crate::support::{HANDSHAKE, Server, TestResponse, bucket, clock, limiter};
use axum::Router;
use axum::routing::any;
use axum::{Extension, http::StatusCode};
use hivemind_tower::websocket::ConnectionGuard;
use hivemind_tower::{LimitKind, Limits, RateLimiter, ServiceLimits};

fn api() -> ServiceLimits {
    ServiceLimits::new("api").limit(bucket(1, 50)).ws_connection(bucket(1, 5)).websocket_anywhere()
}

/// A server whose handler reports whether it got a guard, and whether messages are counted.
async fn start(service: ServiceLimits) -> Server {
    let limiter = limiter(Limits::new().service(service), &clock());
    let handler = |guard: Option<Extension<ConnectionGuard>>| async move {
        let Some(Extension(guard)) = guard else { return (StatusCode::OK, "no guard") };
        match guard.open() {
            Ok(messages) if messages.is_counting() => (StatusCode::OK, "counting"),
            Ok(mut messages) => {
                let all_pass = (0..1_000).all(|_| messages.check().is_ok());
                (StatusCode::OK, if all_pass { "not counting" } else { "refused" })
            }
            Err(_) => (StatusCode::OK, "closed"),
        }
    };
    Server::serve(Router::new().fallback(any(handler)).layer(limiter.layer("api"))).await
}

async fn upgrade(server: &Server, path: &str) -> TestResponse {
    server.ask(&format!("GET {path}"), &HANDSHAKE).await
}

#[tokio::test]
async fn websocket_anywhere_covers_all_paths() {
    let server = start(api()).await;
    for (path, left) in [("/", 4), ("/live/1", 3)] {
        let answer = upgrade(&server, path).await;
        assert_eq!((answer.remaining(), answer.body.as_str()), (left, "counting"));
    }
    assert_eq!(server.get("/").await.body, "no guard");
}

// Fails when every upgrade is charged as a connection.
#[tokio::test]
async fn websocket_anywhere_does_not_bypass_stricter_limit() {
    let server = start(api().named_endpoint("export", ["GET"], "/export", bucket(1, 1))).await;
    assert_eq!(upgrade(&server, "/export").await.status, 200);
    assert_eq!(upgrade(&server, "/export").await.status, 429);
    assert_eq!(server.get("/export").await.status, 429, "the same bucket");
    let wide = start(api().named_endpoint("feed", ["GET"], "/feed", bucket(1_000, 1_000))).await;
    assert_eq!(upgrade(&wide, "/feed").await.remaining(), 4, "the stricter connection limit applies");
}

// Fails when uncounted connections are charged to the connection limit.
#[tokio::test]
async fn uncounted_connections_are_charged_as_requests() {
    let server = start(api().count_ws_connections(false)).await;
    let answer = upgrade(&server, "/").await;
    assert_eq!((answer.remaining(), answer.body.as_str()), (49, "counting"));
    assert_eq!(server.get("/").await.remaining(), 48);
}

#[tokio::test]
async fn uncounted_messages_pass_and_limiter_is_not_counting() {
    let server = start(api().count_ws_messages(false)).await;
    assert_eq!(upgrade(&server, "/").await.body, "not counting");
}

// Fails when open connections are counted under the limit that the upgrade is charged to.
#[tokio::test]
async fn open_connections_share_a_count_across_limits() {
    let service = api().named_endpoint("slow", ["GET"], "/slow", bucket(1, 1)).max_open_connections(1);
    let limiter = limiter(Limits::new().service(service), &clock());
    let held = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = move |Extension(guard): Extension<ConnectionGuard>| {
        held.lock().unwrap().extend(guard.open());
        async { "open" }
    };
    let server = Server::serve(Router::new().fallback(any(keep)).layer(limiter.layer("api"))).await;
    assert_eq!(upgrade(&server, "/").await.status, 200);
    assert_eq!(upgrade(&server, "/slow").await.status, 429);
}

#[test]
fn service_overrides_websocket_counting_of_platform() {
    let off = Limits::new().count_ws_connections(false).count_ws_messages(false);
    let has = |limits: Limits, kind| {
        let all = RateLimiter::new(limits).unwrap().effective_limits();
        all.iter().any(|limit| limit.kind == kind && limit.service.is_some())
    };
    for kind in [LimitKind::WsConnection, LimitKind::WsMessage] {
        assert!(!has(off.clone().service(ServiceLimits::new("api")), kind));
        let on = ServiceLimits::new("api").count_ws_connections(true).count_ws_messages(true);
        assert!(has(off.clone().service(on), kind));
    }
}
