//! A request with a single charge.

use hivemind_core::store::{Charge, Context, Key, Parts};
use hivemind_core::{Limit, Timestamp};
use hivemind_mesh::{Node, NodeDecision};

/// Decides one request at a node.
pub(crate) fn decide(node: &mut Node, key: Key, limit: &Limit, now: Timestamp) -> NodeDecision {
    let charge = Charge::spend(key, Parts { domain: "", entries: &[] }, limit);
    node.decide(&[charge], Context::at(now))
}
