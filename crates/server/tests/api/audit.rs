//! The audit log of writes through the admin API.

use crate::RULES;
use crate::http::ask;
use hivemind_testkit::authority::put;
use hivemind_testkit::{Setup, exchange, get, hivemind, post, within};
use tokio::net::UnixStream;

const TOKEN: &str = "the-operators-token-0123456789";

// Seen failing on: an audit line for an explanation.
#[tokio::test]
async fn each_write_logs_one_line_with_actor_and_no_secret() {
    let setup = Setup::rules(RULES);
    let (file, uds) = (setup.path().join("token"), setup.path().join("admin.sock"));
    put(&file, TOKEN);
    let setup =
        setup.with("observability.log_format", "json").with("server.admin_uds", uds.to_str().unwrap());
    let mut server = setup.with("security.admin.token_file", file.to_str().unwrap()).start().await;
    let bearer = format!("authorization: Bearer {TOKEN}");
    let explained = r#"{"domain": "shop", "entries": [{"key": "user", "value": "ada"}]}"#;
    assert_eq!(ask(server.admin, "POST", "/api/v1/explain", &[&bearer], explained).await.code, 200);
    assert_eq!(ask(server.admin, "GET", "/api/v1/rules", &[&bearer], "").await.code, 200);
    assert_eq!(ask(server.admin, "PUT", "/api/v1/log", &[&bearer], r#"{"level": "loud"}"#).await.code, 422);
    let line = server.log.next("hivemind::audit").await;
    for part in [r#""who":"token""#, r#""method":"PUT""#, r#""path":"/api/v1/log""#, r#""status":422"#] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!(
        ask(server.admin, "POST", "/api/v1/peers/gone%20%E2%80%AE/forget", &[&bearer], "").await.code,
        404
    );
    let line = server.log.next("hivemind::audit").await;
    assert!(line.contains(r#""path":"/api/v1/peers/gone%20%E2%80%AE/forget""#), "{line}");
    assert_eq!(ask(server.admin, "DELETE", "/api/v1/rules", &[&bearer], "").await.code, 405);
    server.signal("TERM").await;
    server.ended().await;
    let rest = server.log.rest().await;
    assert_eq!(rest.matches("hivemind::audit").count(), 2, "{rest}");
    assert!(!rest.contains(TOKEN) && !rest.contains("ada"), "{rest}");
}

// Seen failing on: a line without its actor.
#[tokio::test]
async fn write_without_token_logs_the_kind_of_connection() {
    let setup = Setup::rules(RULES);
    let uds = setup.path().join("admin.sock");
    let setup =
        setup.with("observability.log_format", "json").with("server.admin_uds", uds.to_str().unwrap());
    let mut server = setup.start().await;
    assert_eq!(post(server.admin, "/api/v1/reload", "").await.code, 200);
    assert!(server.log.next("hivemind::audit").await.contains(r#""who":"private""#));
    let connection = UnixStream::connect(uds).await.unwrap();
    let page = within("a page", exchange(connection, "POST", "/api/v1/reload", "")).await;
    assert_eq!(page.code, 200);
    assert!(server.log.next("hivemind::audit").await.contains(r#""who":"socket""#));
    assert_eq!(get(server.admin, "/healthz").await.code, 200);
}

// Seen failing on: a line of level `info`, which `warn` and `off` suppress; a line without the key's id and
// without the change.
#[tokio::test]
async fn audit_line_ignores_log_level_and_names_change_and_key() {
    let setup = Setup::rules(RULES).with("observability.log_format", "json");
    let mut server = setup.with("observability.log_level", "warn").start().await;
    let off = r#"{"level": "off", "levels": {"hivemind::audit": "off"}}"#;
    assert_eq!(ask(server.admin, "PUT", "/api/v1/log", &[], off).await.code, 200);
    let line = server.log.next(r#""target":"hivemind::audit""#).await;
    assert!(
        line.contains("level=off levels=hivemind::audit:off") && line.contains(r#""status":200"#),
        "{line}"
    );
    let entries = r#""domain": "shop", "entries": [{"key": "user", "value": "ada"}]"#;
    for (what, more, expected) in [
        ("block", r#""until_ms": 4000000000000"#, r#""change":"until_ms=4000000000000""#),
        ("block", r#""for_ms": 60000"#, r#""change":"until_ms="#),
        ("grant", r#""extra": 5"#, r#""change":"extra=5""#),
        ("reset", "", r#""rule":2"#),
        ("unblock", "", r#""status":200"#),
    ] {
        let comma = if more.is_empty() { "" } else { ", " };
        let path = format!("/api/v1/keys/{what}");
        let code = ask(server.admin, "POST", &path, &[], &format!("{{{entries}{comma}{more}}}")).await.code;
        let line = server.log.next(r#""target":"hivemind::audit""#).await;
        let parts = [
            expected,
            &format!(r#""path":"{path}""#),
            r#""domain":"shop""#,
            r#""keys":"user""#,
            &code.to_string(),
        ];
        for part in parts {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(!line.contains("ada"), "{line}");
    }
}

// Seen failing on: a missing line.
#[tokio::test]
async fn refused_write_is_logged_and_a_flood_is_throttled() {
    let setup = Setup::rules(RULES);
    let (tokens, keys) = (setup.path().join("token"), setup.path().join("keys"));
    put(&tokens, TOKEN);
    let created = hivemind(&["keys", "new", "--name", "web", "--domain", "shop"]).1;
    let mut indented = created.lines().filter_map(|line| line.strip_prefix("  "));
    let (key, file_line) = (indented.next().expect("a key").to_owned(), indented.next().expect("its line"));
    put(&keys, file_line);
    let setup = setup.with("observability.log_format", "json").with("observability.log_level", "error");
    let setup = setup.with("security.api_keys_file", keys.to_str().unwrap());
    let mut server = setup.with("security.admin.token_file", tokens.to_str().unwrap()).start().await;
    let header = format!("x-api-key: {key}");
    assert_eq!(ask(server.admin, "POST", "/api/v1/keys/reset", &[&header], "{}").await.code, 403);
    let line = server.log.next(r#""target":"hivemind::audit""#).await;
    for part in ["key web", "that was refused", r#""status":403"#, r#""path":"/api/v1/keys/reset""#] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    for _ in 0..60 {
        assert_eq!(ask(server.admin, "POST", "/api/v1/reload", &[], "").await.code, 401);
        assert_eq!(ask(server.admin, "GET", "/api/v1/rules", &[], "").await.code, 401);
    }
    server.signal("TERM").await;
    server.ended().await;
    let rest = server.log.rest().await;
    let lines = rest.matches(r#""status":401"#).count();
    assert!((1..60).contains(&lines), "{rest}");
    assert!(!rest.contains("/api/v1/rules") && !rest.contains(&key), "{rest}");
}
