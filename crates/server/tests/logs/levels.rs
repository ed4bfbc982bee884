//! Log levels: per module, from the file, and through the admin API.

use crate::{RULES, json};
use hivemind_testkit::authority::put;
use hivemind_testkit::client::curl;
use hivemind_testkit::{Server, Setup, get, within};
use serde_json::{Value, json};

const CONFIGURATION: &str = "observability: {log_level: error, log_levels: ['hivemind::reload=info']}\n";

/// The current log settings.
async fn log_settings(server: &Server) -> Value {
    json(&get(server.admin, "/api/v1/log").await.body)
}

/// Requests a change of the log settings, with these headers.
async fn change(server: &Server, body: &Value, headers: &[&str]) -> (u16, String) {
    let (url, body) = (format!("http://{}/api/v1/log", server.admin), body.to_string());
    let headers = headers.iter().flat_map(|header| ["-H", header]);
    let mut arguments = vec!["-X", "PUT", &url, "-d", &body];
    arguments.extend(headers);
    let response = curl(&arguments).await;
    (response.code(), response.text)
}

async fn follows(server: &mut Server, text: &str) {
    put(&server.path().join("hivemind.yaml"), text);
    server.log.next("configuration loaded").await;
}

// Seen failing on: module levels that are not read.
#[tokio::test]
async fn module_levels_override_the_level_and_follow_the_file() {
    let mut server = Setup::rules(RULES).config(CONFIGURATION).start().await;
    assert_eq!(log_settings(&server).await["levels"], json!({"hivemind::reload": "info"}));
    // Its line is logged although the rest is silent below errors; h2 logs no frames of this call.
    follows(&mut server, &format!("{CONFIGURATION}server: {{shutdown_grace: 9s}}\n")).await;
    server.ask("d", "many=x").await;
    follows(&mut server, CONFIGURATION).await;
    assert!(server.log.previous("h2::").is_none(), "h2 logged although its level is off");
    follows(&mut server, "observability: {log_level: debug, log_levels: ['h2=trace']}\n").await;
    server.ask("d", "many=x").await;
    server.log.next("\"target\":\"h2::").await;
    // `off` silences the module.
    follows(&mut server, "observability: {log_level: info, log_levels: ['h2=off']}\n").await;
    assert_eq!(log_settings(&server).await["level"], "info");
    assert_eq!(get(server.admin, "/readyz").await.body, "ready\n", "no restart is needed");
}

// Seen failing on: a reload that reverts the change made through the API.
#[tokio::test]
async fn api_log_change_lasts_until_the_file_changes_its_keys() {
    let mut server = Setup::rules(RULES).config(CONFIGURATION).start().await;
    let settings = json!({"level": "debug", "levels": {"hivemind::reload": "info"}});
    let (code, response) = change(&server, &settings, &[]).await;
    assert!(code == 200 && response.contains("\"level\":\"debug\""), "{response}");
    server.ask("d", "many=x").await;
    server.log.next("\"target\":\"h2::").await;
    // A reload that changes other keys, and one that changes none.
    follows(&mut server, &format!("{CONFIGURATION}server: {{shutdown_grace: 9s}}\n")).await;
    server.signal("HUP").await;
    server.log.next("configuration loaded").await;
    assert_eq!(log_settings(&server).await["level"], "debug");
    let (_, response) =
        change(&server, &json!({"decisions": {"log": "denied", "sample_rate": 0.5}}), &[]).await;
    assert!(
        response.contains("\"level\":\"debug\"") && response.contains("\"log\":\"denied\""),
        "{response}"
    );
    follows(&mut server, "observability: {log_level: warn, log_levels: ['hivemind::reload=info']}\n").await;
    let now = log_settings(&server).await;
    assert_eq!(
        (&now["level"], &now["decisions"]["log"]),
        (&"warn".into(), &"denied".into()),
        "only its own keys"
    );
    for (body, expected, word) in [
        (json!({"level": "loud"}), 422, "off, error, warn"),
        (json!({"lvl": "info"}), 400, "unknown field"),
        (json!({"decisions": {"values": ["k"]}}), 400, "unknown field"),
        (json!({"levels": {"a b": "info"}}), 422, "hivemind_mesh"),
    ] {
        let (code, response) = change(&server, &body, &[]).await;
        assert!(
            code == expected && response.contains(word) && response.contains("application/problem+json"),
            "{response}"
        );
    }
    assert_eq!(log_settings(&server).await, now);
}

// Seen failing on: a change that is not logged before it is active.
#[tokio::test]
async fn switching_the_log_off_is_logged() {
    let mut server = Setup::rules(RULES).start().await;
    change(&server, &json!({"level": "off"}), &[]).await;
    let warning = server.log.next("changed by the admin port").await;
    assert!(warning.contains("WARN") && warning.contains("Off"), "{warning}");
    std::fs::write(server.path().join("rules.yaml"), "nonsense: 1").unwrap();
    let refused = async { while get(server.admin, "/readyz").await.body == "ready\n" {} };
    within("the refusal of the rules", refused).await;
    server.signal("TERM").await;
    server.ended().await;
    let all = server.log.rest().await;
    assert!(!all.contains("refused"), "{all}");
}

// Seen failing on: a page that needs no token.
#[tokio::test]
async fn log_settings_require_operator_access() {
    let setup = Setup::rules(RULES);
    let token = setup.path().join("token");
    put(&token, "the-operators-token-0123456789");
    let server = setup.with("security.admin.token_file", token.to_str().unwrap()).start().await;
    let level = json!({"level": "debug"});
    assert_eq!(get(server.admin, "/api/v1/log").await.code, 401);
    assert_eq!(change(&server, &level, &[]).await.0, 401);
    assert_eq!(change(&server, &level, &["Authorization: Bearer another-operators-token"]).await.0, 401);
    let token = "Authorization: Bearer the-operators-token-0123456789";
    assert_eq!(change(&server, &level, &[token]).await.0, 200);
    // Without a token, callers from other machines are refused too.
    let mut server = Setup::rules(RULES).with("server.admin_host", "0.0.0.0").start().await;
    server.admin.set_ip([127, 0, 0, 1].into());
    assert_eq!(change(&server, &level, &[]).await.0, 403);
    assert_eq!(log_settings(&server).await["level"], "info");
}
