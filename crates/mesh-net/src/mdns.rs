//! Multicast DNS: each node announces its address on the local network and records those of others. Announcements are not
//! secret and prove nothing; a peer proves its identity with a certificate. Silence does not mean death, because in a
//! network partition each side stops receiving the other's announcements.

use super::context::NodeContext;
use super::lock;
use super::name_lookup::AnnouncedAddresses;
use mdns_sd::{ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::Arc;

const SERVICE: &str = "_hivemind-mesh._udp.local.";
/// Property with the fingerprint of the mesh, so that nodes of other meshes are not dialed.
const MESH: &str = "mesh";
/// Maximum number of nodes.
const MAX_NODES: usize = 256;
/// Maximum number of addresses per node.
const MAX_ADDRESSES: usize = 8;

/// Withdraws the announcement when dropped.
struct Announcer(ServiceDaemon);

impl Drop for Announcer {
    fn drop(&mut self) {
        let _ = self.0.shutdown();
    }
}

impl NodeContext {
    /// Announces this node and records others until shutdown.
    pub(super) async fn run_mdns(self: Arc<Self>) {
        if let Err(error) = self.announce_and_browse().await {
            tracing::warn!(%error, "multicast DNS failed, `mesh.mdns` has no effect; check that a network interface supports multicast");
        }
    }

    async fn announce_and_browse(&self) -> Result<(), mdns_sd::Error> {
        let daemon = Announcer(ServiceDaemon::new()?);
        let (address, port) = self.advertised;
        let addresses = address.map(|address| address.to_string()).unwrap_or_default();
        let host = format!("{}.local.", self.name);
        let mesh = fingerprint(&self.cluster);
        let properties = [(MESH, mesh.as_str())];
        let info =
            ServiceInfo::new(SERVICE, self.name.as_str(), &host, addresses.as_str(), port, &properties[..])?;
        daemon.0.register(if address.is_none() { info.enable_addr_auto() } else { info })?;
        let events = daemon.0.browse(SERVICE)?;
        while let Ok(event) = events.recv_async().await {
            let mut announced = lock(&self.lookups.announced);
            match event {
                ServiceEvent::ServiceResolved(node) => record(&mut announced, &node, &mesh),
                ServiceEvent::ServiceRemoved(_, name) => drop(announced.remove(&name)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn record(announced: &mut AnnouncedAddresses, node: &ResolvedService, mesh: &str) {
    let has_room = announced.len() < MAX_NODES || announced.contains_key(&node.fullname);
    if has_room && node.get_property_val_str(MESH) == Some(mesh) {
        let addresses = node.addresses.iter().map(|address| SocketAddr::new(address.to_ip_addr(), node.port));
        announced.insert(node.fullname.clone(), addresses.take(MAX_ADDRESSES).collect());
    }
}

/// Identifies a mesh without revealing its name.
fn fingerprint(cluster: &str) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(cluster.as_bytes());
    format!("{:016x}", hasher.finish())
}
