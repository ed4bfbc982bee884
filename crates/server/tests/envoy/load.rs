//! Envoy's default timeout of 20 ms under load.

use crate::stack::Setup;
use hivemind_testkit::envoy::http::Connection;
use serde_json::json;

const REQUESTS: u64 = 1_000;
/// Rounds that a stalled machine may spoil before the test fails.
const ROUNDS: u64 = 10;

#[test]
fn thousand_calls_finish_within_envoys_default_timeout() {
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 1000000}}\n";
    let by_user = json!([{"request_headers": {"header_name": "x-user", "descriptor_key": "user"}}]);
    let Some(stack) = Setup::new(rules).actions(&[by_user]).filter(json!({"timeout": null})).start() else {
        return;
    };
    let mut client = Connection::tcp(stack.envoy.address).unwrap();
    let errors = || stack.envoy.counted("cluster.upstream.ratelimit.error");
    let undisturbed = (1..=ROUNDS).any(|round| {
        let before = errors();
        let passed = (0..REQUESTS)
            .filter(|number| {
                let user = format!("user-{}", number % 100);
                client.get("/", &[("x-user", &user)]).unwrap().status == 200
            })
            .count() as u64;
        let failed = errors() - before;
        println!("round {round}: {failed} of {REQUESTS} calls failed");
        assert_eq!(passed + failed, REQUESTS, "every other call passes");
        failed == 0
    });
    assert!(undisturbed, "in each of {ROUNDS} rounds some call took longer than 20 ms");
}
