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

/// All connected clients.
pub struct Crowd {
    most: NonZeroUsize,
    /// Whether clients on this machine are limited too: only with an explicit limit. Otherwise they are usually
    /// proxies and probes.
    counts_loopback: bool,
    prefix: Ipv6Prefix,
    /// Trusted proxies carry many clients each, and are not limited.
    proxies: ClientAddress,
    here: Arc<Mutex<HashMap<ClientIp, usize>>>,
    log_throttle: LogThrottle,
}

/// The permit of a connection; returned on drop. Empty if the client is not limited.
pub struct Seat {
    _taken: Option<Taken>,
}

struct Taken {
    client: ClientIp,
    here: Arc<Mutex<HashMap<ClientIp, usize>>>,
}

impl Crowd {
    /// The limit with these settings and trusted proxies.
    pub(super) fn of(front: &Front, proxies: ClientAddress) -> Self {
        // The settings have validated it.
        let prefix = Ipv6Prefix::new(front.clients.ipv6_prefix).unwrap_or_default();
        Self::new(front.max_connections, front.max_connections_per_client, prefix, proxies)
    }

    fn new(
        all: NonZeroUsize,
        written: Option<NonZeroUsize>,
        prefix: Ipv6Prefix,
        proxies: ClientAddress,
    ) -> Self {
        let share = NonZeroUsize::new(all.get() / SHARE).unwrap_or(NonZeroUsize::MIN);
        Self {
            most: written.unwrap_or(share),
            counts_loopback: written.is_some(),
            prefix,
            proxies,
            here: Arc::default(),
            log_throttle: LogThrottle::new(),
        }
    }

    /// A permit for one more connection of this peer; `None` over the limit.
    pub fn enter(&self, peer: IpAddr) -> Option<Seat> {
        let peer = peer.to_canonical();
        if (peer.is_loopback() && !self.counts_loopback) || self.proxies.trusts(Some(peer)) {
            return Some(Seat { _taken: None });
        }
        let client = ClientIp::within(peer, self.prefix);
        {
            let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
            let count = here.entry(client).or_default();
            if *count < self.most.get() {
                *count += 1;
                return Some(Seat { _taken: Some(Taken { client, here: Arc::clone(&self.here) }) });
            }
        }
        if let Some(times) = self.log_throttle.record(MonotonicClock.now()) {
            let most = self.most;
            tracing::warn!(
                %client, times, "a client has {most} open connections and further ones are refused; if it is a proxy, add it to \
                 gateway.client_ip.trusted_proxies, otherwise see gateway.max_connections_per_client"
            );
        }
        None
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = here.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                here.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_tower::ForwardingHeader;

    fn crowd(all: usize, written: Option<usize>) -> Crowd {
        let proxies =
            ClientAddress::behind_proxies(["203.0.113.0/24"], ForwardingHeader::XForwardedFor).unwrap();
        let written = written.and_then(NonZeroUsize::new);
        Crowd::new(NonZeroUsize::new(all).unwrap(), written, Ipv6Prefix::default(), proxies)
    }

    fn enters(crowd: &Crowd, peer: &str) -> Option<Seat> {
        crowd.enter(peer.parse().unwrap())
    }

    // Fails when permits are not returned, addresses of one /64 count separately, or a proxy is counted.
    #[test]
    fn connection_limit_counts_clients_but_not_proxies() {
        let crowd = crowd(8, None);
        let mut seats = vec![enters(&crowd, "192.0.2.1").unwrap(), enters(&crowd, "192.0.2.1").unwrap()];
        assert!(enters(&crowd, "192.0.2.1").is_none(), "a quarter of 8 is its limit");
        assert!(enters(&crowd, "::ffff:192.0.2.1").is_none(), "the same client over IPv6");
        seats.push(enters(&crowd, "192.0.2.2").expect("another client has its own limit"));
        seats.pop();
        seats.pop();
        seats.push(enters(&crowd, "192.0.2.1").expect("one connection has closed"));
        seats.push(enters(&crowd, "2001:db8::1").unwrap());
        seats.push(enters(&crowd, "2001:db8::2").unwrap());
        assert!(enters(&crowd, "2001:db8::3").is_none(), "a /64 is one client");
        for peer in ["203.0.113.9", "127.0.0.1", "::1"] {
            seats.extend((0..10).map(|_| enters(&crowd, peer).expect(peer)));
        }
        drop(seats);
        assert!(crowd.here.lock().unwrap().is_empty(), "disconnected clients are removed");
    }

    #[test]
    fn explicit_connection_limit_applies_to_loopback() {
        let crowd = crowd(8, Some(1));
        let _seat = enters(&crowd, "127.0.0.1").unwrap();
        assert!(enters(&crowd, "127.0.0.1").is_none());
        assert!(enters(&crowd, "203.0.113.9").is_some());
    }
}
