//! How loud the log is: by module, by the file, and by the admin port.

use crate::{RULES, json};
use hivemind_testkit::authority::put;
use hivemind_testkit::client::curl;
use hivemind_testkit::{Server, Setup, get, within};
use serde_json::{Value, json};

const CONFIGURATION: &str = "observability: {log_level: error, log_levels: ['hivemind::reload=info']}\n";

/// What is in force.
async fn in_force(server: &Server) -> Value {
    json(&get(server.admin, "/api/v1/log").await.body)
}

/// Asks for something else, with these headers.
async fn change(server: &Server, body: &Value, headers: &[&str]) -> (u16, String) {
    let (url, body) = (format!("http://{}/api/v1/log", server.admin), body.to_string());
    let headers = headers.iter().flat_map(|header| ["-H", header]);
    let mut arguments = vec!["-X", "PUT", &url, "-d", &body];
    arguments.extend(headers);
    let said = curl(&arguments).await;
    (said.code(), said.text)
}

async fn follows(server: &mut Server, text: &str) {
    put(&server.path().join("hivemind.yaml"), text);
    server.log.next("configuration loaded").await;
}

// Seen failing on: levels of modules that are not read.
#[tokio::test]
async fn a_module_may_be_louder_than_the_rest_and_levels_follow_the_file() {
    let mut server = Setup::rules(RULES).config(CONFIGURATION).start().await;
    assert_eq!(in_force(&server).await["levels"], json!({"hivemind::reload": "info"}));
    // Its line is there though the rest is silent below errors; h2 says nothing of the frames of this call.
    follows(&mut server, &format!("{CONFIGURATION}server: {{shutdown_grace: 9s}}\n")).await;
    server.ask("d", "many=x").await;
    follows(&mut server, CONFIGURATION).await;
    assert!(server.log.previous("h2::").is_none(), "h2 was told though it is quiet");
    follows(&mut server, "observability: {log_level: debug, log_levels: ['h2=trace']}\n").await;
    server.ask("d", "many=x").await;
    server.log.next("\"target\":\"h2::").await;
    // Off is off.
    follows(&mut server, "observability: {log_level: info, log_levels: ['h2=off']}\n").await;
    assert_eq!(in_force(&server).await["level"], "info");
    assert_eq!(get(server.admin, "/readyz").await.body, "ready\n", "no restart is needed");
}

// Seen failing on: a file that is loaded again and takes back what was asked for.
#[tokio::test]
async fn the_admin_port_changes_the_log_until_the_file_changes_the_same_keys() {
    let mut server = Setup::rules(RULES).config(CONFIGURATION).start().await;
    let asked = json!({"level": "debug", "levels": {"hivemind::reload": "info"}});
    let (code, said) = change(&server, &asked, &[]).await;
    assert!(code == 200 && said.contains("\"level\":\"debug\""), "{said}");
    server.ask("d", "many=x").await;
    server.log.next("\"target\":\"h2::").await;
    // A reload that changes other keys, and one that changes none.
    follows(&mut server, &format!("{CONFIGURATION}server: {{shutdown_grace: 9s}}\n")).await;
    server.signal("HUP").await;
    server.log.next("configuration loaded").await;
    assert_eq!(in_force(&server).await["level"], "debug");
    let (_, said) = change(&server, &json!({"decisions": {"log": "denied", "sample_rate": 0.5}}), &[]).await;
    assert!(said.contains("\"level\":\"debug\"") && said.contains("\"log\":\"denied\""), "{said}");
    follows(&mut server, "observability: {log_level: warn, log_levels: ['hivemind::reload=info']}\n").await;
    let now = in_force(&server).await;
    assert_eq!(
        (&now["level"], &now["decisions"]["log"]),
        (&"warn".into(), &"denied".into()),
        "its keys alone"
    );
    for (body, expected, word) in [
        (json!({"level": "loud"}), 422, "off, error, warn"),
        (json!({"lvl": "info"}), 400, "unknown field"),
        (json!({"decisions": {"values": ["k"]}}), 400, "unknown field"),
        (json!({"levels": {"a b": "info"}}), 422, "hivemind_mesh"),
    ] {
        let (code, said) = change(&server, &body, &[]).await;
        assert!(
            code == expected && said.contains(word) && said.contains("application/problem+json"),
            "{said}"
        );
    }
    assert_eq!(in_force(&server).await, now);
}

// Seen failing on: a change that is not told before it is in force.
#[tokio::test]
async fn whoever_silences_the_log_is_in_it() {
    let mut server = Setup::rules(RULES).start().await;
    change(&server, &json!({"level": "off"}), &[]).await;
    let told = server.log.next("changed by the admin port").await;
    assert!(told.contains("WARN") && told.contains("Off"), "{told}");
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
async fn the_log_is_shown_and_changed_to_operators_alone() {
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
    // Nor does anybody from elsewhere, where no token is set.
    let mut server = Setup::rules(RULES).with("server.admin_host", "0.0.0.0").start().await;
    server.admin.set_ip([127, 0, 0, 1].into());
    assert_eq!(change(&server, &level, &[]).await.0, 403);
    assert_eq!(in_force(&server).await["level"], "info");
}
