//! The traces recorded from nginx's `limit_req`, through the layer and over a socket: each of
//! their clients by its own API key id, each event at its own time.

use crate::support::{Server, api, bucket, clock, limiter};
use hivemind_core::Timestamp;
use serde_json::Value;

fn whole(number: &Value) -> u32 {
    format!("{}", number.as_f64().unwrap()).parse().unwrap()
}

/// Those with two limits in one place are held by core's test: a request has one bucket here. Seen failing
/// with a burst that is nginx's own and not one more.
#[tokio::test]
async fn every_recorded_event_of_one_limit_is_decided_as_nginx_did() {
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
                continue; // nginx limits no empty key; here nobody has one.
            }
            clock.set(Timestamp::from_millis(event[0].as_u64().unwrap()));
            let answer = server.ask("GET /", &[("X-API-Key-ID", key)]).await;
            let told = format!("{}: {event} got {answer:?}", trace["name"]);
            assert_eq!(answer.status, if event[2].as_bool().unwrap() { 200 } else { 429 }, "{told}");
            if let Some(remaining) = event[3].as_u64() {
                assert_eq!(answer.remaining(), remaining, "{told}");
            }
            if let Some(wait_ms) = event[4].as_u64() {
                let seconds = wait_ms.div_ceil(1_000).max(1).to_string();
                assert_eq!(answer.header("retry-after"), Some(seconds.as_str()), "{told}");
            }
            events += 1;
        }
    }
    assert!(events > 200, "only {events} events");
}
