//! Whether this node is alone though its configuration names others: a wrong CA, another `cluster_id` or a
//! closed port make meshes of one node each, every one of which has the whole limit.

use super::host::Host;
use super::lock;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

/// None of the peers that the configuration names was ever met.
///
/// ```
/// use hivemind_mesh_net::{Mesh, Unmet};
///
/// fn warning(mesh: &Mesh) -> Option<String> {
///     mesh.unmet().map(|Unmet { addresses, reason, .. }| format!("none of {addresses} peers was met: {reason}"))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmet {
    /// At how many addresses they are, this node's own left out.
    pub addresses: usize,
    /// Why one of them could not be reached the last time, or why no name could be looked up.
    pub reason: String,
}

impl Host {
    /// That nobody was ever connected, once something was in vain.
    pub(super) fn unmet(&self) -> Option<Unmet> {
        if self.has_met.load(Relaxed) || !self.lookout.discovery.has_names() {
            return None;
        }
        let found = self.lookout.named();
        if found.is_empty() {
            return self.lookout.reason().map(|reason| Unmet { addresses: 0, reason });
        }
        let own = self.advertised.0.map(|own| SocketAddr::new(own, self.advertised.1));
        let dialer = lock(&self.dialer);
        let is_other = |address: &&SocketAddr| {
            let is_itself = dialer.answered(**address).is_some_and(|(_, name)| name == self.name);
            own != Some(**address) && !is_itself
        };
        let others: Vec<SocketAddr> = found.iter().filter(is_other).copied().collect();
        let (address, reason) =
            others.iter().find_map(|address| dialer.reason(*address).map(|reason| (address, reason)))?;
        Some(Unmet { addresses: others.len(), reason: format!("{address}: {reason}") })
    }
}
