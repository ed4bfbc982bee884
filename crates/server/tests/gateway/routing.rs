//! Routing: the service of a request, and the choice among its upstreams.

use crate::harness::{Echo, Gateway, Raw, url};
use serde_json::json;

#[tokio::test]
async fn longest_prefix_of_matching_host_wins() {
    let (all, users, admin, other, below) = (
        Echo::named("all").await,
        Echo::named("users").await,
        Echo::named("admin").await,
        Echo::named("other").await,
        Echo::named("below").await,
    );
    let gateway = Gateway::with(&json!({"services": [
        {"id": "all", "host": "a.example", "upstream": url(all.address)},
        {"id": "users", "host": "a.example", "path_prefix": "/users", "upstream": url(users.address)},
        {"id": "admin", "host": "a.example", "path_prefix": "/users/admin", "upstream": url(admin.address)},
        {"id": "other", "host": "b.example", "path_prefix": "/users", "upstream": url(other.address)},
        {"id": "below", "host": "*.c.example", "upstream": url(below.address)},
    ]}))
    .await;
    for (host, target, expected) in [
        ("a.example", "/", Some("all")),
        ("a.example", "/users", Some("users")),
        ("a.example", "/users/", Some("users")),
        ("a.example", "/users/1", Some("users")),
        ("a.example", "/users?x", Some("users")),
        ("a.example", "/usersx", Some("all")),
        ("a.example", "/users/admin/x", Some("admin")),
        ("a.example", "/users/administrators", Some("users")),
        ("A.Example:8080", "/users/1", Some("users")),
        ("a.example.", "/users/1", None),
        ("b.example", "/users", Some("other")),
        ("b.example", "/", None),
        ("x.c.example", "/", Some("below")),
        ("x.y.c.example", "/", Some("below")),
        ("c.example", "/", None),
        ("unknown.example", "/users", None),
    ] {
        let answer = gateway.ask("GET", target, &[("host", host)], "").await;
        match expected {
            Some(name) => {
                assert_eq!((answer.code(), answer.header("x-upstream")), (200, Some(name)), "{host}{target}");
            }
            // A fully qualified name with its final dot may match or not; another service must not match.
            None if host.ends_with('.') => {
                assert!(answer.code() == 404 || answer.header("x-upstream") == Some("users"));
            }
            None => assert_eq!(answer.code(), 404, "{host}{target}"),
        }
    }
    for upstream in [&all, &users, &admin, &other, &below] {
        upstream.take();
    }
}

#[tokio::test]
async fn path_encoding_does_not_bypass_a_prefix() {
    // The upstream may interpret `%2e%2e` or `//`: the service is chosen by the forwarded path.
    let (open, closed) = (Echo::named("open").await, Echo::named("closed").await);
    let gateway = Gateway::with(&json!({"services": [
        {"id": "open", "path_prefix": "/open", "upstream": url(open.address)},
        {"id": "closed", "path_prefix": "/closed", "upstream": url(closed.address)},
    ]}))
    .await;
    for target in [
        "/open/../closed/x",
        "/open/%2e%2e/closed",
        "/open/..%2fclosed",
        "/open//..//closed",
        "/open/./../closed",
    ] {
        let answer = gateway.get(target).await;
        // The chosen service gets the path as sent, under its own limit.
        assert_ne!(answer.header("x-upstream"), Some("closed"), "{target}");
    }
    assert!(closed.take().is_empty());
}

#[tokio::test]
async fn service_without_host_gets_unmatched_requests() {
    let (named, any) = (Echo::named("named").await, Echo::named("any").await);
    let gateway = Gateway::with(&json!({"services": [
        {"id": "any", "upstream": url(any.address)},
        {"id": "named", "host": ["a.example", "b.example"], "upstream": url(named.address)},
    ]}))
    .await;
    for (host, expected) in
        [("a.example", "named"), ("b.example", "named"), ("c.example", "any"), ("", "any")]
    {
        let answer = gateway.ask("GET", "/", &[("host", host)], "").await;
        assert_eq!(answer.header("x-upstream"), Some(expected), "{host}: {answer:?}");
    }
}

#[tokio::test]
async fn requests_are_spread_over_all_upstreams() {
    let upstreams = [Echo::named("one").await, Echo::named("two").await, Echo::named("three").await];
    let urls = upstreams.each_ref().map(|upstream| url(upstream.address));
    let gateway = Gateway::with(&json!({"services": [{"id": "app", "upstream": urls}]})).await;
    let mut client = gateway.connect().await;
    for _ in 0..90 {
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!(client.answer().await.code(), 200);
    }
    let shares = upstreams.each_ref().map(|upstream| upstream.take().len());
    assert!(shares.iter().all(|share| *share >= 5), "{shares:?}");
}

#[tokio::test]
async fn less_loaded_of_two_upstreams_is_chosen() {
    let (busy, free) = (Raw::start().await, Echo::named("free").await);
    let urls = [url(busy.address), url(free.address)];
    let gateway = Gateway::with(&json!({"services": [{"id": "app", "upstream": urls}]})).await;
    // Requests without a response: once one is pending at the busy upstream, the others go to the free one.
    let mut waiting = Vec::new();
    let mut held = Vec::new();
    loop {
        let mut client = gateway.connect().await;
        client.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n").await;
        tokio::select! {
            server = busy.accept() => { held.push((server, client)); break }
            answer = client.answer() => waiting.push(answer),
        }
    }
    for _ in 0..20 {
        assert_eq!(gateway.get("/").await.header("x-upstream"), Some("free"));
    }
}
