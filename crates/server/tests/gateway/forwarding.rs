//! Forwarding headers and the host of the request to the upstream.

use crate::harness::{Echo, Gateway, url};
use serde_json::{Value, json};

async fn gateway(upstream: &Echo, service: Value, front: Value) -> Gateway {
    let mut settings = json!({"services": [{"id": "app", "upstream": url(upstream.address)}]});
    for (key, value) in service.as_object().unwrap() {
        settings["services"][0][key] = value.clone();
    }
    for (key, value) in front.as_object().unwrap() {
        settings[key] = value.clone();
    }
    Gateway::with(&settings).await
}

const SPOOFED: [(&str, &str); 6] = [
    ("x-forwarded-for", "203.0.113.66"),
    ("X-Forwarded-For", "198.51.100.66"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "evil.example"),
    ("forwarded", "for=203.0.113.66;host=evil.example;proto=https"),
    ("x-real-ip", "203.0.113.66"),
];

#[tokio::test]
async fn untrusted_forwarding_headers_are_dropped() {
    let upstream = Echo::start().await;
    let gateway = gateway(&upstream, json!({"forwarded": "both"}), json!({})).await;
    assert_eq!(gateway.ask("GET", "/", &SPOOFED, "").await.code(), 200);
    let received = upstream.only();
    assert_eq!(received.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(received.header("x-forwarded-proto"), Some("http"));
    assert_eq!(received.header("x-forwarded-host"), Some("app.example"));
    let forwarded = received.header("forwarded").unwrap();
    assert!(forwarded.contains("for=127.0.0.1") || forwarded.contains("for=\"127.0.0.1\""), "{forwarded}");
    let all = format!("{:?}", received.headers);
    assert!(
        !all.contains("203.0.113.66") && !all.contains("198.51.100.66") && !all.contains("evil"),
        "{all}"
    );
}

#[tokio::test]
async fn override_headers_reach_the_upstream_only_if_kept() {
    let upstream = Echo::start().await;
    let names = ["x-http-method-override", "x-original-url", "x-rewrite-url", "true-client-ip", "proxy"];
    let sent = names.map(|name| (name, "/admin"));
    let trusted = json!({"client_ip": {"trusted_proxies": ["127.0.0.0/8"]}});
    for (front, are_kept) in
        [(json!({}), false), (json!({"override_headers": "keep"}), true), (trusted, true)]
    {
        let gateway = gateway(&upstream, json!({}), front).await;
        assert_eq!(gateway.ask("GET", "/", &sent, "").await.code(), 200);
        let received = upstream.only();
        for name in names {
            assert_eq!(received.header(name).is_some(), are_kept, "{name}");
        }
    }
}

#[tokio::test]
async fn disabled_forwarding_headers_are_removed_from_requests() {
    let upstream = Echo::start().await;
    for (kind, expected_headers) in
        [("off", vec![]), ("x_forwarded", vec!["x-forwarded-for"]), ("forwarded", vec!["forwarded"])]
    {
        let gateway = gateway(&upstream, json!({"forwarded": kind}), json!({})).await;
        gateway.ask("GET", "/", &SPOOFED, "").await;
        let received = upstream.only();
        for name in ["x-forwarded-for", "forwarded"] {
            assert_eq!(received.header(name).is_some(), expected_headers.contains(&name), "{kind}: {name}");
        }
        assert!(!format!("{:?}", received.headers).contains("203.0.113.66"), "{kind}: {received:?}");
    }
}

#[tokio::test]
async fn trusted_forwarding_headers_are_extended() {
    let upstream = Echo::start().await;
    let front = json!({"client_ip": {"trusted_proxies": ["127.0.0.0/8"], "header": "x-forwarded-for"}});
    let gateway = gateway(&upstream, json!({}), front).await;
    let headers = [
        ("x-forwarded-for", "203.0.113.7, 198.51.100.3"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "www.example"),
    ];
    gateway.ask("GET", "/", &headers, "").await;
    let received = upstream.only();
    assert_eq!(received.header("x-forwarded-for"), Some("203.0.113.7, 198.51.100.3, 127.0.0.1"));
    assert_eq!(received.header("x-forwarded-proto"), Some("https"));
}

#[tokio::test]
async fn ipv6_client_is_forwarded_in_each_headers_syntax() {
    let upstream = Echo::start().await;
    let front = json!({"listen": "[::1]:0"});
    let gateway = gateway(&upstream, json!({"forwarded": "both"}), front).await;
    assert_eq!(gateway.get("/").await.code(), 200);
    let received = upstream.only();
    assert_eq!(received.header("x-forwarded-for"), Some("::1"));
    assert!(received.header("forwarded").unwrap().contains("for=\"[::1]\""), "{received:?}");
}

#[tokio::test]
async fn host_is_kept_or_replaced_as_configured() {
    let upstream = Echo::start().await;
    let own = upstream.address.to_string();
    for (setting, expected) in [
        (json!("keep"), "app.example"),
        (json!("upstream"), own.as_str()),
        (json!("set.example"), "set.example"),
    ] {
        let gateway = gateway(&upstream, json!({"host_header": setting}), json!({})).await;
        gateway.get("/").await;
        assert_eq!(upstream.only().header("host"), Some(expected));
    }
    let plain = gateway(&upstream, json!({}), json!({})).await;
    plain.get("/").await;
    assert_eq!(upstream.only().header("host"), Some("app.example"), "kept by default");
}

#[tokio::test]
async fn absolute_form_target_determines_the_host() {
    let upstream = Echo::start().await;
    let gateway = gateway(&upstream, json!({}), json!({})).await;
    let answer = gateway.ask("GET", "http://real.example/path?q", &[("host", "other.example")], "").await;
    assert_eq!(answer.code(), 200);
    let received = upstream.only();
    assert_eq!((received.target.as_str(), received.header("host")), ("/path?q", Some("real.example")));
}

#[tokio::test]
async fn path_prefix_is_stripped_if_configured() {
    let upstream = Echo::start().await;
    let taken = gateway(&upstream, json!({"path_prefix": "/app", "strip_prefix": true}), json!({})).await;
    for (target, expected) in
        [("/app", "/"), ("/app/", "/"), ("/app/x?y=/app", "/x?y=/app"), ("/app?q", "/?q"), ("/app//x", "//x")]
    {
        assert_eq!(taken.get(target).await.code(), 200, "{target}");
        assert_eq!(upstream.only().target, expected, "{target}");
    }
    let kept = gateway(&upstream, json!({"path_prefix": "/app"}), json!({})).await;
    kept.get("/app/x").await;
    assert_eq!(upstream.only().target, "/app/x");
}
