//! Costs that are known after the response, such as tokens of a language model: the request peeks, the response
//! debits, and a refund returns hits.

use crate::stack::{Setup, Stack};
use serde_json::{Value, json};

fn by_user() -> Value {
    json!([{"request_headers": {"header_name": "x-user", "descriptor_key": "user"}}])
}

/// A request without cost that has the upstream report this number of tokens.
fn ask(stack: &Stack, tokens: u64) -> u16 {
    stack.status("/", &[("x-user", "ada"), ("x-respond-x-tokens", &tokens.to_string())])
}

fn peek_then_debit(rules: &str) -> Setup {
    Setup::new(rules).rate_limits(&json!([
        {"actions": by_user(), "hits_addend": {"number": 0}},
        {
            "actions": by_user(),
            "hits_addend": {"format": "%RESPONSE_HEADER(x-tokens)%"},
            "apply_on_stream_done": true,
        },
    ]))
}

#[test]
fn peek_on_the_request_costs_nothing() {
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let peek = json!([{"actions": by_user(), "hits_addend": {"number": 0}}]);
    let Some(stack) = Setup::new(rules).rate_limits(&peek).start() else { return };
    assert_eq!([(); 5].map(|()| ask(&stack, 0)), [200; 5]);
    assert_eq!(stack.service().counted("total_hits", "user"), 0);
}

#[test]
fn debit_on_the_response_refuses_the_next_request() {
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 1000}}\n";
    let Some(stack) = peek_then_debit(rules).start() else { return };
    assert_eq!(ask(&stack, 600), 200);
    stack.service().until_counted("total_hits", "user", 600);
    // 500 with 400 left: the cost was unknown, so it passes, and the limit is exceeded afterwards.
    assert_eq!(ask(&stack, 500), 200);
    stack.service().until_counted("total_hits", "user", 1_100);
    assert_eq!([ask(&stack, 1), ask(&stack, 1)], [429, 429]);
    // Another user is not affected.
    assert_eq!(stack.status("/", &[("x-user", "bob"), ("x-respond-x-tokens", "1")]), 200);
}

#[test]
fn hits_addend_of_request_is_spent_immediately() {
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 10}}\n";
    let hits = json!([{"actions": by_user(), "hits_addend": {"format": "%REQ(x-weight)%"}}]);
    let Some(stack) = Setup::new(rules).rate_limits(&hits).start() else { return };
    let weigh = |weight| stack.status("/", &[("x-user", "ada"), ("x-weight", weight)]);
    assert_eq!(["4", "6", "0", "1"].map(weigh), [200, 200, 200, 429]);
}

#[test]
fn refund_on_the_response_restores_the_request() {
    let rules = "- {key: user, rate_limit: {unit: year, requests_per_unit: 2}}\n";
    let limits = json!([
        {"actions": by_user()},
        {
            "actions": by_user(),
            "hits_addend": {"format": "%RESPONSE_HEADER(x-tokens)%", "is_negative_hits": true},
            "apply_on_stream_done": true,
        },
    ]);
    let Some(stack) = Setup::new(rules).rate_limits(&limits).start() else { return };
    for refunded in 1..=5 {
        assert_eq!(ask(&stack, 1), 200, "request {refunded}");
        stack.service().until_counted("total_negative_hits", "user", refunded);
    }
    // A refund of more than was spent restores the whole limit and no more.
    assert_eq!(ask(&stack, 100), 200);
    stack.service().until_counted("total_negative_hits", "user", 105);
    assert_eq!([(); 3].map(|()| ask(&stack, 0)), [200, 200, 429]);
}
