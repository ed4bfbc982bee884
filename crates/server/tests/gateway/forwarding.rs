//! What the upstream is told of the client, and which host it is asked for.

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
async fn what_an_untrusted_client_forwards_never_arrives() {
    let upstream = Echo::start().await;
    let gateway = gateway(&upstream, json!({"forwarded": "both"}), json!({})).await;
    assert_eq!(gateway.ask("GET", "/", &SPOOFED, "").await.code(), 200);
    let seen = upstream.only();
    assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(seen.header("x-forwarded-proto"), Some("http"));
    assert_eq!(seen.header("x-forwarded-host"), Some("app.example"));
    let forwarded = seen.header("forwarded").unwrap();
    assert!(forwarded.contains("for=127.0.0.1") || forwarded.contains("for=\"127.0.0.1\""), "{forwarded}");
    let all = format!("{:?}", seen.headers);
    assert!(
        !all.contains("203.0.113.66") && !all.contains("198.51.100.66") && !all.contains("evil"),
        "{all}"
    );
}

#[tokio::test]
async fn a_client_that_is_told_of_in_no_header_cannot_name_itself_in_one() {
    let upstream = Echo::start().await;
    for (kind, told) in
        [("off", vec![]), ("x_forwarded", vec!["x-forwarded-for"]), ("forwarded", vec!["forwarded"])]
    {
        let gateway = gateway(&upstream, json!({"forwarded": kind}), json!({})).await;
        gateway.ask("GET", "/", &SPOOFED, "").await;
        let seen = upstream.only();
        for name in ["x-forwarded-for", "forwarded"] {
            assert_eq!(seen.header(name).is_some(), told.contains(&name), "{kind}: {name}");
        }
        assert!(!format!("{:?}", seen.headers).contains("203.0.113.66"), "{kind}: {seen:?}");
    }
}

#[tokio::test]
async fn what_a_trusted_proxy_forwards_is_kept_and_added_to() {
    let upstream = Echo::start().await;
    let front = json!({"client_ip": {"trusted_proxies": ["127.0.0.0/8"], "header": "x-forwarded-for"}});
    let gateway = gateway(&upstream, json!({}), front).await;
    let headers = [
        ("x-forwarded-for", "203.0.113.7, 198.51.100.3"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "www.example"),
    ];
    gateway.ask("GET", "/", &headers, "").await;
    let seen = upstream.only();
    assert_eq!(seen.header("x-forwarded-for"), Some("203.0.113.7, 198.51.100.3, 127.0.0.1"));
    assert_eq!(seen.header("x-forwarded-proto"), Some("https"));
}

#[tokio::test]
async fn an_address_of_ipv6_is_forwarded_as_each_header_wants_it() {
    let upstream = Echo::start().await;
    let front = json!({"listen": "[::1]:0"});
    let gateway = gateway(&upstream, json!({"forwarded": "both"}), front).await;
    assert_eq!(gateway.get("/").await.code(), 200);
    let seen = upstream.only();
    assert_eq!(seen.header("x-forwarded-for"), Some("::1"));
    assert!(seen.header("forwarded").unwrap().contains("for=\"[::1]\""), "{seen:?}");
}

#[tokio::test]
async fn the_host_is_kept_or_set_as_configured() {
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
    assert_eq!(upstream.only().header("host"), Some("app.example"), "kept unless something else is said");
}

#[tokio::test]
async fn a_target_in_its_absolute_form_goes_by_its_own_host() {
    let upstream = Echo::start().await;
    let gateway = gateway(&upstream, json!({}), json!({})).await;
    let answer = gateway.ask("GET", "http://real.example/path?q", &[("host", "other.example")], "").await;
    assert_eq!(answer.code(), 200);
    let seen = upstream.only();
    assert_eq!((seen.target.as_str(), seen.header("host")), ("/path?q", Some("real.example")));
}

#[tokio::test]
async fn a_prefix_is_taken_off_where_that_is_asked_for() {
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
