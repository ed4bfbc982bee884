//! Access to the admin port: the `Host` header, cross-site requests, and anonymous callers on an open port.

use crate::RULES;
use crate::http::ask;
use hivemind_testkit::authority::put;
use hivemind_testkit::{Server, Setup, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

// Seen failing on: 200 for each of these, when the host was not checked.
#[tokio::test]
async fn foreign_host_without_token_gets_421_on_loopback() {
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
        // For the browser this is one origin, so the request looks like one of the dashboard's own.
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
            "probes may use any host name"
        );
    }
    // A browser cannot open a Unix socket.
    let mut connection = UnixStream::connect(uds).await.unwrap();
    connection
        .write_all(b"GET /api/v1/rules HTTP/1.1\r\nhost: any.name\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    within("a page", connection.read_to_string(&mut text)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

// Seen failing on: components shown to all callers if no token is set.
#[tokio::test]
async fn component_health_requires_access_to_configuration() {
    let probes = [("/readyz?verbose", "components"), ("/readyz", "rules.yaml")];
    let (own, mut open) = (
        broken(Setup::rules(RULES)).await,
        broken(Setup::rules(RULES).with("server.admin_host", "0.0.0.0")).await,
    );
    open.admin.set_ip([127, 0, 0, 1].into());
    for (path, expected) in probes {
        let answer = ask(own.admin, "GET", path, &[], "").await;
        assert!(answer.code == 200 && answer.body.contains(expected), "{path}: {}", answer.body);
        for (at, header) in [
            (own.admin, "host: evil.example"),
            (own.admin, "origin: http://evil.example"),
            (own.admin, "sec-fetch-site: cross-site"),
            (open.admin, "accept: */*"),
        ] {
            let answer = ask(at, "GET", path, &[header], "").await;
            let is_status_only = ["ready\n", "{\"status\":\"ready\"}\n"].contains(&answer.body.as_str());
            assert!(answer.code == 200 && is_status_only, "{path} {header}: {}", answer.body);
        }
    }
}

/// A service whose rule file became invalid after the start.
async fn broken(setup: Setup) -> Server {
    let mut server = setup.start().await;
    put(&server.path().join("rules.yaml"), "nonsense: [");
    server.log.next("invalid rules; the previous").await;
    server
}

// Seen failing on: a dashboard that needs the token.
#[tokio::test]
async fn token_allows_any_host_and_dashboard_needs_no_token() {
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
    for (path, expected) in [("/", 200), ("/assets/none.js", 404)] {
        assert_eq!(ask(server.admin, "GET", path, &[], "").await.code, expected, "{path}");
        assert_eq!(ask(server.admin, "POST", path, &[], "").await.code, 401, "{path}");
    }
}

// Seen failing on: 200 for requests that a browser sends without an origin.
#[tokio::test]
async fn cross_site_embeds_are_rejected() {
    let server = Setup::rules(RULES).start().await;
    for (site, expected) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        let site = format!("sec-fetch-site: {site}");
        assert_eq!(ask(server.admin, "GET", "/api/v1/top", &[&site], "").await.code, expected, "{site}");
    }
    for path in ["/api/v1/rules", "/api/v1/nothing", "/healthz", "/rlconfig", "/nowhere", "/"] {
        let answer = ask(server.admin, "GET", path, &[], "").await;
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
    }
    // Unknown paths have a problem as their body too.
    for path in ["/nowhere", "/api/v1", "/api/v1/nothing"] {
        let answer = ask(server.admin, "GET", path, &[], "").await;
        assert_eq!((answer.code, answer.header("content-type")), (404, Some("application/problem+json")));
    }
}

/// The endpoints that anonymous callers may read. A new endpoint is added here or is rejected for them.
const ANONYMOUS: [&str; 8] = [
    "get /api/v1/limits",
    "get /api/v1/log",
    "get /api/v1/openapi.json",
    "get /api/v1/peers",
    "get /api/v1/rules",
    "get /api/v1/stats",
    "get /api/v1/version",
    "post /api/v1/explain",
];

/// Rules for single clients, by credentials and names.
const CLIENT_RULES: &str = "
domain: shop
descriptors:
- {key: api_key, value: sk_live_of_ada, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: api_key, value: 'sk_test_of_ada*', rate_limit: {unit: day, requests_per_unit: 2}}
- {key: path, value: '/cb?token=of_ada', rate_limit: {unit: day, requests_per_unit: 2}}
- {key: user, value: ada, rate_limit: {unit: day, requests_per_unit: 2}}
";

// Seen failing on: values as in the file, for every caller.
#[tokio::test]
async fn anonymous_rule_list_hashes_credentials_and_search_skips_them() {
    let requests = [
        ("GET", "/rlconfig", ""),
        ("GET", "/api/v1/rules", ""),
        ("GET", "/api/v1/stats", ""),
        (
            "POST",
            "/api/v1/explain",
            r#"{"domain": "shop", "entries": [{"key": "api_key", "value": "sk_test"}]}"#,
        ),
        (
            "POST",
            "/api/v1/explain",
            r#"{"domain": "shop", "entries": [{"key": "path", "value": "/cb?token=of_ada"}]}"#,
        ),
    ];
    for (host, is_anonymous) in [("0.0.0.0", true), ("127.0.0.1", false)] {
        let mut server = Setup::rules(CLIENT_RULES).with("server.admin_host", host).start().await;
        server.admin.set_ip([127, 0, 0, 1].into());
        for entry in ["api_key=sk_live_of_ada", "path=/cb?token=of_ada", "user=ada"] {
            server.ask("shop", entry).await;
        }
        for (method, path, body) in requests {
            let answer = ask(server.admin, method, path, &[], body).await;
            // The caller's own value may be in the response.
            let own = if body.contains("of_ada") { "sk_" } else { "of_ada" };
            let is_hidden = is_anonymous || path == "/api/v1/stats";
            let what = format!("{path} at {host}: {}", answer.body);
            assert_eq!(answer.code, 200, "{what}");
            assert!(answer.body.contains("sha256:") == is_hidden, "{what}");
            assert!(!(is_hidden && answer.body.contains(own)), "{what}");
            assert!(method == "POST" || answer.body.contains("ada"), "{what}");
        }
        for (sought, is_found) in [("sk_live_o", !is_anonymous), ("token", !is_anonymous), ("ada", true)] {
            let found = ask(server.admin, "GET", &format!("/api/v1/rules?q={sought}"), &[], "").await.json();
            assert_eq!(!found["items"].as_array().unwrap().is_empty(), is_found, "{sought} at {host}");
        }
    }
}

// Seen failing on: `/api/v1/config`, which was open because it was missing in a list; rules with the full path
// of their file.
#[tokio::test]
async fn anonymous_callers_read_only_the_listed_endpoints() {
    let mut server = Setup::rules(RULES).with("server.admin_host", "0.0.0.0").start().await;
    server.admin.set_ip([127, 0, 0, 1].into());
    let body = r#"{"domain": "shop", "entries": [{"key": "user", "value": "ada"}]}"#;
    for operation in crate::description::described() {
        let (method, path) = operation.split_once(' ').unwrap();
        let path = path.replace("{name}", "absent");
        let sent = if method == "get" { "" } else { body };
        let answer = ask(server.admin, &method.to_uppercase(), &path, &[], sent).await;
        let expected = if ANONYMOUS.contains(&operation.as_str()) { 200 } else { 403 };
        assert_eq!(answer.code, expected, "{operation}: {}", answer.body);
    }
    for path in ["/api/v1/nothing", "/api/v1/"] {
        assert_eq!(ask(server.admin, "GET", path, &[], "").await.code, 403, "{path}");
    }
    // Neither folder names nor blocks are shown to anonymous callers, though they may request an explanation.
    let explained = ask(server.admin, "POST", "/api/v1/explain", &[], body).await.json();
    assert_eq!(explained["end"]["blocked_until_ms"], serde_json::Value::Null);
    let listed = ask(server.admin, "GET", "/api/v1/rules", &[], "").await;
    let folder = server.path().to_str().unwrap().to_owned();
    for body in [&explained.to_string(), &listed.body] {
        assert!(!body.contains(&folder), "{folder} is in {body}");
    }
    assert_eq!(
        (&explained["end"]["rule"]["file"], &listed.json()["items"][0]["file"]),
        (&"rules.yaml".into(), &"rules.yaml".into())
    );
    assert!(explained["text"].as_str().unwrap().contains("\nrules.yaml:5: "), "{explained}");
}
