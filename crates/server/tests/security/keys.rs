//! API keys of clients.

use crate::RULES;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_testkit::authority::{Authority, put};
use hivemind_testkit::client::{ask, caller, curl, curl_call};
use hivemind_testkit::{Client, Server, Setup, get, hivemind, within};
use std::time::Duration;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// A key made by `hivemind keys new`, and its line.
pub(crate) fn new_key(arguments: &[&str]) -> (String, String) {
    let (code, output) = hivemind(&[&["keys", "new"], arguments].concat());
    assert_eq!(code, Some(0), "{output}");
    let mut indented = output.lines().filter_map(|line| line.strip_prefix("  "));
    let (key, line) = (indented.next().unwrap().to_owned(), indented.next().unwrap().to_owned());
    assert!(!line.contains(&key) && key.starts_with("hm_"), "{output}");
    (key, line)
}

/// A service that requires these keys.
pub(crate) async fn with_keys(lines: &[&str]) -> Server {
    let setup = Setup::rules(RULES);
    let file = setup.path().join("keys");
    put(&file, &lines.join("\n"));
    setup.with("security.api_keys_file", file.to_str().unwrap()).start().await
}

async fn code(client: &mut Client, domain: &str, key: Option<&str>) -> Code {
    ask(client, domain, key).await.map_or_else(|status| status.code(), |()| Code::Ok)
}

// Seen failing on: a domain that is not checked; a cached key that is not compared with the next one.
#[tokio::test]
async fn call_requires_a_key_of_its_domain() {
    let ((any, any_line), (web, web_line)) =
        (new_key(&["--name", "any"]), new_key(&["--name", "web", "--domain", "web", "--domain", "d"]));
    let (ops, ops_line) = new_key(&["--name", "ops", "--admin"]);
    let server = with_keys(&["# callers", &any_line, &web_line, &ops_line]).await;
    let mut client = server.client().await;
    let cut = &any[..any.len() - 1];
    for _ in 0..3 {
        for (key, domain, expected) in [
            (Some(any.as_str()), "d", Code::Ok),
            (Some(any.as_str()), "other", Code::Ok),
            (Some(&web), "d", Code::Ok),
            (Some(&web), "web", Code::Ok),
            (Some(&web), "other", Code::PermissionDenied),
            (Some(&web), "", Code::PermissionDenied),
            (Some(&ops), "d", Code::PermissionDenied),
            (None, "d", Code::Unauthenticated),
            (Some(""), "d", Code::Unauthenticated),
            (Some(cut), "d", Code::Unauthenticated),
            (Some("hm_wrong"), "d", Code::Unauthenticated),
        ] {
            assert_eq!(code(&mut client, domain, key).await, expected, "{key:?} for {domain:?}");
        }
    }
    let page = get(server.metrics, "/metrics").await;
    assert_eq!(page.metric("hivemind_access_refused_total{reason=\"unauthenticated\"}"), Some(12));
    assert_eq!(page.metric("hivemind_access_refused_total{reason=\"permission_denied\"}"), Some(9));
    let header = format!("x-api-key: {any}");
    assert_eq!(curl_call(&server, "http", &["-H", &header]).await.grpc_status(), Code::Ok);
}

// Seen failing on: a key required for every service; a key required for `ShouldRateLimit` only.
#[tokio::test]
async fn health_needs_no_key_but_reflection_does() {
    let (key, line) = new_key(&["--name", "any"]);
    let server = with_keys(&[&line]).await;
    let mut health = HealthClient::new(server.channel().await);
    let answer = within("health", health.check(HealthCheckRequest::default())).await.unwrap();
    assert_eq!(answer.get_ref().status, 1);
    let reflection =
        format!("http://{}/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", server.grpc);
    let request_arguments =
        ["--http2-prior-knowledge", "-X", "POST", "-H", "content-type: application/grpc", &reflection];
    assert_eq!(curl(&request_arguments).await.grpc_status(), Code::Unauthenticated);
    let header = format!("x-api-key: {key}");
    assert_eq!(curl(&[&request_arguments[..], &["-H", &header]].concat()).await.grpc_status(), Code::Ok);
}

// Seen failing on: a key cached by a connection after its removal from the file; key files that are not
// reloaded.
#[tokio::test]
async fn removed_key_is_refused_within_a_second() {
    let ((old, old_line), (new, new_line)) = (new_key(&["--name", "envoy"]), new_key(&["--name", "envoy"]));
    let server = with_keys(&[&old_line]).await;
    let file = server.path().join("keys");
    let (mut connected, mut other) = (server.client().await, server.client().await);
    assert_eq!(code(&mut connected, "d", Some(&old)).await, Code::Ok);
    assert_eq!(code(&mut other, "d", Some(&new)).await, Code::Unauthenticated);
    // Both keys during the replacement; written by an editor in place.
    std::fs::write(&file, format!("{old_line}\n{new_line}\n")).unwrap();
    within("the new key", async { while code(&mut other, "d", Some(&new)).await != Code::Ok {} }).await;
    assert_eq!(code(&mut connected, "d", Some(&old)).await, Code::Ok);
    let from = MonotonicClock.now();
    put(&file, &new_line);
    within("the refusal", async { while code(&mut connected, "d", Some(&old)).await == Code::Ok {} }).await;
    let took = MonotonicClock.now().since(from);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(code(&mut connected, "d", Some(&old)).await, Code::Unauthenticated);
    assert_eq!(code(&mut other, "d", Some(&new)).await, Code::Ok);
    // The last key as well: an empty file gives no access.
    put(&file, "");
    within("the refusal", async { while code(&mut other, "d", Some(&new)).await == Code::Ok {} }).await;
    assert!(get(server.admin, "/readyz").await.body == "ready\n", "details need a key");
}

// Seen failing on: an invalid file activated as one without keys.
#[tokio::test]
async fn invalid_key_file_keeps_old_keys_and_is_reported() {
    let ((key, line), (ops, ops_line)) =
        (new_key(&["--name", "any"]), new_key(&["--name", "ops", "--admin"]));
    let mut server = with_keys(&[&line, &ops_line]).await;
    let mut client = server.client().await;
    let ops = format!("x-api-key: {ops}");
    let (ready, reload) =
        (format!("http://{}/readyz", server.admin), format!("http://{}/api/v1/reload", server.admin));
    put(&server.path().join("keys"), &format!("{ops_line}\nnot a line"));
    let logged = server.log.next("line 2 ").await;
    assert!(logged.contains("ERROR") && logged.contains("its previous contents stay active"), "{logged}");
    assert_eq!(code(&mut client, "d", Some(&key)).await, Code::Ok);
    let output = curl(&["-H", &ops, &ready]).await;
    assert!(
        output.text.contains("keys: `security.api_keys_file`: ") && output.text.contains("line 2"),
        "{output:?}"
    );
    let output = curl(&["-X", "POST", "-H", &ops, &reload]).await;
    assert!(output.code() == 422 && output.text.contains("line 2"), "{output:?}");
    assert_eq!(get(server.metrics, "/metrics").await.metric("hivemind_access_file_errors"), Some(1));
    put(&server.path().join("keys"), &format!("{ops_line}\n{line}"));
    let output = curl(&["-X", "POST", "-H", &ops, &reload]).await;
    assert!(output.code() == 200 && output.text.contains("API keys: 2"), "{output:?}");
    assert_eq!(get(server.metrics, "/metrics").await.metric("hivemind_access_file_errors"), Some(0));
    assert!(!curl(&["-H", &ops, &ready]).await.text.contains("keys: "));
}

#[tokio::test]
async fn keys_are_required_over_tls_too() {
    let (ours, (key, line)) = (Authority::new(), new_key(&["--name", "any"]));
    let setup = Setup::rules(RULES);
    let (file, issued) = (setup.path().join("keys"), ours.issue("server"));
    put(&file, &line);
    let server = setup
        .with("security.api_keys_file", file.to_str().unwrap())
        .with("security.grpc_tls.cert", issued.cert.to_str().unwrap())
        .with("security.grpc_tls.key", issued.key.to_str().unwrap())
        .start()
        .await;
    let mut client = caller(server.grpc, ours.client(None)).await.unwrap();
    assert_eq!(code(&mut client, "d", Some(&key)).await, Code::Ok);
    assert_eq!(code(&mut client, "d", None).await, Code::Unauthenticated);
}

#[test]
fn new_key_requires_a_valid_name_and_domains() {
    for wrong in [
        &["--name", "with space"][..],
        &["--name", ""],
        &["--name", "a:b"],
        &["--name", "a", "--domain", "b,c"],
        &["--name", "a", "--domain", ""],
    ] {
        let (code, output) = hivemind(&[&["keys", "new"], wrong].concat());
        assert!(code == Some(1) && output.starts_with("hivemind: --"), "{output}");
    }
    let (first, second) = (new_key(&["--name", "a"]), new_key(&["--name", "a"]));
    assert_ne!(first.0, second.0);
    assert!(
        new_key(&["--name", "a", "--domain", "x", "--domain", "y", "--admin"]).1.ends_with(":x,y,@admin")
    );
}
