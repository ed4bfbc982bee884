//! Statistics of gateway requests: counts, top keys, and recent decisions.

use super::{Gateway, app, configuration};
use hivemind_testkit::get;
use serde_json::{Value, json};

async fn get_json(gateway: &Gateway, path: &str) -> Value {
    let page = get(gateway.admin, path).await;
    assert_eq!(page.code, 200, "{path}: {page:?}");
    serde_json::from_str(&page.body).unwrap()
}

#[tokio::test]
async fn gateway_requests_are_counted_ranked_and_listed() {
    let gateway = Gateway::start(&configuration(app("a").await, 2)).await;
    for code in [200, 200, 429] {
        assert_eq!(get(gateway.front, "/x").await.code, code);
    }
    let stats = get_json(&gateway, "/api/v1/stats").await;
    assert_eq!(stats["totals"], json!({"ok": 2, "over_limit": 1, "errors": 0}));
    let domains = stats["domains"].as_array().unwrap();
    let domain = domains.iter().find(|domain| domain["domain"] == "app").unwrap();
    assert_eq!((&domain["ok"], &domain["over_limit"]), (&2.into(), &1.into()));
    assert!(domain["p99_ms"].as_f64().unwrap() > 0.0);
    let rules = stats["rules"].as_array().unwrap();
    let of_key = |key: &str| rules.iter().find(|rule| rule["domain"] == "app" && rule["key"] == key).unwrap();
    assert_eq!((&of_key("*")["ok"], &of_key("*")["over_limit"]), (&2.into(), &1.into()));
    let entries = json!([
        {"key": "service", "value": "app"},
        {"key": "endpoint", "value": "*"},
        {"key": "client", "value": "ip:127.0.0.1"},
    ]);
    let top = get_json(&gateway, "/api/v1/top").await;
    assert_eq!(
        top["keys"],
        json!([{"domain": ":http", "entries": entries, "count": 1, "error": 0, "is_cut": false, "rule": null}])
    );
    let decisions = get_json(&gateway, "/api/v1/decisions?outcome=denied").await;
    let [denied] = decisions["items"].as_array().unwrap().as_slice() else { panic!("{decisions}") };
    assert_eq!((&denied["door"], &denied["domain"]), (&"gateway".into(), &":http".into()));
    let expected =
        json!([{"entries": entries, "hits": 1, "code": "OVER_LIMIT", "rule": null, "remaining": 0}]);
    assert_eq!(denied["descriptors"], expected);
}
