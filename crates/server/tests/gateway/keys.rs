//! A client of the gateway, looked up, reset and blocked by the name that its counter has.

use crate::harness::{Echo, Gateway, url};
use crate::support::{get, post};
use serde_json::{Value, json};

fn key(endpoint: &str) -> Value {
    json!({"domain": ":http", "entries": [
        {"key": "service", "value": "app"},
        {"key": "endpoint", "value": endpoint},
        {"key": "client", "value": "ip:127.0.0.1"},
    ]})
}

async fn asked(gateway: &Gateway, what: &str, body: &Value) -> (u16, Value) {
    let page = post(gateway.admin(), &format!("/api/v1/keys/{what}"), &body.to_string()).await;
    (page.code, serde_json::from_str(&page.body).unwrap())
}

// Seen failing on: a gateway that decides on its memory without a look at what is blocked.
#[tokio::test]
async fn a_client_of_the_gateway_is_looked_up_reset_and_blocked_by_its_counter_s_name() {
    let upstream = Echo::start().await;
    let limit = |burst: u32| json!({"requests": burst, "window": "24h", "burst": burst});
    let settings = json!({"services": [{
        "id": "app",
        "upstream": url(upstream.address),
        "limits": limit(5),
        "endpoints": [{"id": "login", "path": "/login", "limits": limit(2)}],
    }]});
    let gateway = Gateway::with(&settings).await;
    assert_eq!(gateway.get("/").await.code(), 200);
    let (code, found) = asked(&gateway, "lookup", &key("*")).await;
    assert_eq!(code, 200);
    assert_eq!(
        (&found["limits"][0]["burst"], &found["limits"][0]["remaining"]),
        (&json!(5), &json!(4)),
        "{found}"
    );
    let (_, found) = asked(&gateway, "lookup", &key("login")).await;
    assert_eq!(found["limits"][0]["remaining"], 2, "{found}");
    assert_eq!(asked(&gateway, "reset", &key("*")).await.1, json!({"reset": 1}));
    assert_eq!(gateway.get("/").await.header("x-ratelimit-remaining"), Some("4"));

    let mut block = key("*");
    block["for_ms"] = 3_600_000.into();
    let (code, blocked) = asked(&gateway, "block", &block).await;
    assert_eq!(code, 200, "{blocked}");
    let before = upstream.take().len();
    let refused = gateway.get("/").await;
    assert_eq!(refused.code(), 429);
    let retry: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(retry > 3_000, "{retry}");
    assert_eq!((upstream.take().len(), before), (0, 2), "it never gets there");
    assert_eq!(
        gateway.get("/login").await.code(),
        200,
        "an endpoint with a limit of its own is another counter"
    );
    assert!(get(gateway.admin(), "/api/v1/blocks").await.body.contains("ip:127.0.0.1"));
    assert_eq!(asked(&gateway, "unblock", &key("*")).await.1, json!({"was_blocked": true}));
    assert_eq!(gateway.get("/").await.code(), 200);
    // What the gateway has no counter for cannot be blocked.
    let mut nowhere = key("/nowhere");
    nowhere["for_ms"] = 1_000.into();
    assert_eq!(asked(&gateway, "block", &nowhere).await.0, 409);
}
