//! TLS for clients: certificates by name, ALPN, redirects, and replaced files.

use crate::harness::{Authority, Echo, Gateway, Setup, run, tls_client, url};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

async fn gateway(authority: &Authority, upstream: &Echo, tls: Value) -> Gateway {
    let mut settings = json!({
        "tls": {"certificates": [authority.issue_to(authority.folder(), "first", &["first.example", "*.wild.example"])]},
        "services": [{"id": "app", "upstream": url(upstream.address)}],
    });
    for (key, value) in tls.as_object().unwrap() {
        settings["tls"][key] = value.clone();
    }
    Gateway::with(&settings).await
}

/// Runs curl, which trusts the CA and resolves a name to the gateway's address.
async fn curl(authority: &Authority, gateway: &Gateway, name: &str, more: &[&str]) -> String {
    let port = gateway.listen.port();
    let (ca, address) = (authority.file(), format!("https://{name}:{port}/secret"));
    let resolve = format!("{name}:{port}:127.0.0.1");
    let format = "\\n%{http_version} %{http_code}";
    let always = ["-sS", "--cacert", ca.to_str().unwrap(), "--resolve", &resolve, "-w", format, &address];
    run("curl", &[more, &always[..]].concat()).await
}

#[tokio::test]
async fn curl_over_tls_selects_http_version_by_alpn() {
    let (authority, upstream) = (Authority::new(), Echo::start().await);
    let gateway = gateway(&authority, &upstream, json!({})).await;
    for (option, version) in [("--http2", "2"), ("--http1.1", "1.1"), ("--no-alpn", "1.1")] {
        let output = curl(&authority, &gateway, "first.example", &[option]).await;
        assert_eq!(output, format!("GET /secret \n{version} 200"), "{option}");
        let received = upstream.only();
        assert_eq!(received.header("x-forwarded-proto"), Some("https"));
        assert_eq!(received.header("x-forwarded-for"), Some("127.0.0.1"));
    }
}

#[tokio::test]
async fn certificate_is_selected_by_server_name() {
    let (authority, upstream) = (Authority::new(), Echo::start().await);
    let second = authority.issue_to(authority.folder(), "second", &["second.example"]);
    let first =
        authority.issue_to(authority.folder(), "named", &["first.example", "*.wild.example", "127.0.0.1"]);
    let gateway = gateway(&authority, &upstream, json!({"certificates": [first, second]})).await;
    for name in ["first.example", "second.example", "SECOND.example", "any.wild.example", "127.0.0.1"] {
        let (mut wire, _) = tls_client(&authority, gateway.listen, name, &["http/1.1"]).await.expect(name);
        wire.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!(wire.answer().await.code(), 200, "{name}");
    }
    // An unknown name gets the first certificate, which does not match it, and the client rejects it.
    assert!(tls_client(&authority, gateway.listen, "unknown.example", &["http/1.1"]).await.is_err());
}

#[tokio::test]
async fn tls_version_below_configured_minimum_is_refused() {
    let (authority, upstream) = (Authority::new(), Echo::start().await);
    let gateway = gateway(&authority, &upstream, json!({"min_version": "1.3"})).await;
    let new = curl(&authority, &gateway, "first.example", &["--tlsv1.3"]).await;
    assert!(new.ends_with("200"), "{new}");
    let old = curl_fails(&authority, &gateway, "first.example").await;
    assert!(old.contains("alert") || old.contains("handshake") || old.contains("version"), "{old}");
}

/// Runs curl with TLS 1.2 at most, which must fail.
async fn curl_fails(authority: &Authority, gateway: &Gateway, name: &str) -> String {
    let port = gateway.listen.port();
    let script = format!(
        "curl -sS --tls-max 1.2 --cacert {} --resolve {name}:{port}:127.0.0.1 https://{name}:{port}/ 2>&1 && echo SUCCEEDED || true",
        authority.file().display()
    );
    let output = run("sh", &["-c", &script]).await;
    assert!(!output.contains("SUCCEEDED"), "{output}");
    output
}

#[tokio::test]
async fn plain_http_redirects_to_https_with_full_target() {
    let (authority, upstream) = (Authority::new(), Echo::start().await);
    let gateway = gateway(&authority, &upstream, json!({"redirect_from": "127.0.0.1:0"})).await;
    let redirect = gateway.redirect.expect("the redirect listener in the banner");
    let port = gateway.listen.port();
    for (method, code) in [("GET", 301..=308), ("POST", 307..=308)] {
        let mut wire = crate::harness::Wire::to(redirect).await;
        let text = crate::harness::request(method, "/a/b?c=d", &[("host", "first.example:80")], "");
        wire.send(text).await;
        let answer = wire.answer().await;
        assert!(code.contains(&answer.code()), "{answer:?}");
        let location = answer.header("location").unwrap();
        assert!(
            location == format!("https://first.example:{port}/a/b?c=d")
                || location == "https://first.example/a/b?c=d",
            "{location}"
        );
    }
    // A host that could inject a header is rejected.
    let mut wire = crate::harness::Wire::to(redirect).await;
    wire.send("GET / HTTP/1.1\r\nhost: a\"<>\\ evil\r\n\r\n").await;
    let answer = wire.answer().await;
    assert!(
        answer.code() >= 400 || !answer.header("location").unwrap().contains(['"', '<', ' ']),
        "{answer:?}"
    );
    assert!(upstream.take().is_empty());
}

#[tokio::test]
async fn stalled_tls_handshake_times_out() {
    let (authority, upstream) = (Authority::new(), Echo::start().await);
    let certificates =
        json!({"certificates": [authority.issue_to(authority.folder(), "first", &["first.example"])]});
    let gateway = Setup::new(&json!({
        "header_timeout": "300ms",
        "tls": certificates,
        "services": [{"id": "app", "upstream": url(upstream.address)}],
    }))
    .start()
    .await;
    // Nothing, the beginning of a ClientHello, and plain HTTP.
    for begin in [&b""[..], b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"] {
        let mut wire = gateway.connect().await;
        wire.send(begin).await;
        wire.rest().await;
    }
    let output = curl(&authority, &gateway, "first.example", &[]).await;
    assert!(output.ends_with("200"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_is_replaced_under_load_without_failures() {
    let (authority, upstream) = (Arc::new(Authority::new()), Echo::start().await);
    let gateway = gateway(&authority, &upstream, json!({})).await;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = tokio::task::JoinSet::new();
    for kept in [true, false, false] {
        let (authority, stop, done) = (Arc::clone(&authority), Arc::clone(&stop), Arc::clone(&done));
        let address = gateway.listen;
        clients.spawn(async move {
            let mut wire = None;
            while !stop.load(Ordering::Relaxed) {
                let mut current = match wire.take() {
                    Some(wire) => wire,
                    None => tls_client(&authority, address, "first.example", &["http/1.1"]).await.unwrap().0,
                };
                current.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
                assert_eq!(current.answer().await.code(), 200);
                done.fetch_add(1, Ordering::Relaxed);
                wire = kept.then_some(current);
            }
        });
    }
    let mut certificates = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let (_, old) = tls_client(&authority, gateway.listen, "first.example", &[]).await.unwrap();
        certificates.insert(old.clone());
        authority.issue_to(authority.folder(), "first", &["first.example"]);
        let replaced = async {
            loop {
                let (_, now) = tls_client(&authority, gateway.listen, "first.example", &[]).await.unwrap();
                if now != old {
                    break;
                }
            }
        };
        hivemind_testkit::within("the new certificate", replaced).await;
    }
    // A pair that does not match changes nothing.
    std::fs::write(authority.folder().join("first.pem"), "no certificate").unwrap();
    gateway.signal("HUP").await;
    let before = done.load(Ordering::Relaxed);
    let more = async {
        while done.load(Ordering::Relaxed) < before + 50 {
            tokio::task::yield_now().await;
        }
    };
    hivemind_testkit::within("more requests", more).await;
    stop.store(true, Ordering::Relaxed);
    hivemind_testkit::within("the clients", clients.join_all()).await;
    assert_eq!(certificates.len(), 5);
    upstream.take();
}

#[tokio::test]
async fn upstream_tls_certificate_is_verified() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue(&["localhost"]);
    let folder = authority.folder();
    std::fs::write(folder.join("up.pem"), certificate).unwrap();
    std::fs::write(folder.join("up.key"), key).unwrap();
    let nginx = crate::harness::Nginx::start(&format!(
        "server {{ listen 127.0.0.1:PORT0 ssl http2; ssl_certificate {0}/up.pem; ssl_certificate_key {0}/up.key;
          location / {{ return 200 \"$server_protocol $ssl_server_name\"; }} }}",
        folder.display()
    ))
    .await;
    let port = nginx.listen[0].port();
    let service = |id: &str, host: &str, ca: bool| {
        let mut service = json!({"id": id, "host": id, "upstream": format!("https://{host}:{port}")});
        if ca {
            service["upstream_ca"] = json!(authority.file());
        }
        service
    };
    let services = [
        service("good", "localhost", true),
        service("unknown-ca", "localhost", false),
        service("other-name", "127.0.0.1", true),
    ];
    let gateway = Gateway::with(&json!({"services": services})).await;
    let answer = gateway.ask("GET", "/", &[("host", "good")], "").await;
    assert_eq!((answer.code(), answer.text()), (200, "HTTP/2.0 localhost"));
    for wrong in ["unknown-ca", "other-name"] {
        assert_eq!(gateway.ask("GET", "/", &[("host", wrong)], "").await.code(), 502, "{wrong}");
    }
}
