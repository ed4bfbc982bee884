//! Certificates as an operator sees them: what a reload says of them, and where trouble shows.

use crate::harness::{Authority, Echo, Gateway, Nginx, tls_client, url};
use serde_json::{Value, json};
use std::fs;

async fn gateway(authority: &Authority, upstream: &Echo) -> Gateway {
    let issue = |stem: &str| authority.issue_to(authority.folder(), stem, &[&format!("{stem}.example")]);
    Gateway::with(&json!({
        "tls": {"certificates": [issue("a"), issue("b")]},
        "services": [{"id": "app", "upstream": url(upstream.address)}],
    }))
    .await
}

async fn shown(authority: &Authority, gateway: &Gateway, name: &str) -> Vec<u8> {
    tls_client(authority, gateway.listen, name, &[]).await.unwrap().1
}

// Seen failing on: certificates with a follower of their own, which no reload asks and nothing else tells of.
#[tokio::test]
async fn a_reload_reads_certificates_too_and_trouble_shows_everywhere_until_it_is_mended() {
    let (authority, upstream) = (Authority::new(), Echo::start().await);
    let mut gateway = gateway(&authority, &upstream).await;
    assert_eq!(gateway.readiness().await, "ready\n");
    assert_eq!(gateway.metric("hivemind_certificate_errors").await, Some(0));
    assert!(gateway.metric("hivemind_certificate_expiry_seconds").await > Some(1_800_000_000));
    let (old_a, old_b) =
        (shown(&authority, &gateway, "a.example").await, shown(&authority, &gateway, "b.example").await);
    authority.issue_to(authority.folder(), "a", &["a.example"]);
    fs::write(authority.folder().join("b.pem"), "no certificate").unwrap();
    let page = gateway.reload().await;
    assert_eq!(page.code, 422, "{page:?}");
    let told: Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!(told["certificates"]["loaded"], false, "{told}");
    assert_eq!(told["configuration"]["loaded"], true, "{told}");
    let errors = told["certificates"]["errors"].as_str().unwrap();
    assert!(errors.contains("b.pem: has no certificate; give the chain"), "{errors}");
    // The other one is renewed, and in force when the answer is there.
    assert_ne!(shown(&authority, &gateway, "a.example").await, old_a);
    assert_eq!(shown(&authority, &gateway, "b.example").await, old_b);
    let ready = gateway.readiness().await;
    assert!(ready.starts_with("ready\n") && ready.contains("b.pem: has no certificate"), "{ready}");
    assert_eq!(gateway.metric("hivemind_certificate_errors").await, Some(1));
    let line = gateway.log.next("b.pem: has no certificate").await;
    assert!(line.contains("ERROR"), "{line}");
    authority.issue_to(authority.folder(), "b", &["b.example"]);
    let page = gateway.reload().await;
    assert_eq!(page.code, 200, "{page:?}");
    assert_eq!(gateway.readiness().await, "ready\n");
    assert_eq!(gateway.metric("hivemind_certificate_errors").await, Some(0));
    assert_ne!(shown(&authority, &gateway, "b.example").await, old_b);
}

// Seen failing on: a hangup that only the configuration hears.
#[tokio::test]
async fn a_hangup_reads_certificates_and_a_broken_one_does_not_prevent_the_start() {
    let (authority, upstream) = (Authority::new(), Echo::start().await);
    let issue = |stem: &str| authority.issue_to(authority.folder(), stem, &[&format!("{stem}.example")]);
    let certificates = [issue("a"), issue("b")];
    fs::remove_file(authority.folder().join("a.key")).unwrap();
    let mut gateway = Gateway::with(&json!({
        "tls": {"certificates": certificates},
        "services": [{"id": "app", "upstream": url(upstream.address)}],
    }))
    .await;
    let line = gateway.log.next("a.key: cannot be read").await;
    assert!(line.contains("ERROR") && line.contains("check that the file exists"), "{line}");
    assert!(gateway.readiness().await.contains("a.key: cannot be read"));
    shown(&authority, &gateway, "b.example").await;
    assert!(tls_client(&authority, gateway.listen, "a.example", &[]).await.is_err());
    issue("a");
    gateway.signal("HUP").await;
    gateway.log.next("new certificates are active").await;
    shown(&authority, &gateway, "a.example").await;
}

// Seen failing on: a CA that is read when its upstream is first named, and never again.
#[tokio::test]
async fn an_upstreams_ca_follows_its_file() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    theirs.issue_to(theirs.folder(), "up", &["localhost"]);
    let nginx = Nginx::start(&format!(
        "server {{ listen 127.0.0.1:PORT0 ssl; ssl_certificate {0}/up.pem; ssl_certificate_key {0}/up.key;
          location / {{ return 200 up; }} }}",
        theirs.folder().display()
    ))
    .await;
    let upstream = format!("https://localhost:{}", nginx.listen[0].port());
    let service = json!({"id": "app", "upstream": upstream, "upstream_ca": ours.file()});
    let gateway = Gateway::with(&json!({"services": [service]})).await;
    assert_eq!(gateway.get("/").await.code(), 502);
    let next = ours.folder().join("next");
    fs::copy(theirs.file(), &next).unwrap();
    fs::rename(next, ours.file()).unwrap();
    gateway.until("/", "the CA is followed", |answer| answer.code() == 200).await;
    fs::write(ours.file(), "no certificate").unwrap();
    let page = gateway.reload().await;
    assert!(page.code == 422 && page.body.contains("ca.pem: has no certificate"), "{page:?}");
    assert_eq!(gateway.get("/").await.code(), 200, "what was in force stays");
}
