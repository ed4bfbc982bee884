//! Peer discovery by name: periodic lookup of the configured names, whose addresses may change while a node runs.
//!
//! `mesh.dns` also shows which nodes are gone, because a headless service lists exactly its pods. The names of the peers
//! at these addresses go to the state machine, which declares a member dead if it is silent and no longer listed.
//! Bootstrap peers and multicast do not show this, so their addresses are not passed on.
//!
//! When nodes start together, their DNS records appear seconds later, and negative answers are cached. So names are
//! looked up several times per second until the first peer connects, and founding a mesh is delayed by a few seconds
//! while a name has no addresses. It is founded eventually, because a node may be the only one.

use super::context::NodeContext;
use super::lock;
use super::name_lookup::Addresses;
use super::settings::Discovery;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_mesh::NodeId;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Interval of lookups.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of lookups until the first peer connects, and how long it applies at most.
const STARTUP_INTERVAL: Duration = Duration::from_millis(300);
const STARTUP_TIME: Duration = Duration::from_secs(30);
/// Maximum delay of founding a mesh while a name has no addresses.
pub(super) const FOUNDING_DELAY: Duration = Duration::from_secs(7);

impl NodeContext {
    /// Looks up all names until shutdown.
    pub(super) async fn run_discovery(self: Arc<Self>) {
        if !self.lookups.settings.has_names() {
            return;
        }
        let (started, mut is_seeking) = (MonotonicClock.now(), false);
        loop {
            let is_complete = self.look_up_names().await;
            if is_complete && !is_seeking {
                is_seeking = true;
                // The peers at these addresses now have the usual time to answer.
                self.store.with(|node| node.seek_from(self.clock.now()));
            }
            let is_startup =
                !self.has_connected.load(Relaxed) && MonotonicClock.now().since(started) < STARTUP_TIME;
            let pause = if is_startup { STARTUP_INTERVAL } else { LOOKUP_INTERVAL };
            let _ = timeout(pause, std::future::pending::<()>()).await;
        }
    }

    /// Looks up all names concurrently. Returns whether each has addresses.
    async fn look_up_names(self: &Arc<Self>) -> bool {
        let Discovery { peers, dns, .. } = &self.lookups.settings;
        let ports = [(peers, None), (dns, Some(self.advertised.1))];
        let mut lookups = JoinSet::new();
        for (name, port) in
            ports.into_iter().flat_map(|(names, port)| names.iter().map(move |name| (name, port)))
        {
            let (context, name) = (Arc::clone(self), name.clone());
            lookups.spawn(async move { (port.is_some(), context.lookups.look_up(&name, port).await) });
        }
        let (mut is_complete, mut dns_addresses) = (true, Some(Addresses::new()));
        while let Some(result) = lookups.join_next().await {
            let Ok((is_dns, found)) = result else { return false };
            is_complete &= found.is_some();
            if is_dns {
                dns_addresses = dns_addresses.zip(found).map(|(all, found)| &all | &found);
            }
        }
        // A partial answer would make the missing nodes look withdrawn.
        if let Some(addresses) = dns_addresses.filter(|addresses| !addresses.is_empty()) {
            *lock(&self.lookups.dns_addresses) = addresses;
            self.report_dns_members();
        }
        is_complete
    }

    /// Passes the names of the peers at the addresses of `mesh.dns` to the state machine. Repeated, because the name at
    /// an address is known only after a connection.
    pub(super) fn report_dns_members(&self) {
        let addresses = lock(&self.lookups.dns_addresses).clone();
        if !addresses.is_empty() {
            let names = self.names_at(&addresses);
            self.store.with(|node| node.discover(names));
        }
    }

    /// The nodes that were last connected at these addresses.
    fn names_at(&self, addresses: &Addresses) -> BTreeSet<NodeId> {
        let (dial_schedule, peer_table) = (lock(&self.dial_schedule), lock(&self.peer_table));
        let own = self.advertised.0.map(|own| SocketAddr::new(own, self.advertised.1));
        let name_at = |address: &SocketAddr| {
            if own == Some(*address) {
                return Some(self.name.clone());
            }
            // An address may have moved from one node to another, so the latest connection counts.
            let contacts = peer_table.iter().filter(|(_, contact)| contact.address == *address);
            let names = contacts.map(|(name, contact)| (contact.last_seen, name.clone()));
            names.chain(dial_schedule.last_answer(*address)).max().map(|(_, name)| name)
        };
        addresses.iter().filter_map(name_at).collect()
    }
}
