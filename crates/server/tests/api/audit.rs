//! Who wrote what by the API is in the log.

use crate::RULES;
use crate::asked::ask;
use crate::authority::put;
use crate::support::{Setup, exchange, get, post, within};
use tokio::net::UnixStream;

const TOKEN: &str = "the-operators-token-0123456789";

// Seen failing on: a line for an explanation.
#[tokio::test]
async fn each_write_leaves_one_line_that_says_who_and_what_and_no_secret() {
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

// Seen failing on: a line without who it was.
#[tokio::test]
async fn without_a_token_the_line_says_where_the_writer_came_from() {
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
