//! By which names the admin port is asked for: a name leads where its owner says, an address does not.

use crate::RULES;
use crate::asked::ask;
use crate::authority::put;
use crate::support::{Setup, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

// Seen failing on: 200 for all of these, before the host was looked at.
#[tokio::test]
async fn where_no_token_is_set_a_name_that_leads_here_opens_nothing_on_loopback() {
    let setup = Setup::rules(RULES);
    let uds = setup.path().join("admin.sock");
    let server = setup.with("server.admin_uds", uds.to_str().unwrap()).start().await;
    for (method, path) in [
        ("GET", "/api/v1/rules"),
        ("GET", "/api/v1/top"),
        ("POST", "/api/v1/reload"),
        ("GET", "/rlconfig"),
        ("POST", "/json"),
    ] {
        // To the browser this is one origin, so it says nothing else than a page of ours would.
        let evil = ["host: evil.example:8080", "origin: http://evil.example:8080"];
        let answer = ask(server.admin, method, path, &evil, "").await;
        assert_eq!(answer.code, 421, "{method} {path}");
        assert!(answer.body.contains("security.admin.token_file"), "{}", answer.body);
    }
    let port = server.admin.port();
    for own in
        [format!("host: localhost:{port}"), "host: 127.0.0.1".to_owned(), format!("host: [::1]:{port}")]
    {
        assert_eq!(ask(server.admin, "GET", "/api/v1/rules", &[&own], "").await.code, 200, "{own}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(
            ask(server.admin, "GET", path, &["host: evil.example"], "").await.code,
            200,
            "probes have names"
        );
    }
    // Nobody's browser opens a socket of this machine.
    let mut connection = UnixStream::connect(uds).await.unwrap();
    connection
        .write_all(b"GET /api/v1/rules HTTP/1.1\r\nhost: any.name\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    within("a page", connection.read_to_string(&mut text)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

// Seen failing on: a page that needs the token.
#[tokio::test]
async fn with_a_token_the_port_has_any_name_and_the_page_needs_none() {
    let setup = Setup::rules(RULES);
    let file = setup.path().join("token");
    put(&file, "the-operators-token-0123456789");
    let server = setup.with("security.admin.token_file", file.to_str().unwrap()).start().await;
    let token = "authorization: Bearer the-operators-token-0123456789";
    let named = ["host: limits.example", token];
    assert_eq!(ask(server.admin, "GET", "/api/v1/rules", &named, "").await.code, 200);
    for path in ["/api/v1/rules", "/api/v1/blocks", "/api/v1/events", "/api/v1/decisions", "/assetsx", "//"] {
        assert_eq!(ask(server.admin, "GET", path, &[], "").await.code, 401, "{path}");
    }
    for path in ["/", "/assets/none.js"] {
        let code = ask(server.admin, "GET", path, &[], "").await.code;
        assert!([200, 404].contains(&code), "{path}: {code}");
        assert_eq!(ask(server.admin, "POST", path, &[], "").await.code, 401, "{path}");
    }
}
