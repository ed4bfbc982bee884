//! Traces recorded from nginx's `limit_req`, replayed through the layer over a socket: one API key id per client,
//! with the recorded times.

use crate::support::{Server, api, bucket, clock, limiter};
use hivemind_core::Timestamp;
use serde_json::Value;

fn whole(number: &Value) -> u32 {
    format!("{}", number.as_f64().unwrap()).parse().unwrap()
}

/// Traces with two limits are replayed by core's test, because a request has one bucket here. Fails with nginx's
/// burst, which has to be one more here.
#[tokio::test]
async fn recorded_nginx_events_pass_the_layer_like_nginx() {
    let data: Value =
        serde_json::from_str(include_str!("../../../core/tests/data/nginx_limit_req.json")).unwrap();
    let mut events = 0;
    for trace in data["traces"].as_array().unwrap() {
        if trace["limits"].is_array() {
            continue;
        }
        let clock = clock();
        let limit = bucket(whole(&trace["rate_per_second"]), whole(&trace["nginx_burst"]) + 1);
        let server = Server::start(&limiter(api(limit).without_ip_guard(), &clock)).await;
        for event in trace["events"].as_array().unwrap() {
            let key = event[1].as_str().unwrap();
            if key.is_empty() {
                continue; // nginx does not limit an empty key; here a client cannot have one.
            }
            clock.set(Timestamp::from_millis(event[0].as_u64().unwrap()));
            let answer = server.ask("GET /", &[("X-API-Key-ID", key)]).await;
            let message = format!("{}: {event} got {answer:?}", trace["name"]);
            assert_eq!(answer.status, if event[2].as_bool().unwrap() { 200 } else { 429 }, "{message}");
            if let Some(remaining) = event[3].as_u64() {
                assert_eq!(answer.remaining(), remaining, "{message}");
            }
            if let Some(wait_ms) = event[4].as_u64() {
                let seconds = wait_ms.div_ceil(1_000).max(1).to_string();
                assert_eq!(answer.header("retry-after"), Some(seconds.as_str()), "{message}");
            }
            events += 1;
        }
    }
    assert!(events > 200, "only {events} events");
}
