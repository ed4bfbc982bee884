//! Reloads: limits and services follow their file atomically; sockets need a restart.

use crate::harness::{Echo, Gateway, Raw, url};
use hivemind_testkit::within;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn service(id: &str, upstream: &Echo, burst: u32) -> Value {
    let limits = json!({"requests": burst, "window": "24h", "burst": burst});
    json!({"id": id, "upstream": url(upstream.address), "limits": limits})
}

fn limit_of(answer: &crate::harness::Message) -> Option<&str> {
    answer.header("x-ratelimit-limit")
}

#[tokio::test]
async fn changed_file_updates_limits_and_services() {
    let (old, new) = (Echo::named("old").await, Echo::named("new").await);
    let mut gateway = Gateway::with(&json!({"services": [service("app", &old, 1_000)]})).await;
    assert_eq!(gateway.get("/").await.header("x-upstream"), Some("old"));
    gateway.rewrite(&json!({"gateway": {"services": [service("app", &new, 2_000)]}}));
    let answer = gateway.until("/", "the file is followed", |answer| limit_of(answer) == Some("2000")).await;
    assert_eq!(answer.header("x-upstream"), Some("new"), "both at once");
}

#[tokio::test]
async fn spent_bucket_stays_spent_after_reload() {
    let upstream = Echo::start().await;
    let mut gateway = Gateway::with(&json!({"services": [service("app", &upstream, 2)]})).await;
    for code in [200, 200, 429] {
        assert_eq!(gateway.get("/").await.code(), code);
    }
    gateway.rewrite(&json!({"gateway": {"services": [service("app", &upstream, 3)]}}));
    assert_eq!(gateway.reload().await.code, 200);
    let refused = gateway.until("/", "the new limit", |answer| limit_of(answer) == Some("3")).await;
    assert_eq!(refused.code(), 429, "a new limit keeps the bucket");
}

#[tokio::test]
async fn admin_request_and_sighup_reload_immediately() {
    let upstream = Echo::start().await;
    let mut gateway = Gateway::with(&json!({"services": [service("app", &upstream, 1_000)]})).await;
    gateway.rewrite(&json!({"gateway": {"services": [service("app", &upstream, 2_000)]}}));
    let page = gateway.reload().await;
    assert_eq!(page.code, 200, "{page:?}");
    assert_eq!(limit_of(&gateway.get("/").await), Some("2000"), "active when the response arrives");
    gateway.rewrite(&json!({"gateway": {"services": [service("app", &upstream, 3_000)]}}));
    gateway.signal("HUP").await;
    gateway.until("/", "the reload by SIGHUP", |answer| limit_of(answer) == Some("3000")).await;
}

#[tokio::test]
async fn invalid_file_changes_nothing_and_is_logged_with_place() {
    let upstream = Echo::start().await;
    let mut gateway = Gateway::with(&json!({"services": [service("app", &upstream, 1_000)]})).await;
    gateway.write("gateway:\n  services:\n  - {id: app, upstream: 'ftp://nowhere'}\n");
    let page = gateway.reload().await;
    assert!((400..600).contains(&page.code), "{page:?}");
    gateway.log.next("hivemind.yaml").await;
    assert_eq!(limit_of(&gateway.get("/").await), Some("1000"));
    gateway.write("gateway: [");
    assert!(gateway.reload().await.code >= 400);
    assert_eq!(limit_of(&gateway.get("/").await), Some("1000"));
    // A valid file is loaded again.
    gateway.rewrite(&json!({"gateway": {"services": [service("app", &upstream, 2_000)]}}));
    assert_eq!(gateway.reload().await.code, 200);
    assert_eq!(limit_of(&gateway.get("/").await), Some("2000"));
}

#[tokio::test]
async fn changed_static_key_is_kept_and_named_in_a_warning() {
    let upstream = Echo::start().await;
    let mut gateway = Gateway::with(&json!({"services": [service("app", &upstream, 1_000)]})).await;
    let listen = gateway.listen;
    let change = json!({"max_headers": 3, "headers": "off", "services": [service("app", &upstream, 2_000)]});
    gateway.rewrite(&json!({"gateway": change}));
    assert_eq!(gateway.reload().await.code, 200);
    let warning = gateway.log.next("max_headers").await;
    assert!(warning.to_lowercase().contains("warn"), "{warning}");
    // The dynamic part of the same file is active, the static one is not.
    let answer = gateway.ask("GET", "/", &[("x-a", "1"), ("x-b", "2"), ("x-c", "3")], "").await;
    assert_eq!((answer.code(), limit_of(&answer)), (200, Some("2000")));
    assert_eq!(gateway.listen, listen);
}

#[tokio::test]
async fn request_in_flight_finishes_with_its_old_configuration() {
    let (old, new) = (Raw::start().await, Echo::named("new").await);
    let mut gateway =
        Gateway::with(&json!({"services": [{"id": "app", "upstream": url(old.address)}]})).await;
    let mut client = gateway.connect().await;
    client.send("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut server = old.accept().await;
    server.request().await.unwrap();
    gateway.rewrite(&json!({"gateway": {"services": [service("other", &new, 5)]}}));
    assert_eq!(gateway.reload().await.code, 200);
    assert_eq!(gateway.get("/").await.header("x-upstream"), Some("new"));
    server.send("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nold").await;
    assert_eq!(client.answer().await.text(), "old");
    // The same connection continues with the new services.
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(client.answer().await.header("x-upstream"), Some("new"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_are_atomic_and_fail_no_request() {
    // Each version has its own limit and upstream: every response must have both of one version.
    let upstreams = [Echo::named("even").await, Echo::named("odd").await];
    let version = |number: usize| {
        let burst = 1_000_000 + u32::try_from(number % 2).unwrap();
        let mut service = service("app", &upstreams[number % 2], burst);
        service["path_prefix"] = json!("/app");
        json!({"services": [service]})
    };
    let mut gateway = Gateway::with(&version(0)).await;
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
        let mut client = gateway.connect().await;
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                client.send("GET /app/x HTTP/1.1\r\nhost: a\r\n\r\n").await;
                let answer = client.answer().await;
                assert_eq!(answer.code(), 200, "{answer:?}");
                let pair = (answer.header("x-upstream").unwrap(), limit_of(&answer).unwrap());
                assert!([("even", "1000000"), ("odd", "1000001")].contains(&pair), "{pair:?}");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for number in 1..=20 {
        if number % 5 == 0 {
            gateway.write("gateway: {services: [{id: app}]}");
            assert!(gateway.reload().await.code >= 400);
        }
        gateway.rewrite(&json!({"gateway": version(number)}));
        assert_eq!(gateway.reload().await.code, 200);
        let before = count.load(Ordering::Relaxed);
        let more = async {
            while count.load(Ordering::Relaxed) < before + 40 {
                tokio::task::yield_now().await;
            }
        };
        within("requests between two reloads", more).await;
    }
    stop.store(true, Ordering::Relaxed);
    within("the clients", clients.join_all()).await;
    for upstream in &upstreams {
        assert!(upstream.take().len() > 100);
    }
}
