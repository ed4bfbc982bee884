//! Isolation: a node that has never reached any of its configured peers. A wrong CA, a different `cluster_id` or a closed
//! port leads to several meshes of one node each, and every one admits the whole limit.

use super::context::NodeContext;
use super::lock;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

/// No configured peer was ever connected.
///
/// ```
/// use hivemind_mesh_net::{Isolation, Mesh};
///
/// fn warning(mesh: &Mesh) -> Option<String> {
///     mesh.isolation().map(|Isolation { addresses, reason, .. }| format!("none of {addresses} peers connected: {reason}"))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Isolation {
    /// Number of addresses of configured peers, without this node's own.
    pub addresses: usize,
    /// Why the last dial of one of them failed, or why a name was not resolved.
    pub reason: String,
}

impl NodeContext {
    /// The isolation of this node: set after a failed dial or lookup, and until the first connection.
    pub(super) fn isolation(&self) -> Option<Isolation> {
        if self.has_connected.load(Relaxed) || !self.lookups.settings.has_names() {
            return None;
        }
        let found = self.lookups.named();
        if found.is_empty() {
            return self.lookups.failure().map(|reason| Isolation { addresses: 0, reason });
        }
        let own = self.advertised.0.map(|own| SocketAddr::new(own, self.advertised.1));
        let schedule = lock(&self.dial_schedule);
        let is_other = |address: &&SocketAddr| {
            let is_itself = schedule.last_answer(**address).is_some_and(|(_, name)| name == self.name);
            own != Some(**address) && !is_itself
        };
        let others: Vec<SocketAddr> = found.iter().filter(is_other).copied().collect();
        let (address, reason) =
            others.iter().find_map(|address| schedule.failure(*address).map(|reason| (address, reason)))?;
        Some(Isolation { addresses: others.len(), reason: format!("{address}: {reason}") })
    }
}
