//! Traffic at a server while its dashboard is open.

use hivemind_testkit::{Server, post, request};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::AbortHandle;

pub(crate) const RULES: &str = "
domain: shop
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}
- {key: path, value: /search, rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 10, burst: 20}}
- {key: address, rate_limit: {unit: hour, requests_per_unit: 100000}}
";

/// Requests that are sent until this is dropped.
pub(crate) struct Traffic(AbortHandle);

impl Drop for Traffic {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends requests until dropped; every second one is of a user over the limit.
pub(crate) async fn traffic(server: &Server) -> Traffic {
    let mut client = server.client().await;
    let task = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for number in 0_u64.. {
            ticks.tick().await;
            let text = if number.is_multiple_of(2) { "user=mallory" } else { "address=192.0.2.7" };
            // The server may be stopped during a request.
            let _ = client.should_rate_limit(request("shop", text)).await;
        }
    });
    Traffic(task.abort_handle())
}

/// Sends one request to `/json` and returns the status of the response.
pub(crate) async fn ask(admin: SocketAddr, domain: &str, entries: &[(&str, &str)]) -> u16 {
    let entries: Vec<Value> =
        entries.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    let body = json!({"domain": domain, "descriptors": [{"entries": entries}]});
    post(admin, "/json", &body.to_string()).await.code
}
