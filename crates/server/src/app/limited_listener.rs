//! Connection limits of a listener: it returns only connections with a permit. When all permits are taken, an
//! unauthenticated connection is closed for a new one; if there is none, clients wait in the kernel's accept queue,
//! where they cost this process nothing.

use crate::settings::ServerSection;
use axum::serve::Listener;
use hivemind_core::{ClientIp, Clock, Ipv6Prefix, MonotonicClock};
use hivemind_gateway::client_address;
use hivemind_gateway::settings::Front;
use hivemind_telemetry::log_throttle::LogThrottle;
use hivemind_tls::connections::{
    ConnectionAdmission, ConnectionLimit, ConnectionLimits, ConnectionPermit, ConnectionRefusal,
    NewConnection,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// One client may use this fraction of all connections by default.
const CLIENT_SHARE: usize = 4;
/// Maximum fraction of the connections that is reserved for local and known clients.
const RESERVE_SHARE: usize = 16;

/// The limits of one listener, from its settings.
pub(super) struct ListenerLimits {
    pub(super) max: NonZeroUsize,
    /// Default: a quarter of all, and unlimited for clients on this machine, which are usually proxies and probes.
    pub(super) per_client: Option<NonZeroUsize>,
    pub(super) reserved: usize,
    pub(super) prefix: Ipv6Prefix,
    /// Proxies with many clients each, which are not limited.
    pub(super) is_trusted: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// What to do about a client at its limit, for the log.
    pub(super) remedy: &'static str,
}

impl ListenerLimits {
    /// Without a limit per client.
    pub(super) fn of_all(max: NonZeroUsize, reserved: usize) -> Self {
        let (prefix, is_trusted) = (Ipv6Prefix::default(), Box::new(|_: IpAddr| true));
        Self { max, per_client: None, reserved, prefix, is_trusted, remedy: "" }
    }

    /// Of a port of `server`.
    pub(super) fn of_server(max: NonZeroUsize, server: &ServerSection) -> Self {
        Self {
            max,
            per_client: server.max_connections_per_client,
            reserved: server.reserved_connections,
            prefix: Ipv6Prefix::default(),
            is_trusted: Box::new(|_| false),
            remedy: "if it is a proxy with many clients, raise server.max_connections_per_client",
        }
    }

    /// Of the gateway, whose new clients wait when all connections are in use: most of its clients are unknown, so it
    /// has no reserve.
    pub(super) fn of_gateway(front: &Front) -> anyhow::Result<Self> {
        let proxies = client_address(&front.clients)?;
        Ok(Self {
            max: front.max_connections,
            per_client: front.max_connections_per_client,
            reserved: 0,
            prefix: Ipv6Prefix::new(front.clients.ipv6_prefix)?,
            is_trusted: Box::new(move |peer| proxies.trusts(Some(peer))),
            remedy: "if it is a proxy, add it to gateway.client_ip.trusted_proxies, otherwise see \
                     gateway.max_connections_per_client",
        })
    }

    fn table(&self) -> ConnectionLimits {
        let share = NonZeroUsize::new(self.max.get() / CLIENT_SHARE).unwrap_or(NonZeroUsize::MIN);
        ConnectionLimits {
            max: self.max,
            per_client: self.per_client.unwrap_or(share),
            reserved: self.reserved.min(self.max.get() / RESERVE_SHARE),
        }
    }

    fn new_connection(&self, peer: IpAddr) -> NewConnection {
        let peer = peer.to_canonical();
        let is_trusted = (self.is_trusted)(peer);
        NewConnection {
            client: ClientIp::within(peer, self.prefix),
            is_limited: !is_trusted && (!peer.is_loopback() || self.per_client.is_some()),
            is_local: is_trusted || peer.is_loopback(),
        }
    }
}

/// The IP address of a peer; clients of a Unix socket are on this machine.
pub(super) trait PeerAddress {
    fn ip(&self) -> IpAddr;
}

impl PeerAddress for SocketAddr {
    fn ip(&self) -> IpAddr {
        Self::ip(self)
    }
}

impl PeerAddress for tokio::net::unix::SocketAddr {
    fn ip(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }
}

/// A listener with connection limits.
pub(super) struct LimitedListener<L: Listener> {
    listener: L,
    /// Accepted, and waiting for a permit.
    waiting: Option<(L::Io, L::Addr)>,
    limits: ListenerLimits,
    limit: Arc<ConnectionLimit>,
    full: LogThrottle,
    evictions: LogThrottle,
    refusals: LogThrottle,
}

impl<L: Listener<Addr: PeerAddress>> LimitedListener<L> {
    pub(super) fn new(listener: L, limits: ListenerLimits) -> Self {
        let limit = ConnectionLimit::new(limits.table());
        let [full, evictions, refusals] = [(); 3].map(|()| LogThrottle::new());
        Self { listener, waiting: None, limits, limit, full, evictions, refusals }
    }

    /// Returns the next connection, its permit and its address. Safe to cancel.
    pub(super) async fn next(&mut self) -> (L::Io, ConnectionPermit, L::Addr) {
        loop {
            let (io, address) = match self.waiting.take() {
                Some(waiting) => waiting,
                None => self.listener.accept().await,
            };
            let new = self.limits.new_connection(address.ip());
            self.waiting = Some((io, address));
            let permit = self.admit(&new).await;
            if let (Some((io, address)), Some(permit)) = (self.waiting.take(), permit) {
                return (io, permit, address);
            }
        }
    }

    /// Waits for a permit; `None` if the connection is refused.
    async fn admit(&self, new: &NewConnection) -> Option<ConnectionPermit> {
        loop {
            let has_evicted = match self.limit.admit(new) {
                ConnectionAdmission::Admitted { permit, has_evicted } => {
                    self.log_eviction(has_evicted);
                    return Some(permit);
                }
                ConnectionAdmission::Refused(refusal) => {
                    self.log_refusal(new, refusal);
                    return None;
                }
                ConnectionAdmission::Full { has_evicted } => has_evicted,
            };
            self.log_eviction(has_evicted);
            if !has_evicted {
                self.log_full();
            }
            self.limit.closed().await;
        }
    }

    fn log_full(&self) {
        if let Some(times) = self.full.record(MonotonicClock.now()) {
            tracing::warn!(
                times,
                "all {} connections of one listener are in use and new clients wait; raise `max_connections` if \
                 this happens often",
                self.limits.max
            );
        }
    }

    fn log_eviction(&self, has_evicted: bool) {
        if has_evicted && let Some(times) = self.evictions.record(MonotonicClock.now()) {
            tracing::warn!(
                times,
                "connections without an authenticated call are closed for new ones: a client is at its limit, or all \
                 {} connections of one listener are in use; find out who opens them, or raise `max_connections`",
                self.limits.max
            );
        }
    }

    fn log_refusal(&self, new: &NewConnection, refusal: ConnectionRefusal) {
        let Some(times) = self.refusals.record(MonotonicClock.now()) else { return };
        let client = new.client;
        match refusal {
            ConnectionRefusal::PerClient => {
                let (most, remedy) = (self.limits.table().per_client, self.limits.remedy);
                tracing::warn!(
                    %client, times, "a client has {most} open connections and further ones are refused; {remedy}"
                );
            }
            ConnectionRefusal::Reserved => tracing::warn!(
                %client, times, "all {} connections of one listener are in use, except those reserved for local and known \
                 clients, and new clients are refused; raise `max_connections`", self.limits.max
            ),
        }
    }

    /// Returns a gauge of the open connections.
    pub(super) fn open_gauge(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let limit = Arc::clone(&self.limit);
        move || limit.open_count()
    }

    pub(super) const fn listener(&self) -> &L {
        &self.listener
    }

    pub(super) fn local_addr(&self) -> io::Result<L::Addr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_connection(limits: &ListenerLimits, peer: &str) -> NewConnection {
        limits.new_connection(peer.parse().unwrap())
    }

    fn gateway(per_client: Option<usize>) -> ListenerLimits {
        ListenerLimits {
            per_client: per_client.and_then(NonZeroUsize::new),
            is_trusted: Box::new(|peer| peer.to_string() == "203.0.113.9"),
            ..ListenerLimits::of_all(NonZeroUsize::new(320).unwrap(), 64)
        }
    }

    // Fails when addresses of one /64 count separately, or a proxy is limited.
    #[test]
    fn client_limit_applies_to_blocks_but_not_to_proxies() {
        let limits = gateway(None);
        assert_eq!(limits.table().per_client.get(), 80);
        assert_eq!(limits.table().reserved, 20);
        let of = |peer| new_connection(&limits, peer);
        for (one, other, is_same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(of(one).client == of(other).client, is_same, "{one} and {other}");
            assert!(of(one).is_limited && !of(one).is_local, "{one}");
        }
        for peer in ["203.0.113.9", "127.0.0.1", "127.0.0.9", "::1"] {
            assert!(!of(peer).is_limited && of(peer).is_local, "{peer}");
        }
    }

    #[test]
    fn explicit_client_limit_applies_to_loopback() {
        let limits = gateway(Some(1));
        assert_eq!(limits.table().per_client.get(), 1);
        assert!(new_connection(&limits, "127.0.0.1").is_limited);
        assert!(!new_connection(&limits, "203.0.113.9").is_limited);
    }
}
