//! The service is stopped and started again, on the same Unix socket.

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
fn while_the_service_is_down_requests_pass_if_envoy_is_told_so() {
    let Some(mut stack) = start(false) else { return };
    assert_eq!([ask(&stack), ask(&stack)], [200, 429]);
    stack.stop_service();
    assert_eq!([ask(&stack), ask(&stack)], [200, 200]);
    assert_eq!(stack.envoy.counted("cluster.upstream.ratelimit.failure_mode_allowed"), 2);
    stack.start_service_again();
    // Its memory is its process: the limit is whole again, and holds again.
    assert_eq!([ask(&stack), ask(&stack)], [200, 429]);
}

#[test]
fn while_the_service_is_down_requests_are_refused_if_envoy_is_told_so() {
    let Some(mut stack) = start(true) else { return };
    assert_eq!([ask(&stack), ask(&stack)], [200, 429]);
    stack.stop_service();
    assert_eq!([ask(&stack), ask(&stack)], [500, 500]);
    stack.start_service_again();
    assert_eq!([ask(&stack), ask(&stack)], [200, 429]);
}

#[test]
fn a_service_that_is_replaced_again_and_again_never_leaves_envoy_without_it() {
    let Some(mut stack) = start(true) else { return };
    for round in 0..5 {
        assert_eq!([ask(&stack), ask(&stack)], [200, 429], "round {round}");
        stack.stop_service();
        stack.start_service_again();
    }
}
