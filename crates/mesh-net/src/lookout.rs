//! Where peers may be: what the configuration names, looked up again and again, since addresses
//! behind names change while a node runs. What cannot be looked up is not gone.
//!
//! DNS also says who *is* gone: the addresses of a headless service are those of its pods. So the
//! names of the peers behind them are handed to the state machine, which takes a member for dead that is
//! silent and was withdrawn. A list of peers to begin with says nothing of that kind, and multicast
//! falls silent in a cut on both sides: neither is handed on.
//!
//! Records of nodes that start together come seconds after them, and denials are cached. So names are
//! looked up several times a second until somebody was met, and a mesh is founded some seconds later while there
//! is a name with nobody behind it: but it is founded, since a node may be the only one.

use super::host::Host;
use super::lock;
use super::mdns::Announced;
use super::settings::Discovery;
use super::srv::Resolver;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_mesh::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How often names are looked up.
const AGAIN: Duration = Duration::from_secs(5);
/// How often while nobody was met, and for how long at most.
const SOON: Duration = Duration::from_millis(300);
const SOON_FOR: Duration = Duration::from_secs(30);
/// How much later a mesh is founded at most while a name has nobody behind it.
pub(super) const PATIENT_FOR: Duration = Duration::from_secs(7);
/// A name that cannot be looked up is told of after so many failures in a row.
const TOLD_AT: u32 = 10;
/// How long a look-up may take.
const PATIENCE: Duration = Duration::from_secs(4);
/// The most addresses behind one name.
const MOST_ADDRESSES: usize = 512;

type Addresses = BTreeSet<SocketAddr>;

/// The names to look up, and what was found.
#[derive(Debug)]
pub(super) struct Lookout {
    pub(super) discovery: Discovery,
    /// Behind each name, when it could last be looked up.
    found: Mutex<BTreeMap<String, Addresses>>,
    /// Why each name that cannot be looked up cannot, and how often in a row.
    failing: Mutex<BTreeMap<String, (u32, String)>>,
    /// All addresses of the last answers of DNS that were whole.
    listed: Mutex<Addresses>,
    pub(super) announced: Mutex<Announced>,
}

impl Lookout {
    pub(super) fn new(discovery: Discovery) -> Self {
        let (found, failing) = (Mutex::default(), Mutex::default());
        Self { discovery, found, failing, listed: Mutex::default(), announced: Mutex::default() }
    }

    /// Every address behind the names of the configuration.
    pub(super) fn named(&self) -> Addresses {
        lock(&self.found).values().flatten().copied().collect()
    }

    /// Every address that somebody on the local network says to be at.
    pub(super) fn announced(&self) -> Addresses {
        lock(&self.announced).values().flatten().copied().collect()
    }

    /// Why a name cannot be looked up, if there is one.
    pub(super) fn reason(&self) -> Option<String> {
        let failing = lock(&self.failing);
        failing.iter().next().map(|(name, (_, reason))| format!("`{name}` {reason}"))
    }

    /// Looks up one name, and says what was found.
    async fn look_up(&self, name: &str, port: Option<u16>) -> Option<Addresses> {
        let reason = match timeout(PATIENCE, self.addresses_of(name, port)).await {
            Ok(Ok(found)) if !found.is_empty() => {
                lock(&self.failing).remove(name);
                lock(&self.found).insert(name.to_owned(), found.clone());
                return Some(found);
            }
            Ok(Ok(_)) => "has no addresses behind it".to_owned(),
            Ok(Err(error)) => format!("cannot be looked up: {error}"),
            Err(_) => format!("was not looked up within {PATIENCE:?}"),
        };
        let mut failing = lock(&self.failing);
        let (failures, last) = failing.entry(name.to_owned()).or_default();
        *failures = failures.saturating_add(1);
        if *failures == TOLD_AT {
            let remedy = "see `mesh.bootstrap_peers`, `mesh.dns` and the name server";
            tracing::warn!(%name, %reason, remedy, "peers cannot be found by a name");
        }
        *last = reason;
        None
    }

    /// What a name stands for: a service, if it begins like one, and hosts with the given port if it names none.
    async fn addresses_of(&self, name: &str, port: Option<u16>) -> io::Result<Addresses> {
        if name.starts_with('_') {
            let service = Resolver::of(&self.discovery.nameservers).look_up(name).await?;
            let mut found = service.addresses;
            for (host, port) in service.hosts {
                if found.len() >= MOST_ADDRESSES {
                    break;
                }
                found.extend(lookup_host((host, port)).await?.take(MOST_ADDRESSES));
            }
            return Ok(found);
        }
        let has_port = name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match port.filter(|_| !has_port) {
            Some(port) => Ok(lookup_host((name, port)).await?.take(MOST_ADDRESSES).collect()),
            None => Ok(lookup_host(name).await?.take(MOST_ADDRESSES).collect()),
        }
    }
}

impl Host {
    /// Looks up all names, for ever.
    pub(super) async fn look_out(self: Arc<Self>) {
        if !self.lookout.discovery.has_names() {
            return;
        }
        let (started, mut is_sought) = (MonotonicClock.now(), false);
        loop {
            let is_whole = self.look_up_all().await;
            if is_whole && !is_sought {
                is_sought = true;
                // Whoever is behind these names has the usual time to answer.
                self.store.with(|node| node.seek_from(self.clock.now()));
            }
            let is_soon = !self.has_met.load(Relaxed) && MonotonicClock.now().since(started) < SOON_FOR;
            let pause = if is_soon { SOON } else { AGAIN };
            let _ = timeout(pause, std::future::pending::<()>()).await;
        }
    }

    /// Looks up all names at once; says whether there are addresses behind each.
    async fn look_up_all(self: &Arc<Self>) -> bool {
        let Discovery { peers, dns, .. } = &self.lookout.discovery;
        let ports = [(peers, None), (dns, Some(self.advertised.1))];
        let mut look_ups = JoinSet::new();
        for (name, port) in
            ports.into_iter().flat_map(|(names, port)| names.iter().map(move |name| (name, port)))
        {
            let (host, name) = (Arc::clone(self), name.clone());
            look_ups.spawn(async move { (port.is_some(), host.lookout.look_up(&name, port).await) });
        }
        let (mut is_whole, mut listed) = (true, Some(Addresses::new()));
        while let Some(looked_up) = look_ups.join_next().await {
            let Ok((is_dns, found)) = looked_up else { return false };
            is_whole &= found.is_some();
            if is_dns {
                listed = listed.zip(found).map(|(all, found)| &all | &found);
            }
        }
        // Half of an answer would withdraw the other half.
        if let Some(listed) = listed.filter(|listed| !listed.is_empty()) {
            *lock(&self.lookout.listed) = listed;
            self.tell_names();
        }
        is_whole
    }

    /// Tells the state machine who is behind the addresses that DNS has: again and again, since who is there is known
    /// only once it was met.
    pub(super) fn tell_names(&self) {
        let listed = lock(&self.lookout.listed).clone();
        if !listed.is_empty() {
            let names = self.names_of(&listed);
            self.store.with(|node| node.discover(names));
        }
    }

    /// Who was last heard at these addresses.
    fn names_of(&self, addresses: &Addresses) -> BTreeSet<NodeId> {
        let (dialer, roster) = (lock(&self.dialer), lock(&self.roster));
        let own = self.advertised.0.map(|own| SocketAddr::new(own, self.advertised.1));
        let heard_at = |address: &SocketAddr| {
            if own == Some(*address) {
                return Some(self.name.clone());
            }
            // An address may have gone from one node to another: who was there last counts.
            let contacts = roster.iter().filter(|(_, contact)| contact.address == *address);
            let heard = contacts.map(|(name, contact)| (contact.seen, name.clone()));
            heard.chain(dialer.answered(*address)).max().map(|(_, name)| name)
        };
        addresses.iter().filter_map(heard_at).collect()
    }
}
