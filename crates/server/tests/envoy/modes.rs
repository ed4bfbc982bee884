//! Rules that do not refuse: shadow mode, replacements and exceptions.

use crate::stack::{Setup, Stack};
use serde_json::{Value, json};

fn header(name: &str) -> Value {
    json!([{"request_headers": {"header_name": name, "descriptor_key": name}}])
}

fn ada(stack: &Stack, times: usize) -> Vec<u16> {
    (0..times).map(|_| stack.status("/", &[("x-user", "ada")])).collect()
}

#[test]
fn shadow_rule_passes_requests_and_counts_refusals() {
    let rules = "- {key: x-user, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let Some(stack) = Setup::new(rules)
        .actions(&[header("x-user")])
        .filter(json!({"enable_x_ratelimit_headers": "DRAFT_VERSION_03"}))
        .start()
    else {
        return;
    };
    assert_eq!(ada(&stack, 3), [200, 200, 200]);
    assert_eq!(stack.get("/", &[("x-user", "ada")]).header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(stack.service().counted("shadow_mode", "x-user"), 3);
    assert_eq!(stack.service().counted("total_hits", "x-user"), 4);
}

#[test]
fn global_shadow_mode_passes_all_requests() {
    let rules = "- {key: x-user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let setup = Setup::new(rules).actions(&[header("x-user")]).settings(json!({"shadow_mode": true}));
    let Some(stack) = setup.start() else { return };
    assert_eq!(ada(&stack, 3), [200, 200, 200]);
    assert_eq!(stack.service().counted("over_limit", "x-user"), 2);
}

#[test]
fn envoy_shadow_mode_passes_refused_requests() {
    let rules = "- {key: x-user, rate_limit: {unit: year, requests_per_unit: 1}}\n";
    let never =
        json!({"default_value": {"numerator": 0, "denominator": "HUNDRED"}, "runtime_key": "enforced"});
    let setup = Setup::new(rules).actions(&[header("x-user")]).filter(json!({"filter_enforced": never}));
    let Some(stack) = setup.start() else { return };
    assert_eq!(ada(&stack, 3), [200, 200, 200]);
    assert_eq!(stack.envoy.counted("cluster.upstream.ratelimit.over_limit"), 2);
}

#[test]
fn replacing_limit_is_the_only_one_counted() {
    let rules = "
- {key: x-user, rate_limit: {name: everyone, unit: year, requests_per_unit: 1}}
- {key: x-plan, value: gold, rate_limit: {name: gold, unit: year, requests_per_unit: 3, replaces: [{name: everyone}]}}
";
    let setup = Setup::new(rules).actions(&[header("x-user"), header("x-plan")]);
    let Some(stack) = setup.start() else { return };
    let gold = [("x-user", "ada"), ("x-plan", "gold")];
    assert_eq!([(); 4].map(|()| stack.status("/", &gold)), [200, 200, 200, 429]);
    // The replaced limit was not counted either.
    assert_eq!(ada(&stack, 2), [200, 429]);
}

#[test]
fn unlimited_value_is_never_refused() {
    let rules = "
- {key: x-user, rate_limit: {unit: year, requests_per_unit: 1}}
- {key: x-user, value: monitor, rate_limit: {unlimited: true}}
";
    let Some(stack) = Setup::new(rules).actions(&[header("x-user")]).start() else { return };
    assert_eq!(ada(&stack, 2), [200, 429]);
    assert_eq!([(); 5].map(|()| stack.status("/", &[("x-user", "monitor")])), [200; 5]);
}

#[test]
fn unlimited_replacement_exempts_from_the_replaced_limit() {
    let rules = "
- {key: x-user, rate_limit: {name: everyone, unit: year, requests_per_unit: 1}}
- {key: x-staff, rate_limit: {unlimited: true, replaces: [{name: everyone}]}}
";
    let setup = Setup::new(rules).actions(&[header("x-user"), header("x-staff")]);
    let Some(stack) = setup.start() else { return };
    let staff = [("x-user", "ada"), ("x-staff", "yes")];
    assert_eq!([(); 5].map(|()| stack.status("/", &staff)), [200; 5]);
    assert_eq!(ada(&stack, 2), [200, 429]);
}

#[test]
fn request_refused_by_one_limit_spends_nothing_on_others() {
    let rules = "
- {key: x-user, rate_limit: {unit: year, requests_per_unit: 1}}
- {key: x-team, rate_limit: {unit: year, requests_per_unit: 2}}
";
    let setup = Setup::new(rules).actions(&[header("x-user"), header("x-team")]);
    let Some(stack) = setup.start() else { return };
    let asks = |user| stack.status("/", &[("x-user", user), ("x-team", "blue")]);
    assert_eq!(["ada", "ada", "ada", "bob", "eve"].map(asks), [200, 429, 429, 200, 429]);
}
