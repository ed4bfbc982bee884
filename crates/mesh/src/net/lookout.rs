//! Where peers may be: what the configuration names, looked up again and again, since addresses
//! behind names change while a node runs. What cannot be looked up is not gone.
//!
//! DNS also says who *is* gone: the addresses of a headless service are those of its pods. So the
//! names of the peers behind them are handed to the state machine, which takes a member for dead that is
//! silent and was withdrawn. A list of peers to begin with says nothing of that kind, and multicast
//! falls silent in a cut on both sides: neither is handed on.

use super::host::{Host, every};
use super::lock;
use super::mdns::Announced;
use super::settings::Discovery;
use super::srv::Resolver;
use crate::owner::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// How often names are looked up.
const AGAIN: Duration = Duration::from_secs(5);
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
    /// All addresses of the last answers of DNS that were whole.
    listed: Mutex<Addresses>,
    pub(super) announced: Mutex<Announced>,
}

impl Lookout {
    pub(super) fn new(discovery: Discovery) -> Self {
        Self { discovery, found: Mutex::default(), listed: Mutex::default(), announced: Mutex::default() }
    }

    /// Every address that was found.
    pub(super) fn addresses(&self) -> Addresses {
        let mut all: Addresses = lock(&self.found).values().flatten().copied().collect();
        all.extend(lock(&self.announced).values().flatten());
        all
    }

    /// Looks up one name, and says what was found.
    async fn look_up(&self, name: &str, port: Option<u16>) -> Option<Addresses> {
        let found = match timeout(PATIENCE, self.addresses_of(name, port)).await {
            Ok(Ok(found)) if !found.is_empty() => found,
            Ok(Ok(_)) => return None,
            Ok(Err(error)) => {
                tracing::debug!(%name, %error, "a name of peers cannot be looked up");
                return None;
            }
            Err(_) => {
                tracing::debug!(%name, "a name of peers was not looked up in time");
                return None;
            }
        };
        lock(&self.found).insert(name.to_owned(), found.clone());
        Some(found)
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
        let mut again = every(AGAIN);
        loop {
            again.tick().await;
            let Discovery { peers, dns, .. } = &self.lookout.discovery;
            for name in peers {
                self.lookout.look_up(name, None).await;
            }
            let mut listed = Some(Addresses::new());
            for name in dns {
                let found = self.lookout.look_up(name, Some(self.advertised.1)).await;
                listed = listed.zip(found).map(|(all, found)| &all | &found);
            }
            // Half of an answer would withdraw the other half.
            if let Some(listed) = listed.filter(|listed| !listed.is_empty()) {
                *lock(&self.lookout.listed) = listed;
                self.tell_names();
            }
        }
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
