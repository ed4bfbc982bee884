//! WebSocket upgrades: where they count as connections, and what a refusal returns.

use crate::support::{HANDSHAKE, Server, TestResponse, bucket, builder, clock, limiter};
use axum::{Extension, Router, routing::get};
use hivemind_tower::{Decision, LimitKind, Limits, ServiceLimits};

fn service() -> ServiceLimits {
    ServiceLimits::new("api").limit(bucket(1, 1)).ws_connection(bucket(1, 1)).close_on_limit()
}

async fn start(limits: Limits) -> Server {
    Server::start(&limiter(limits, &clock())).await
}

async fn upgrade(server: &Server, path: &str, key: &str) -> TestResponse {
    server.ask(&format!("GET {path}"), &[&HANDSHAKE[..], &[("X-API-Key-ID", key)]].concat()).await
}

/// Fails when the header alone makes a request an upgrade: every request would pass.
#[tokio::test]
async fn upgrade_on_undeclared_path_is_an_ordinary_request() {
    let server = start(Limits::new().service(service().websocket("/chat/{room}"))).await;
    for (path, status) in [("/", 200), ("/", 429), ("/chat", 429), ("/chat/a/b", 429), ("/%63hat/a", 429)] {
        assert_eq!(upgrade(&server, path, "a").await.status, status, "{path}");
    }
    assert_eq!(server.calls(), 1);
    let connection = Some(r#""api ws_connection";q=1;w=1"#);
    assert_eq!(upgrade(&server, "/chat/7", "a").await.header("ratelimit-policy"), connection);
    let connect = server.ask("GET /chat/7", &[("X-API-Key-ID", "a")]).await;
    assert_eq!(connect.status, 429, "without the headers it is an ordinary request");
}

/// Fails when only the first line of `Upgrade` is read.
#[tokio::test]
async fn only_complete_handshake_counts_as_upgrade() {
    let server = start(Limits::new().service(service().websocket("/"))).await;
    assert_eq!(server.get("/").await.status, 200);
    for left_out in 0..HANDSHAKE.len() {
        let mut headers = HANDSHAKE.to_vec();
        let (name, _) = headers.remove(left_out);
        assert_eq!(server.ask("GET /", &headers).await.status, 429, "without {name}");
    }
    assert_eq!(server.ask("POST /", &HANDSHAKE).await.status, 429);
    let repeated = [&[("Upgrade", "h2c")], &HANDSHAKE[..]].concat();
    let connection = Some(r#""api ws_connection";q=1;w=1"#);
    assert_eq!(server.ask("GET /", &repeated).await.header("ratelimit-policy"), connection);
}

/// Fails when refusals by the guard are passed on to be closed with 4429.
#[tokio::test]
async fn request_refused_by_guard_does_not_reach_the_handler() {
    let service = || service().websocket("/").ws_connection(bucket(1, 1));
    let server = start(Limits::new().service(service()).ip_guard(bucket(1, 2))).await;
    let statuses = [("a", 200), ("a", 200), ("b", 200), ("c", 429), ("a", 429)];
    for (key, status) in statuses {
        assert_eq!(upgrade(&server, "/", key).await.status, status, "{key}");
    }
    // The same applies to the limit on open connections, which is checked after the guard.
    let limits = Limits::new().service(service().max_open_connections(0)).ip_guard(bucket(1, 2));
    let server = start(limits).await;
    for (key, status) in [("a", 200), ("b", 200), ("c", 429)] {
        assert_eq!(upgrade(&server, "/", key).await.status, status, "{key}");
    }
}

/// Fails when the maximum is reported as a limit per second.
#[tokio::test]
async fn refusal_over_max_open_omits_window_and_reset_headers() {
    let service = ServiceLimits::new("api").websocket("/").max_open_connections(0);
    let server = start(Limits::new().service(service)).await;
    let answer = upgrade(&server, "/", "a").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")));
    for header in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-reset"] {
        assert_eq!(answer.header(header), None, "{header}");
    }
    let problem: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((&problem["limit"], &problem["reset"]), (&0.into(), &serde_json::Value::Null));
}

#[tokio::test]
async fn max_open_connections_apply_while_the_store_fails() {
    let service = ServiceLimits::new("api").websocket("/").max_open_connections(0);
    let store = std::sync::Arc::new(crate::stores::AsyncStore::failing());
    let limiter = builder(Limits::new().service(service), &clock()).store(store, crate::stores::seed());
    let server = Server::start(&limiter.build().unwrap()).await;
    assert_eq!(upgrade(&server, "/", "a").await.status, 429);
}

/// Fails when the debit applies the limit on open connections to the counter of connections.
#[tokio::test]
async fn refusal_over_max_open_is_charged_and_can_be_debited() {
    let service = ServiceLimits::new("api").websocket("/").ws_connection(bucket(1, 9));
    let service = service.max_open_connections(0).close_on_limit();
    let limiter = limiter(Limits::new().service(service), &clock());
    let debit = |Extension(decision): Extension<Decision>| async move {
        assert_eq!(decision.kind(), LimitKind::WsOpen);
        decision.debit(2).await.unwrap().to_string()
    };
    let server = Server::serve(Router::new().route("/", get(debit)).layer(limiter.layer("api"))).await;
    assert_eq!(upgrade(&server, "/", "a").await.body, "6");
}
