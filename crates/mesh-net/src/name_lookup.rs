//! Lookup of configured peer names in DNS, and the addresses found for each. A failed lookup keeps the previous addresses.

use super::lock;
use super::settings::Discovery;
use super::srv::Resolver;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// Consecutive failures after which a failing name is logged.
const FAILURES_BEFORE_REPORT: u32 = 10;
/// Timeout of one lookup.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum number of addresses per name.
const MAX_ADDRESSES: usize = 512;

pub(super) type Addresses = BTreeSet<SocketAddr>;

/// Addresses that nodes announce by multicast, by service name.
pub(super) type AnnouncedAddresses = BTreeMap<String, Addresses>;

/// Names to look up, and the addresses found.
#[derive(Debug)]
pub(super) struct NameLookups {
    pub(super) settings: Discovery,
    /// Addresses of the last successful lookup of each name.
    found: Mutex<BTreeMap<String, Addresses>>,
    /// Consecutive failures of each name, and the last reason.
    failing: Mutex<BTreeMap<String, (u32, String)>>,
    /// All addresses of the last round in which every lookup of `mesh.dns` succeeded.
    pub(super) dns_addresses: Mutex<Addresses>,
    pub(super) announced: Mutex<AnnouncedAddresses>,
}

impl NameLookups {
    pub(super) fn new(settings: Discovery) -> Self {
        let (found, failing) = (Mutex::default(), Mutex::default());
        Self { settings, found, failing, dns_addresses: Mutex::default(), announced: Mutex::default() }
    }

    /// All addresses of configured names.
    pub(super) fn named(&self) -> Addresses {
        lock(&self.found).values().flatten().copied().collect()
    }

    /// All addresses announced on the local network.
    pub(super) fn announced(&self) -> Addresses {
        lock(&self.announced).values().flatten().copied().collect()
    }

    /// The last failure of a name that is failing now.
    pub(super) fn failure(&self) -> Option<String> {
        let failing = lock(&self.failing);
        failing.iter().next().map(|(name, (_, reason))| format!("`{name}` {reason}"))
    }

    /// Looks up one name and stores the result.
    pub(super) async fn look_up(&self, name: &str, port: Option<u16>) -> Option<Addresses> {
        let reason = match timeout(TIMEOUT, self.resolve(name, port)).await {
            Ok(Ok(found)) if !found.is_empty() => {
                lock(&self.failing).remove(name);
                lock(&self.found).insert(name.to_owned(), found.clone());
                return Some(found);
            }
            Ok(Ok(_)) => "has no addresses".to_owned(),
            Ok(Err(error)) => format!("cannot be resolved: {error}"),
            Err(_) => format!("was not resolved within {TIMEOUT:?}"),
        };
        let mut failing = lock(&self.failing);
        let (failures, last) = failing.entry(name.to_owned()).or_default();
        *failures = failures.saturating_add(1);
        if *failures == FAILURES_BEFORE_REPORT {
            let remedy = "check `mesh.bootstrap_peers`, `mesh.dns` and the name server";
            tracing::warn!(%name, %reason, remedy, "lookup of a peer name keeps failing");
        }
        *last = reason;
        None
    }

    /// Resolves SRV records for a name that begins with `_`, and addresses for others. `port` applies to names without one.
    async fn resolve(&self, name: &str, port: Option<u16>) -> io::Result<Addresses> {
        if name.starts_with('_') {
            let answer = Resolver::new(&self.settings.nameservers).look_up(name).await?;
            let mut found = answer.addresses;
            for (host, port) in answer.hosts {
                if found.len() >= MAX_ADDRESSES {
                    break;
                }
                found.extend(lookup_host((host, port)).await?.take(MAX_ADDRESSES));
            }
            return Ok(found);
        }
        let has_port = name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        match port.filter(|_| !has_port) {
            Some(port) => Ok(lookup_host((name, port)).await?.take(MAX_ADDRESSES).collect()),
            None => Ok(lookup_host(name).await?.take(MAX_ADDRESSES).collect()),
        }
    }
}
