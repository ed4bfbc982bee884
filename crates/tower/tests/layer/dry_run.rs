//! Dry run of a limit or of the guard: the other one stays active.

use crate::support::{Server, TestResponse, api, bucket, builder, clock, limiter};
use hivemind_tower::Limits;
use std::sync::{Arc, Mutex};
use std::time::Duration;

async fn start(limits: Limits) -> Server {
    Server::start(&limiter(limits, &clock())).await
}

async fn ask_as(server: &Server, key: &str) -> TestResponse {
    server.ask("GET /", &[("X-API-Key-ID", key)]).await
}

fn policy(answer: &TestResponse) -> (u16, Option<&str>, Option<&str>) {
    (answer.status, answer.header("ratelimit-policy"), answer.header("x-ratelimit-dry-run"))
}

const API: Option<&str> = Some(r#""api";q=1;w=1"#);
const ADDRESS: Option<&str> = Some(r#""address";q=1;w=1"#);

/// Fails when both charges get the mode of the client's limit.
#[tokio::test]
async fn dry_run_limit_keeps_guard_active_and_never_refuses() {
    let server = start(api(bucket(1, 1).dry_run(true)).ip_guard(bucket(1, 2))).await;
    assert_eq!(policy(&ask_as(&server, "a").await), (200, API, None));
    assert_eq!(policy(&ask_as(&server, "a").await), (200, API, Some("refused")));
    assert_eq!(policy(&ask_as(&server, "a").await), (429, ADDRESS, None), "both would refuse");
    assert_eq!(server.calls(), 2);
}

/// Fails when both charges get the same mode.
#[tokio::test]
async fn dry_run_guard_never_refuses_and_keeps_limit_active() {
    let server = start(api(bucket(1, 2)).ip_guard(bucket(1, 1).dry_run(true))).await;
    assert_eq!(policy(&ask_as(&server, "a").await), (200, API, None));
    assert_eq!(policy(&ask_as(&server, "b").await), (200, ADDRESS, Some("refused")));
    assert_eq!(policy(&ask_as(&server, "b").await), (200, ADDRESS, Some("refused")));
    assert_eq!(policy(&ask_as(&server, "b").await), (429, API, None));
}

/// Fails when both charges get the same mode.
#[tokio::test]
async fn request_is_delayed_by_its_limit_despite_dry_run_guard() {
    let held = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&held);
    let limits = api(bucket(1, 3).delay(0)).ip_guard(bucket(1, 1).dry_run(true));
    let limiter = builder(limits, &clock()).sleeper(move |delay| {
        recorded.lock().unwrap().push(delay);
        std::future::ready(())
    });
    let server = Server::start(&limiter.build().unwrap()).await;
    for _ in 0..3 {
        assert_eq!(ask_as(&server, "a").await.status, 200);
    }
    assert_eq!(*held.lock().unwrap(), [1, 2].map(Duration::from_secs));
}
