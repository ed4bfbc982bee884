//! Outages: the service is stopped and started again on the same Unix socket.

use crate::actions::once;
use crate::stack::{Setup, Stack};
use serde_json::json;

fn start(failure_mode_deny: bool) -> Option<Stack> {
    let all = json!([{"generic_key": {"descriptor_value": "all"}}]);
    Setup::new(&once("generic_key", "all"))
        .actions(&[all])
        .filter(json!({"failure_mode_deny": failure_mode_deny}))
        .over_unix_socket()
        .start()
}

fn ask(stack: &Stack) -> u16 {
    stack.status("/", &[])
}

#[test]
fn service_outage_passes_requests_if_envoy_fails_open() {
    let Some(mut stack) = start(false) else { return };
    assert_eq!([ask(&stack), ask(&stack)], [200, 429]);
    stack.stop_service();
    assert_eq!([ask(&stack), ask(&stack)], [200, 200]);
    assert_eq!(stack.envoy.counted("cluster.upstream.ratelimit.failure_mode_allowed"), 2);
    stack.start_service_again();
    // Counters are in the process's memory: after a restart the limit is whole again.
    assert_eq!([ask(&stack), ask(&stack)], [200, 429]);
}

#[test]
fn service_outage_refuses_requests_if_envoy_fails_closed() {
    let Some(mut stack) = start(true) else { return };
    assert_eq!([ask(&stack), ask(&stack)], [200, 429]);
    stack.stop_service();
    assert_eq!([ask(&stack), ask(&stack)], [500, 500]);
    stack.start_service_again();
    assert_eq!([ask(&stack), ask(&stack)], [200, 429]);
}

#[test]
fn repeatedly_restarted_service_is_always_reached_by_envoy() {
    let Some(mut stack) = start(true) else { return };
    for round in 0..5 {
        assert_eq!([ask(&stack), ask(&stack)], [200, 429], "round {round}");
        stack.stop_service();
        stack.start_service_again();
    }
}
