//! Health by component, and liveness without dependencies.

use crate::{RULES, json};
use hivemind_testkit::authority::put;
use hivemind_testkit::client::curl;
use hivemind_testkit::{Server, Setup, get};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The status and JSON of the verbose readiness page.
async fn verbose(server: &Server) -> (u16, Value) {
    let page = get(server.admin, "/readyz?verbose").await;
    assert_eq!(page.header("content-type"), Some("application/json"));
    (page.code, json(&page.body))
}

// Seen failing on: JSON for requests without a preference.
#[tokio::test]
async fn readyz_is_one_word_or_components_on_request() {
    let server = Server::with_rules(RULES).await;
    let page = get(server.admin, "/readyz").await;
    assert_eq!((page.code, page.body.as_str()), (200, "ready\n"));
    let (code, report) = verbose(&server).await;
    let expected = json!({
        "status": "ready",
        "components": {
            "serving": {"state": "ok"}, "rules": {"state": "ok"}, "configuration": {"state": "ok"},
            "store": {"state": "ok"}, "clock": {"state": "ok"}, "mesh": {"state": "off"},
            "certificates": {"state": "off"}, "keys": {"state": "off"},
        },
    });
    assert_eq!((code, &report), (200, &expected));
    let url = format!("http://{}/readyz", server.admin);
    let accepted = curl(&["-H", "Accept: application/json", &url]).await;
    assert_eq!(json(accepted.text.rsplit("\r\n").next().unwrap()), expected);
    assert!(curl(&[&url]).await.text.ends_with("ready\n"), "curl accepts anything");
}

// Seen failing on: components shown to all callers.
#[tokio::test]
async fn anonymous_callers_get_only_the_status_if_a_token_is_set() {
    let setup = Setup::rules(RULES);
    let token = setup.path().join("token");
    put(&token, "the-operators-token-0123456789");
    let server = setup.with("security.admin.token_file", token.to_str().unwrap()).start().await;
    assert_eq!(verbose(&server).await, (200, json!({"status": "ready"})));
    let url = format!("http://{}/readyz?verbose", server.admin);
    let token = "Authorization: Bearer the-operators-token-0123456789";
    let report = curl(&["-H", token, &url]).await;
    let report = json(report.text.rsplit("\r\n").next().unwrap());
    assert_eq!(report["components"]["keys"]["state"], "ok", "{report}");
}

/// A port that accepts no connection: it listens, but the backlog is not served.
async fn unresponsive_port() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    (listener, url)
}

// Seen failing on: a liveness that equals readiness.
#[tokio::test]
async fn healthz_is_ok_without_rules_redis_or_valid_configuration() {
    let (_taken, url) = unresponsive_port().await;
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
    let (code, report) = verbose(&server).await;
    let state = |name: &str| report["components"][name]["state"].as_str().unwrap_or_default();
    assert_eq!((code, &report["status"]), (503, &"not ready".into()));
    assert_eq!(
        [state("rules"), state("store"), state("configuration"), state("clock")],
        ["failed", "degraded", "degraded", "ok"],
        "{report}"
    );
    let reason = |name: &str| report["components"][name]["reason"].as_str().unwrap_or_default();
    assert!(reason("rules").contains("no rules loaded yet") && reason("rules").contains("rules.yaml"));
    assert!(reason("store").contains("shared store unreachable"), "{report}");
    // Rules make it ready: degraded components do not prevent that.
    put(&server.path().join("rules.yaml"), RULES);
    server.log.next("rules loaded").await;
    let (code, report) = verbose(&server).await;
    assert_eq!((code, &report["components"]["store"]["state"]), (200, &"degraded".into()), "{report}");
    assert_eq!(get(server.admin, "/healthz").await.code, 200);
}
