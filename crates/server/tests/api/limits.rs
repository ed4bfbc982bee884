//! The gateway's limits in the admin API.

use crate::RULES;
use crate::http::ok_json;
use hivemind_testkit::{Setup, get, within};
use serde_json::json;

pub(crate) const GATEWAY: &str = "
gateway:
  listen: 127.0.0.1:0
  platform: {max_requests: 200, requests: 100, window: 60s}
  services:
  - id: shop
    upstream: http://192.0.2.1:3000
    limits: {requests: 500, burst: 50}
    endpoints:
    - {id: login, path: /login, methods: [POST, PUT], limits: {requests: 5}}
";

// Seen failing on: levels consulted in the wrong order.
#[tokio::test]
async fn gateway_limits_show_field_sources_and_caps() {
    let server = Setup::rules(RULES).start().await;
    assert_eq!(ok_json(&get(server.admin, "/api/v1/limits").await), json!({"items": [], "next": null}));
    let server = Setup::rules(RULES).config(GATEWAY).start().await;
    let limits = ok_json(&get(server.admin, "/api/v1/limits").await);
    let items = limits["items"].as_array().unwrap();
    let of = |service: &str, kind: &str, is_endpoint: bool| {
        let found = items.iter().find(|item| {
            item["service"] == service && item["kind"] == kind && item["endpoint"].is_object() == is_endpoint
        });
        found.unwrap_or_else(|| panic!("{service} {kind}: {limits}"))
    };
    let whole = of("shop", "http", false);
    assert_eq!((&whole["capped"], &whole["limit"]["requests"]), (&json!(true), &json!(200)));
    assert_eq!(whole["configured"]["requests"], 500);
    assert_eq!(
        (&whole["from"]["requests"], &whole["from"]["window"]),
        (&json!("service"), &json!("platform"))
    );
    assert_eq!(
        (&whole["from"]["burst"], &whole["from"]["algorithm"]),
        (&json!("service"), &json!("built_in"))
    );
    let login = of("shop", "http", true);
    assert_eq!(login["endpoint"], json!({"name": "login", "methods": ["POST", "PUT"], "path": "/login"}));
    assert_eq!((&login["limit"]["requests"], &login["limit"]["burst"]), (&json!(5), &json!(50)));
    assert_eq!(
        (&login["from"]["requests"], &login["from"]["burst"]),
        (&json!("endpoint"), &json!("service"))
    );
    assert_eq!((&login["capped"], &login["limit"]["period_ms"]), (&json!(false), &json!(60_000)));
    let page = ok_json(&within("a page", get(server.admin, "/api/v1/limits?limit=1")).await);
    assert!(page["next"].is_string() && page["items"].as_array().unwrap().len() == 1, "{page}");
}
