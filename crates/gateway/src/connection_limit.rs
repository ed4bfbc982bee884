//! Connection limit per client: one client must not take all connections. Connections over the limit are closed
//! immediately, which is cheaper than any response.

use crate::settings::Front;
use hivemind_core::{ClientIp, Clock, Ipv6Prefix, MonotonicClock};
use hivemind_telemetry::log_throttle::LogThrottle;
use hivemind_tower::ClientAddress;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

/// One client may use this fraction of all connections by default.
const SHARE: usize = 4;

/// The open connections of each client, and their maximum.
pub struct ConnectionLimit {
    max: NonZeroUsize,
    /// Whether clients on this machine are limited too: only with an explicit limit. Otherwise they are usually
    /// proxies and probes.
    counts_loopback: bool,
    prefix: Ipv6Prefix,
    /// Trusted proxies carry many clients each, and are not limited.
    proxies: ClientAddress,
    counts: Arc<Mutex<HashMap<ClientIp, usize>>>,
    log_throttle: LogThrottle,
}

/// The permit of a connection; returned on drop. Empty if the client is not limited.
pub struct ConnectionPermit {
    _counted: Option<CountedConnection>,
}

struct CountedConnection {
    client: ClientIp,
    counts: Arc<Mutex<HashMap<ClientIp, usize>>>,
}

impl ConnectionLimit {
    /// The limit with these settings and trusted proxies.
    pub(super) fn of(front: &Front, proxies: ClientAddress) -> Self {
        // The settings have validated it.
        let prefix = Ipv6Prefix::new(front.clients.ipv6_prefix).unwrap_or_default();
        Self::new(front.max_connections, front.max_connections_per_client, prefix, proxies)
    }

    fn new(
        all: NonZeroUsize,
        configured: Option<NonZeroUsize>,
        prefix: Ipv6Prefix,
        proxies: ClientAddress,
    ) -> Self {
        let share = NonZeroUsize::new(all.get() / SHARE).unwrap_or(NonZeroUsize::MIN);
        Self {
            max: configured.unwrap_or(share),
            counts_loopback: configured.is_some(),
            prefix,
            proxies,
            counts: Arc::default(),
            log_throttle: LogThrottle::new(),
        }
    }

    /// A permit for one more connection of this peer; `None` over the limit.
    pub fn acquire(&self, peer: IpAddr) -> Option<ConnectionPermit> {
        let peer = peer.to_canonical();
        if (peer.is_loopback() && !self.counts_loopback) || self.proxies.trusts(Some(peer)) {
            return Some(ConnectionPermit { _counted: None });
        }
        let client = ClientIp::within(peer, self.prefix);
        {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(client).or_default();
            if *count < self.max.get() {
                *count += 1;
                return Some(ConnectionPermit {
                    _counted: Some(CountedConnection { client, counts: Arc::clone(&self.counts) }),
                });
            }
        }
        if let Some(times) = self.log_throttle.record(MonotonicClock.now()) {
            let max = self.max;
            tracing::warn!(
                %client, times, "a client has {max} open connections and further ones are refused; if it is a proxy, add it to \
                 gateway.client_ip.trusted_proxies, otherwise see gateway.max_connections_per_client"
            );
        }
        None
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_tower::ForwardingHeader;

    fn limit(all: usize, configured: Option<usize>) -> ConnectionLimit {
        let proxies =
            ClientAddress::behind_proxies(["203.0.113.0/24"], ForwardingHeader::XForwardedFor).unwrap();
        let configured = configured.and_then(NonZeroUsize::new);
        ConnectionLimit::new(NonZeroUsize::new(all).unwrap(), configured, Ipv6Prefix::default(), proxies)
    }

    fn acquire(limit: &ConnectionLimit, peer: &str) -> Option<ConnectionPermit> {
        limit.acquire(peer.parse().unwrap())
    }

    // Fails when permits are not returned, addresses of one /64 count separately, or a proxy is counted.
    #[test]
    fn connection_limit_counts_clients_but_not_proxies() {
        let limit = limit(8, None);
        let mut permits = vec![acquire(&limit, "192.0.2.1").unwrap(), acquire(&limit, "192.0.2.1").unwrap()];
        assert!(acquire(&limit, "192.0.2.1").is_none(), "a quarter of 8 is its limit");
        assert!(acquire(&limit, "::ffff:192.0.2.1").is_none(), "the same client over IPv6");
        permits.push(acquire(&limit, "192.0.2.2").expect("another client has its own limit"));
        permits.pop();
        permits.pop();
        permits.push(acquire(&limit, "192.0.2.1").expect("one connection has closed"));
        permits.push(acquire(&limit, "2001:db8::1").unwrap());
        permits.push(acquire(&limit, "2001:db8::2").unwrap());
        assert!(acquire(&limit, "2001:db8::3").is_none(), "a /64 is one client");
        for peer in ["203.0.113.9", "127.0.0.1", "::1"] {
            permits.extend((0..10).map(|_| acquire(&limit, peer).expect(peer)));
        }
        drop(permits);
        assert!(limit.counts.lock().unwrap().is_empty(), "disconnected clients are removed");
    }

    #[test]
    fn explicit_connection_limit_applies_to_loopback() {
        let limit = limit(8, Some(1));
        let _permit = acquire(&limit, "127.0.0.1").unwrap();
        assert!(acquire(&limit, "127.0.0.1").is_none());
        assert!(acquire(&limit, "203.0.113.9").is_some());
    }
}
