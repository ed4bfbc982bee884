//! Where peers may be: what the configuration names, looked up again and again, since addresses
//! behind names change while a node runs.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// How often names are looked up.
pub(super) const AGAIN: Duration = Duration::from_secs(5);
/// How long a look-up may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most addresses behind all names.
const MOST_ADDRESSES: usize = 512;

/// The names to look up.
#[derive(Clone, Debug, Default)]
pub(super) struct Discovery {
    /// `host:port` each.
    pub(super) names: Vec<String>,
}

impl Discovery {
    /// Every address behind the names, and whether all of them could be looked up.
    pub(super) async fn look_up(&self) -> (BTreeSet<SocketAddr>, bool) {
        let (mut found, mut is_whole) = (BTreeSet::new(), true);
        for name in &self.names {
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
