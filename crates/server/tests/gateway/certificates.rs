//! Certificate reloads: what a reload reports, and where errors are reported.

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

async fn served_certificate(authority: &Authority, gateway: &Gateway, name: &str) -> Vec<u8> {
    tls_client(authority, gateway.listen, name, &[]).await.unwrap().1
}

// Seen failing on: certificates with a watcher of their own, which neither a reload nor readiness covers.
#[tokio::test]
async fn reload_reads_certificates_and_reports_errors_until_fixed() {
    let (authority, upstream) = (Authority::new(), Echo::start().await);
    let mut gateway = gateway(&authority, &upstream).await;
    assert_eq!(gateway.readiness().await, "ready\n");
    assert_eq!(gateway.metric("hivemind_certificate_errors").await, Some(0));
    assert!(gateway.metric("hivemind_certificate_expiry_seconds").await > Some(1_800_000_000));
    let (old_a, old_b) = (
        served_certificate(&authority, &gateway, "a.example").await,
        served_certificate(&authority, &gateway, "b.example").await,
    );
    authority.issue_to(authority.folder(), "a", &["a.example"]);
    fs::write(authority.folder().join("b.pem"), "no certificate").unwrap();
    let page = gateway.reload().await;
    assert_eq!(page.code, 422, "{page:?}");
    let report: Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!(report["certificates"]["loaded"], false, "{report}");
    assert_eq!(report["configuration"]["loaded"], true, "{report}");
    let errors = report["certificates"]["errors"].as_str().unwrap();
    assert!(errors.contains("b.pem: has no certificate; write the chain"), "{errors}");
    // The other certificate is renewed, and active when the response arrives.
    assert_ne!(served_certificate(&authority, &gateway, "a.example").await, old_a);
    assert_eq!(served_certificate(&authority, &gateway, "b.example").await, old_b);
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
    assert_ne!(served_certificate(&authority, &gateway, "b.example").await, old_b);
}

// Seen failing on: SIGHUP that reloads only the configuration.
#[tokio::test]
async fn sighup_reloads_certificates_and_broken_ones_allow_the_start() {
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
    served_certificate(&authority, &gateway, "b.example").await;
    assert!(tls_client(&authority, gateway.listen, "a.example", &[]).await.is_err());
    issue("a");
    gateway.signal("HUP").await;
    gateway.log.next("new certificates are active").await;
    served_certificate(&authority, &gateway, "a.example").await;
}

// Seen failing on: a CA that is read once, when its upstream is first named.
#[tokio::test]
async fn upstream_ca_is_reloaded_from_its_file() {
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
    assert_eq!(gateway.get("/").await.code(), 200, "the previous CA stays active");
}
