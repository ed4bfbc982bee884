//! Where peers may be: what the configuration names, looked up again and again, since addresses
//! behind names change while a node runs.

use super::host::{Host, every};
use super::lock;
use super::settings::Discovery;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often names are looked up.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a look-up may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most addresses behind all names.
const MOST_ADDRESSES: usize = 512;

/// The names to look up, and what was found.
#[derive(Debug)]
pub(super) struct Lookout {
    discovery: Discovery,
    found: Mutex<BTreeSet<SocketAddr>>,
}

impl Lookout {
    pub(super) fn new(discovery: Discovery) -> Self {
        Self { discovery, found: Mutex::default() }
    }

    /// Every address that was found.
    pub(super) fn addresses(&self) -> BTreeSet<SocketAddr> {
        lock(&self.found).clone()
    }

    /// Every address behind the names, and whether all of them could be looked up.
    async fn look_up(&self) -> (BTreeSet<SocketAddr>, bool) {
        let (mut found, mut is_whole) = (BTreeSet::new(), true);
        for name in &self.discovery.peers {
            match tokio::time::timeout(PATIENCE, tokio::net::lookup_host(name.as_str())).await {
                Ok(Ok(addresses)) => found.extend(addresses.take(MOST_ADDRESSES)),
                Ok(Err(error)) => {
                    is_whole = false;
                    tracing::debug!(%name, %error, "a peer's name cannot be looked up");
                }
                Err(_) => {
                    is_whole = false;
                    tracing::debug!(%name, "a peer's name was not looked up in time");
                }
            }
        }
        while found.len() > MOST_ADDRESSES {
            found.pop_last();
        }
        (found, is_whole)
    }
}

impl Host {
    pub(super) async fn look_out(self: Arc<Self>) {
        let mut again = every(AGAIN);
        loop {
            again.tick().await;
            let (found, is_whole) = self.lookout.look_up().await;
            let mut known = lock(&self.lookout.found);
            // What could not be looked up is not gone.
            if is_whole {
                *known = found;
            } else {
                known.extend(found);
            }
        }
    }
}
