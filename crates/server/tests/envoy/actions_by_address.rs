//! Actions that use the client's address.

use crate::actions::once;
use crate::stack::{Setup, Stack};
use serde_json::{Value, json};

fn start(action: &Value, key: &str, value: &str) -> Option<Stack> {
    Setup::new(&once(key, value)).actions(&[json!([action])]).start()
}

fn from(stack: &Stack, address: &str) -> u16 {
    stack.status("/", &[("x-forwarded-for", address)])
}

#[test]
fn remote_address_limits_one_client_only() {
    let Some(stack) = start(&json!({"remote_address": {}}), "remote_address", "203.0.113.9") else { return };
    let answers = ["203.0.113.9", "203.0.113.9", "203.0.113.10"].map(|client| from(&stack, client));
    assert_eq!(answers, [200, 429, 200]);
}

#[test]
fn masked_remote_address_limits_an_ipv4_network() {
    let action = json!({"masked_remote_address": {"v4_prefix_mask_len": 24, "v6_prefix_mask_len": 64}});
    let Some(stack) = start(&action, "masked_remote_address", "203.0.113.0/24") else { return };
    let answers = ["203.0.113.9", "203.0.113.10", "198.51.100.1"].map(|client| from(&stack, client));
    assert_eq!(answers, [200, 429, 200]);
}

#[test]
fn masked_remote_address_limits_an_ipv6_network() {
    let action = json!({"masked_remote_address": {"v4_prefix_mask_len": 24, "v6_prefix_mask_len": 64}});
    let Some(stack) = start(&action, "masked_remote_address", "2001:db8::/64") else { return };
    let answers = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|client| from(&stack, client));
    assert_eq!(answers, [200, 429, 200]);
}

#[test]
fn remote_address_match_limits_addresses_in_range() {
    let action = json!({"remote_address_match": {
        "descriptor_key": "from",
        "descriptor_value": "office",
        "address_matcher": {"ranges": [{"address_prefix": "198.51.100.0", "prefix_len": 24}]},
    }});
    let Some(stack) = start(&action, "from", "office") else { return };
    let answers = ["198.51.100.1", "198.51.100.2", "203.0.113.9"].map(|client| from(&stack, client));
    assert_eq!(answers, [200, 429, 200]);
}
