//! Peers on the same local network, by multicast DNS: each node announces where it listens and hears
//! of the others. What is announced is not secret and proves nothing: a peer is who shows a
//! certificate. And silence there is no death: in a cut, both sides would hear no more of the other.

use super::host::Host;
use super::lock;
use mdns_sd::{ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::Arc;

const SERVICE: &str = "_hivemind-mesh._udp.local.";
/// Which mesh it is, so that those of others are not called.
const MESH: &str = "mesh";
/// The most nodes that are listened to.
const MOST_NODES: usize = 256;
/// The most addresses of one node.
const MOST_ADDRESSES: usize = 8;

/// Who has announced itself, and where.
pub(super) type Announced = BTreeMap<String, BTreeSet<SocketAddr>>;

/// Ends the announcing when the node does.
struct Announcer(ServiceDaemon);

impl Drop for Announcer {
    fn drop(&mut self) {
        // It says goodbye for all that it has announced.
        let _ = self.0.shutdown();
    }
}

impl Host {
    /// Announces this node and listens to others, if it is told to.
    pub(super) async fn announce(self: Arc<Self>) {
        if let Err(error) = self.announce_for_ever().await {
            tracing::warn!(%error, "peers on the local network cannot be looked for: `mesh.mdns` has no effect");
        }
    }

    async fn announce_for_ever(&self) -> Result<(), mdns_sd::Error> {
        let daemon = Announcer(ServiceDaemon::new()?);
        let (address, port) = self.advertised;
        let addresses = address.map(|address| address.to_string()).unwrap_or_default();
        let host = format!("{}.local.", self.name);
        let mesh = fingerprint(&self.cluster);
        let properties = [(MESH, mesh.as_str())];
        let info =
            ServiceInfo::new(SERVICE, self.name.as_str(), &host, addresses.as_str(), port, &properties[..])?;
        daemon.0.register(if address.is_none() { info.enable_addr_auto() } else { info })?;
        let heard = daemon.0.browse(SERVICE)?;
        while let Ok(event) = heard.recv_async().await {
            let mut announced = lock(&self.lookout.announced);
            match event {
                ServiceEvent::ServiceResolved(node) => note(&mut announced, &node, &mesh),
                ServiceEvent::ServiceRemoved(_, name) => drop(announced.remove(&name)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn note(announced: &mut Announced, node: &ResolvedService, mesh: &str) {
    let has_room = announced.len() < MOST_NODES || announced.contains_key(&node.fullname);
    if has_room && node.get_property_val_str(MESH) == Some(mesh) {
        let addresses = node.addresses.iter().map(|address| SocketAddr::new(address.to_ip_addr(), node.port));
        announced.insert(node.fullname.clone(), addresses.take(MOST_ADDRESSES).collect());
    }
}

/// What tells meshes apart without telling their names.
fn fingerprint(cluster: &str) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(cluster.as_bytes());
    format!("{:016x}", hasher.finish())
}
