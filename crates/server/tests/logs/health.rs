//! Health by component, and liveness that depends on nothing.

use crate::{RULES, json};
use hivemind_testkit::authority::put;
use hivemind_testkit::client::curl;
use hivemind_testkit::{Server, Setup, get};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The page with its components, and its code.
async fn verbose(server: &Server) -> (u16, Value) {
    let page = get(server.admin, "/readyz?verbose").await;
    assert_eq!(page.header("content-type"), Some("application/json"));
    (page.code, json(&page.body))
}

// Seen failing on: JSON for whoever asks for nothing.
#[tokio::test]
async fn ready_is_a_word_for_probes_and_components_for_who_asks_for_them() {
    let server = Server::with_rules(RULES).await;
    let page = get(server.admin, "/readyz").await;
    assert_eq!((page.code, page.body.as_str()), (200, "ready\n"));
    let (code, told) = verbose(&server).await;
    let expected = json!({
        "status": "ready",
        "components": {
            "serving": {"state": "ok"}, "rules": {"state": "ok"}, "configuration": {"state": "ok"},
            "store": {"state": "ok"}, "clock": {"state": "ok"}, "mesh": {"state": "off"},
            "certificates": {"state": "off"}, "keys": {"state": "off"},
        },
    });
    assert_eq!((code, &told), (200, &expected));
    let url = format!("http://{}/readyz", server.admin);
    let accepted = curl(&["-H", "Accept: application/json", &url]).await;
    assert_eq!(json(accepted.text.rsplit("\r\n").next().unwrap()), expected);
    assert!(curl(&[&url]).await.text.ends_with("ready\n"), "curl accepts anything");
}

// Seen failing on: components for everybody.
#[tokio::test]
async fn where_a_token_is_set_strangers_are_told_no_more_than_the_word() {
    let setup = Setup::rules(RULES);
    let token = setup.path().join("token");
    put(&token, "the-operators-token-0123456789");
    let server = setup.with("security.admin.token_file", token.to_str().unwrap()).start().await;
    assert_eq!(verbose(&server).await, (200, json!({"status": "ready"})));
    let url = format!("http://{}/readyz?verbose", server.admin);
    let token = "Authorization: Bearer the-operators-token-0123456789";
    let told = curl(&["-H", token, &url]).await;
    let told = json(told.text.rsplit("\r\n").next().unwrap());
    assert_eq!(told["components"]["keys"]["state"], "ok", "{told}");
}

/// A port that nobody answers on: it is taken, and nobody accepts.
async fn nobody() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    (listener, url)
}

// Seen failing on: a liveness that is readiness.
#[tokio::test]
async fn it_is_alive_without_rules_without_redis_and_with_a_broken_configuration() {
    let (_taken, url) = nobody().await;
    let setup = Setup::rules("nonsense: [").config("storage: {kind: redis, on_error: closed}\n");
    let mut server = setup
        .with("storage.redis.url", &url)
        .with("rate_limiting.force_start_without_initial_config", "true")
        .start()
        .await;
    put(&server.path().join("hivemind.yaml"), "serve: {");
    server.log.next("invalid configuration; the previous").await;
    let page = get(server.admin, "/healthz").await;
    assert_eq!((page.code, page.body.as_str()), (200, "ok\n"));
    let (code, told) = verbose(&server).await;
    let state = |name: &str| told["components"][name]["state"].as_str().unwrap_or_default();
    assert_eq!((code, &told["status"]), (503, &"not ready".into()));
    assert_eq!(
        [state("rules"), state("store"), state("configuration"), state("clock")],
        ["failed", "degraded", "degraded", "ok"],
        "{told}"
    );
    let reason = |name: &str| told["components"][name]["reason"].as_str().unwrap_or_default();
    assert!(reason("rules").contains("no rules loaded yet") && reason("rules").contains("rules.yaml"));
    assert!(reason("store").contains("shared store unreachable"), "{told}");
    // Rules make it ready: what is degraded does not keep it from that.
    put(&server.path().join("rules.yaml"), RULES);
    server.log.next("rules loaded").await;
    let (code, told) = verbose(&server).await;
    assert_eq!((code, &told["components"]["store"]["state"]), (200, &"degraded".into()), "{told}");
    assert_eq!(get(server.admin, "/healthz").await.code, 200);
}
