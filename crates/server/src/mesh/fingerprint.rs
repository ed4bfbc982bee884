//! What tells rules apart: nodes with equal rules have equal numbers, whatever their files are called and
//! whatever version of this program reads them.

use crate::config::gateway::Routing;
use hivemind_core::Rules;
use sha2::{Digest, Sha256};

/// Of the rules of the rate limit service.
pub(super) fn of_rules(rules: &Rules) -> String {
    let mut lines: Vec<String> =
        rules.declarations().map(|(domain, path, rule)| format!("{domain:?} {path:?} {rule:?}")).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Of the limits of the gateway. Where requests go is each node's own.
pub(super) fn of_gateway(routing: &Routing) -> String {
    format!("{:?}", routing.limits())
}

/// One number of both; never 0, which says nothing.
pub(super) fn of_all(rules: &str, gateway: &str) -> u32 {
    let digest = Sha256::new().chain_update(rules).chain_update([0]).chain_update(gateway).finalize();
    let number = digest.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    number.max(1)
}
