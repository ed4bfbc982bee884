//! Authentication and authorization at the admin port.

use crate::RULES;
use crate::keys::new_key;
use hivemind_testkit::authority::{Authority, put};
use hivemind_testkit::client::curl;
use hivemind_testkit::{Server, Setup, exchange, get, post, within};
use tokio::net::UnixStream;

const CHECK: &str = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;
const TOKEN: &str = "the-operators-token-0123456789";

/// The status of a request with these headers.
async fn code(server: &Server, method: &str, path: &str, headers: &[&str]) -> u16 {
    let url = format!("http://{}{path}", server.admin);
    let headers = headers.iter().flat_map(|header| ["-H", header]);
    let mut arguments = vec!["-X", method, &url];
    if path == "/json" {
        arguments.extend(["-d", CHECK]);
    }
    arguments.extend(headers);
    curl(&arguments).await.code()
}

// Seen failing on: a token that only writes require; a token required for probes.
#[tokio::test]
async fn configured_token_is_required_except_for_health_probes() {
    let setup = Setup::rules(RULES);
    let file = setup.path().join("token");
    put(&file, &format!("{TOKEN}\nthe-next-operators-token\n"));
    let uds = setup.path().join("admin.sock");
    let setup = setup.with("security.admin.token_file", file.to_str().unwrap());
    let server = setup.with("server.admin_uds", uds.to_str().unwrap()).start().await;
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let (right, next, wrong) =
        (bearer(TOKEN), bearer("the-next-operators-token"), bearer("another-operators-token"));
    let (basic, key) = (format!("Authorization: Basic {TOKEN}"), format!("x-api-key: {TOKEN}"));
    for (method, path) in
        [("POST", "/api/v1/reload"), ("GET", "/rlconfig"), ("POST", "/json"), ("GET", "/nowhere")]
    {
        let open = if path == "/nowhere" { 404 } else { 200 };
        for (header, expected) in
            [(&right, open), (&next, open), (&wrong, 401), (&basic, 401), (&key, 401), (&bearer(""), 401)]
        {
            assert_eq!(code(&server, method, path, &[header]).await, expected, "{method} {path} {header}");
        }
        assert_eq!(code(&server, method, path, &[]).await, 401, "{method} {path}");
    }
    // The dashboard page has no data in it and requests the token itself.
    for path in ["/healthz", "/readyz", "/healthcheck", "/", "/assets/app.js"] {
        assert_eq!(get(server.admin, path).await.code, 200, "{path}");
    }
    let connection = UnixStream::connect(uds).await.unwrap();
    let page = within("a page", exchange(connection, "POST", "/api/v1/reload", "")).await;
    assert_eq!(
        (page.code, page.header("www-authenticate")),
        (401, Some("Bearer")),
        "also on its Unix socket"
    );
    // A removed token gives no access.
    put(&file, TOKEN);
    let gone = async { while code(&server, "GET", "/rlconfig", &[&next]).await == 200 {} };
    within("the refusal", gone).await;
    assert_eq!(code(&server, "GET", "/rlconfig", &[&right]).await, 200);
}

// Seen failing on: a client's API key that gives access to the admin port.
#[tokio::test]
async fn json_needs_a_client_key_and_the_rest_an_operator_key() {
    let ((web, web_line), (own, own_line)) =
        (new_key(&["--name", "web", "--domain", "web"]), new_key(&["--name", "own", "--domain", "d"]));
    let (ops, ops_line) = new_key(&["--name", "ops", "--admin"]);
    let server = crate::keys::with_keys(&[&web_line, &own_line, &ops_line]).await;
    let header = |key: &str| format!("x-api-key: {key}");
    for (key, json, page, reload) in [
        (Some(header(&own)), 200, 403, 403),
        (Some(header(&web)), 403, 403, 403),
        (Some(header(&ops)), 403, 200, 200),
        (Some(header("hm_wrong")), 401, 401, 401),
        (None, 401, 401, 401),
    ] {
        let headers: Vec<&str> = key.iter().map(String::as_str).collect();
        assert_eq!(code(&server, "POST", "/json", &headers).await, json, "{key:?}");
        assert_eq!(code(&server, "GET", "/rlconfig", &headers).await, page, "{key:?}");
        assert_eq!(code(&server, "POST", "/api/v1/reload", &headers).await, reload, "{key:?}");
    }
}

// Each of these was answered with 200 when the origin was not checked.
// Seen failing on: `/json` and `/api/v1/explain`, which were answered as for an anonymous caller.
#[tokio::test]
async fn cross_site_browser_requests_change_nothing() {
    let server = Setup::rules(RULES).start().await;
    let own = format!("Origin: http://{}", server.admin);
    for (origin, expected) in
        [("Origin: http://evil.example", 403), ("Origin: null", 403), (own.as_str(), 200)]
    {
        assert_eq!(code(&server, "POST", "/api/v1/reload", &[origin]).await, expected, "{origin}");
    }
    for path in ["/api/v1/top", "/api/v1/blocks"] {
        assert_eq!(code(&server, "GET", path, &["Origin: http://evil.example"]).await, 403, "{path}");
    }
    // A browser sends these for any page without a preflight request: their hits would be spent.
    let others = [
        &["Origin: http://evil.example"][..],
        &["Sec-Fetch-Site: cross-site"],
        &["Sec-Fetch-Site: same-site"],
    ];
    for path in ["/json", "/api/v1/explain"] {
        for headers in others {
            let headers = [headers, &["Content-Type: text/plain"]].concat();
            assert_eq!(code(&server, "POST", path, &headers).await, 403, "{path} {headers:?}");
        }
    }
    let all = remaining(&server).await;
    assert_eq!(all, 1_000_000, "nothing was spent");
    for own in [own.as_str(), "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"] {
        assert_eq!(code(&server, "POST", "/json", &[own]).await, 200, "{own}");
    }
    assert_eq!(remaining(&server).await, all - 3, "the dashboard itself may");
}

/// The remaining hits of the limit that `/json` uses here.
async fn remaining(server: &Server) -> u64 {
    let key = r#"{"domain": "d", "entries": [{"key": "k", "value": "v"}]}"#;
    let page = post(server.admin, "/api/v1/keys/lookup", key).await;
    let found: serde_json::Value = serde_json::from_str(&page.body).unwrap();
    found["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{found}"))
}

// Seen failing on: 200 for a page of another site that knows a port open to its network.
#[tokio::test]
async fn cross_site_requests_are_refused_on_an_open_port() {
    let mut server = Setup::rules(RULES).with("server.admin_host", "0.0.0.0").start().await;
    server.admin.set_ip([127, 0, 0, 1].into());
    assert_eq!(code(&server, "POST", "/json", &["Origin: http://evil.example"]).await, 403);
    assert_eq!(code(&server, "POST", "/json", &[]).await, 200);
}

// Seen failing on: writes accepted from every address.
#[tokio::test]
async fn open_port_without_token_accepts_no_writes() {
    let mut server = Setup::rules(RULES).with("server.admin_host", "0.0.0.0").start().await;
    server.log.next("is reachable from the network without authentication").await;
    server.admin.set_ip([127, 0, 0, 1].into());
    let page = post(server.admin, "/api/v1/reload", "").await;
    assert!(page.code == 403 && page.body.contains("set `security.admin.token_file`"), "{page:?}");
    assert_eq!(post(server.admin, "/json", CHECK).await.code, 200);
    assert_eq!(get(server.admin, "/rlconfig").await.code, 200);
    // Nor does it list the keys of clients.
    assert_eq!(get(server.admin, "/api/v1/top?by=denied").await.code, 403);
    assert_eq!(get(server.admin, "/api/v1/blocks?limit=9").await.code, 403);
    // Nor the remaining hits of one of them.
    let key = r#"{"domain": "d", "entries": [{"key": "k", "value": "v"}]}"#;
    for what in ["lookup", "reset", "grant", "block", "unblock"] {
        assert_eq!(post(server.admin, &format!("/api/v1/keys/{what}"), key).await.code, 403, "{what}");
    }
    // With client certificates required, callers are authenticated.
    let ours = Authority::new();
    let (issued, client) = (ours.issue("server"), ours.issue("client"));
    let server = Setup::rules(RULES)
        .with("server.admin_host", "0.0.0.0")
        .with("security.admin.tls.cert", issued.cert.to_str().unwrap())
        .with("security.admin.tls.key", issued.key.to_str().unwrap())
        .with("security.admin.tls.client_ca", ours.file().to_str().unwrap())
        .start()
        .await;
    let url = format!("https://127.0.0.1:{}/api/v1/reload", server.admin.port());
    let (ca, cert, key) = (ours.file(), client.cert, client.key);
    let with_certificate =
        ["--cacert", ca.to_str().unwrap(), "--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert_eq!(curl(&[&["-X", "POST", url.as_str()], &with_certificate[..]].concat()).await.code(), 200);
}
