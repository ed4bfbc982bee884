//! Which address a request comes from, and whom we believe about it.
//!
//! By default the peer's alone: everything else is text that a client can send. Behind
//! proxies, the hops that they wrote are walked from the nearest outwards, as long as
//! each of them is trusted; the first that is not is the client. So an untrusted client
//! chooses nothing: what it sends stands left of its own address, and is not reached.

use crate::forwarded::{ForwardingHeader, MOST_HOPS};
use hivemind_core::{ClientIp, Ipv6Prefix};
use http::HeaderMap;
use ipnet::IpNet;
use std::net::IpAddr;

/// How the address of a client is found.
///
/// ```
/// use hivemind_tower::{ClientAddress, ForwardingHeader, Identity};
///
/// let proxies = ClientAddress::behind_proxies(["10.0.0.0/8"], ForwardingHeader::XForwardedFor)?;
/// let identity = Identity::by_address(proxies);
/// // The client wrote the first of these addresses, its proxy the second.
/// let request = http::Request::get("/").header("x-forwarded-for", "198.51.100.7, 203.0.113.9");
/// let (request, ()) = request.body(())?.into_parts();
/// let by = |peer: [u8; 4]| identity.identify(&request, Some(peer.into())).name().to_owned();
/// assert_eq!(by([10, 0, 0, 1]), "ip:203.0.113.9");
/// assert_eq!(by([192, 0, 2, 1]), "ip:192.0.2.1"); // No proxy of ours: its header says nothing.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientAddress {
    trust: Trust,
    prefix: Ipv6Prefix,
}

#[derive(Clone, Debug)]
enum Trust {
    Peer,
    Proxies { proxies: Box<[IpNet]>, header: ForwardingHeader },
    Hops { hops: usize, header: ForwardingHeader },
    Leftmost { header: ForwardingHeader },
}

/// What cannot say whom to trust.
///
/// ```
/// use hivemind_tower::{ClientAddress, ForwardingHeader};
///
/// let error = ClientAddress::behind_proxies(["10.0.0"], ForwardingHeader::XForwardedFor).unwrap_err();
/// assert!(error.to_string().starts_with("`10.0.0` is no network; write it like 10.0.0.0/8"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A text that is neither an address nor a network.
    #[error("`{text}` is no network; write it like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7")]
    InvalidNetwork {
        /// The text, as far as it may be shown.
        text: String,
    },
    /// Proxies are trusted, but none is named.
    #[error("no trusted proxy is named; name their networks, or leave the peer's address as it is")]
    NoProxies,
    /// A number of hops that no chain of proxies has.
    #[error(
        "{hops} trusted hops make no sense; count the proxies between the client and here, 1 to {MOST_HOPS}"
    )]
    Hops {
        /// The number given.
        hops: usize,
    },
}

impl ClientAddress {
    /// The peer's address, whatever a request says. Right where clients connect directly.
    ///
    /// ```
    /// # use hivemind_tower::ClientAddress;
    /// assert_eq!(ClientAddress::peer().header(), None);
    /// ```
    #[must_use]
    pub fn peer() -> Self {
        Self::of(Trust::Peer)
    }

    /// Behind proxies in these networks. If the peer is one of them, `header` is read:
    /// the client is the first address from the right that is not one of them.
    ///
    /// A peer on a Unix socket has no address and is in no network; for a proxy there,
    /// count it by [`behind_hops`](Self::behind_hops).
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::Forwarded, error::TrustError};
    /// assert!(ClientAddress::behind_proxies(["10.0.0.0/8", "192.0.2.7"], Forwarded).is_ok());
    /// assert_eq!(ClientAddress::behind_proxies(["10.0.0.0/8"; 0], Forwarded).err(), Some(TrustError::NoProxies));
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no network, or one that cannot be read.
    pub fn behind_proxies<N: AsRef<str>>(
        networks: impl IntoIterator<Item = N>,
        header: ForwardingHeader,
    ) -> Result<Self, TrustError> {
        let proxies: Result<Box<[IpNet]>, _> = networks.into_iter().map(|n| network(n.as_ref())).collect();
        match proxies? {
            none if none.is_empty() => Err(TrustError::NoProxies),
            proxies => Ok(Self::of(Trust::Proxies { proxies, header })),
        }
    }

    /// Behind exactly so many proxies, whatever their addresses; the peer is the first.
    /// Only right where nobody can reach this server but through all of them.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::XForwardedFor, error::TrustError};
    /// assert!(ClientAddress::behind_hops(2, XForwardedFor).is_ok()); // A load balancer, and nginx behind it.
    /// assert_eq!(ClientAddress::behind_hops(0, XForwardedFor).err(), Some(TrustError::Hops { hops: 0 }));
    /// ```
    ///
    /// # Errors
    ///
    /// If it is 0, or more than are ever walked.
    pub fn behind_hops(hops: usize, header: ForwardingHeader) -> Result<Self, TrustError> {
        if (1..=MOST_HOPS).contains(&hops) {
            Ok(Self::of(Trust::Hops { hops, header }))
        } else {
            Err(TrustError::Hops { hops })
        }
    }

    /// The leftmost address of the header, whoever wrote it: **every client chooses its
    /// own bucket, and whom fail2ban bans**. It exists for those who depend on it, and
    /// making it is warned of.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::XForwardedFor};
    /// assert!(ClientAddress::legacy_leftmost(XForwardedFor).trusts(None)); // Whoever it is.
    /// ```
    #[must_use]
    pub fn legacy_leftmost(header: ForwardingHeader) -> Self {
        tracing::warn!(
            ?header,
            "legacy_leftmost lets every client choose the address it is limited by; \
             name your proxies in `trusted_proxies` instead"
        );
        Self::of(Trust::Leftmost { header })
    }

    /// The header that is read of those who are believed; none if nobody is.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::Forwarded, error::TrustError};
    /// assert_eq!(ClientAddress::behind_hops(1, Forwarded)?.header(), Some(Forwarded));
    /// # Ok::<(), TrustError>(())
    /// ```
    #[must_use]
    pub const fn header(&self) -> Option<ForwardingHeader> {
        match &self.trust {
            Trust::Peer => None,
            Trust::Proxies { header, .. } | Trust::Hops { header, .. } | Trust::Leftmost { header } => {
                Some(*header)
            }
        }
    }

    /// The same, where an IPv6 client holds a block of this size instead of a /64.
    ///
    /// ```
    /// # use hivemind_core::Ipv6Prefix;
    /// # use hivemind_tower::{ClientAddress, Identity};
    /// let by_site = Identity::by_address(ClientAddress::peer().with_ipv6_prefix(Ipv6Prefix::new(48)?));
    /// let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// let client = by_site.identify(&request, Some("2001:db8:1:2::3".parse()?));
    /// assert_eq!(client.name(), "ip:2001:db8:1::/48");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn with_ipv6_prefix(mut self, prefix: Ipv6Prefix) -> Self {
        self.prefix = prefix;
        self
    }

    /// Whether what this peer says of those before it is believed. Who forwards requests adds to what
    /// such a peer wrote, and writes anew what any other did.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::Forwarded, error::TrustError};
    /// let proxies = ClientAddress::behind_proxies(["10.0.0.0/8"], Forwarded)?;
    /// assert!(proxies.trusts(Some([10, 0, 0, 1].into())) && !proxies.trusts(Some([192, 0, 2, 1].into())));
    /// # Ok::<(), TrustError>(())
    /// ```
    #[must_use]
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        match &self.trust {
            Trust::Peer => false,
            Trust::Proxies { proxies, .. } => {
                let peer = peer.map(|peer| peer.to_canonical());
                peer.is_some_and(|peer| proxies.iter().any(|network| network.contains(&peer)))
            }
            Trust::Hops { .. } | Trust::Leftmost { .. } => true,
        }
    }

    fn of(trust: Trust) -> Self {
        Self { trust, prefix: Ipv6Prefix::default() }
    }

    /// The client that a request with these headers, from this peer, comes from.
    pub(crate) fn resolve(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<ClientIp> {
        let peer = peer.map(|address| address.to_canonical());
        let address = match &self.trust {
            Trust::Peer => peer,
            Trust::Leftmost { header } => header.leftmost(headers).or(peer),
            Trust::Proxies { proxies, header } => {
                let is_trusted = |_, hop: IpAddr| proxies.iter().any(|network| network.contains(&hop));
                // Before anything is read: most peers that are not trusted are not proxies.
                if peer.is_some_and(|peer| is_trusted(0, peer)) {
                    walk(*header, headers, peer, is_trusted)
                } else {
                    peer
                }
            }
            Trust::Hops { hops, header } => walk(*header, headers, peer, |walked, _| walked < *hops),
        };
        address.map(|address| ClientIp::within(address, self.prefix))
    }
}

/// Only the peer's address.
impl Default for ClientAddress {
    fn default() -> Self {
        Self::peer()
    }
}

/// The first hop that is not trusted, given that the peer is; else the last good one.
fn walk(
    header: ForwardingHeader,
    headers: &HeaderMap,
    peer: Option<IpAddr>,
    is_trusted: impl Fn(usize, IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut last = peer;
    for (before, hop) in header.hops(headers).enumerate() {
        // Garbage, `unknown` or a hidden name: nobody can say what is behind it.
        let Some(hop) = hop.map(|address| address.to_canonical()) else { break };
        last = Some(hop);
        if !is_trusted(before + 1, hop) {
            break;
        }
    }
    last
}

fn network(text: &str) -> Result<IpNet, TrustError> {
    let text = text.trim();
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    // What is shown of a long text is bounded.
    network.map(canonical).map_err(|_| TrustError::InvalidNetwork { text: text.chars().take(64).collect() })
}

/// Hops are compared as what they are, so a network of mapped addresses has to be one of IPv4.
fn canonical(network: IpNet) -> IpNet {
    let mapped = match network {
        IpNet::V6(v6) => v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96)),
        IpNet::V4(_) => None,
    };
    mapped.and_then(|(address, bits)| IpNet::new(address.into(), bits).ok()).unwrap_or(network)
}
