//! Client address: the peer's, or the one that trusted proxies report.
//!
//! By default only the peer's address is used, because headers are text that a client can send. Behind proxies,
//! the reported hops are followed from the nearest outwards as long as they are trusted; the first untrusted hop
//! is the client. What an untrusted client sends stands left of its own address and is never reached.

use crate::forwarded::{ForwardingHeader, MAX_HOPS};
use hivemind_core::{ClientIp, Ipv6Prefix};
use http::HeaderMap;
use ipnet::IpNet;
use std::net::IpAddr;

/// How the address of a client is determined.
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
/// assert_eq!(by([192, 0, 2, 1]), "ip:192.0.2.1"); // Not a trusted proxy: its header is ignored.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientAddress {
    trust: AddressTrust,
    prefix: Ipv6Prefix,
}

#[derive(Clone, Debug)]
enum AddressTrust {
    Peer,
    Proxies { proxies: Box<[IpNet]>, header: ForwardingHeader },
    Hops { hops: usize, header: ForwardingHeader },
    Leftmost { header: ForwardingHeader },
}

/// An invalid trust configuration.
///
/// ```
/// use hivemind_tower::{ClientAddress, ForwardingHeader};
///
/// let error = ClientAddress::behind_proxies(["10.0.0"], ForwardingHeader::XForwardedFor).unwrap_err();
/// assert!(error.to_string().starts_with("`10.0.0` is not a network; write it like 10.0.0.0/8"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A text that is neither an address nor a network.
    #[error("`{text}` is not a network; write it like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.7")]
    InvalidNetwork {
        /// The given text, cut to 64 characters.
        text: String,
    },
    /// An empty list of trusted proxies.
    #[error("no trusted proxies; name their networks, or use the peer's address")]
    NoProxies,
    /// A number of hops out of range.
    #[error(
        "{hops} trusted hops are out of range; count the proxies between the client and this server, 1 to {MAX_HOPS}"
    )]
    Hops {
        /// The number given.
        hops: usize,
    },
}

impl ClientAddress {
    /// The peer's address, ignoring all headers. Correct where clients connect directly.
    ///
    /// ```
    /// # use hivemind_tower::ClientAddress;
    /// assert_eq!(ClientAddress::peer().header(), None);
    /// ```
    #[must_use]
    pub fn peer() -> Self {
        Self::new(AddressTrust::Peer)
    }

    /// Behind proxies in these networks. If the peer is one of them, the client is the first address from the
    /// right in `header` that is not one of them.
    ///
    /// A peer on a Unix socket has no address and is in no network; for such a proxy use
    /// [`behind_hops`](Self::behind_hops).
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::Forwarded, error::TrustError};
    /// assert!(ClientAddress::behind_proxies(["10.0.0.0/8", "192.0.2.7"], Forwarded).is_ok());
    /// assert_eq!(ClientAddress::behind_proxies(["10.0.0.0/8"; 0], Forwarded).err(), Some(TrustError::NoProxies));
    /// ```
    ///
    /// # Errors
    ///
    /// If the list is empty, or contains an invalid network.
    pub fn behind_proxies<N: AsRef<str>>(
        networks: impl IntoIterator<Item = N>,
        header: ForwardingHeader,
    ) -> Result<Self, TrustError> {
        let proxies: Result<Box<[IpNet]>, _> =
            networks.into_iter().map(|n| parse_network(n.as_ref())).collect();
        match proxies? {
            none if none.is_empty() => Err(TrustError::NoProxies),
            proxies => Ok(Self::new(AddressTrust::Proxies { proxies, header })),
        }
    }

    /// Behind exactly `hops` proxies with any addresses; the peer is the first of them. Correct only where
    /// clients can reach this server only through all of them.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::XForwardedFor, error::TrustError};
    /// assert!(ClientAddress::behind_hops(2, XForwardedFor).is_ok()); // A load balancer, and nginx behind it.
    /// assert_eq!(ClientAddress::behind_hops(0, XForwardedFor).err(), Some(TrustError::Hops { hops: 0 }));
    /// ```
    ///
    /// # Errors
    ///
    /// If it is 0 or more than 32.
    pub fn behind_hops(hops: usize, header: ForwardingHeader) -> Result<Self, TrustError> {
        if (1..=MAX_HOPS).contains(&hops) {
            Ok(Self::new(AddressTrust::Hops { hops, header }))
        } else {
            Err(TrustError::Hops { hops })
        }
    }

    /// The leftmost address of the header: **clients choose their own bucket, and the address that fail2ban
    /// bans**. It exists for deployments that depend on it; creating it logs a warning.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::XForwardedFor};
    /// assert!(ClientAddress::legacy_leftmost(XForwardedFor).trusts(None)); // It trusts any peer.
    /// ```
    #[must_use]
    pub fn legacy_leftmost(header: ForwardingHeader) -> Self {
        tracing::warn!(
            ?header,
            "legacy_leftmost lets clients choose the address that they are limited by; \
             name your proxies in `trusted_proxies` instead"
        );
        Self::new(AddressTrust::Leftmost { header })
    }

    /// The header that is read for trusted peers; `None` if no header is.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, ForwardingHeader::Forwarded, error::TrustError};
    /// assert_eq!(ClientAddress::behind_hops(1, Forwarded)?.header(), Some(Forwarded));
    /// # Ok::<(), TrustError>(())
    /// ```
    #[must_use]
    pub const fn header(&self) -> Option<ForwardingHeader> {
        match &self.trust {
            AddressTrust::Peer => None,
            AddressTrust::Proxies { header, .. }
            | AddressTrust::Hops { header, .. }
            | AddressTrust::Leftmost { header } => Some(*header),
        }
    }

    /// Treats IPv6 blocks of this size as one client, instead of /64.
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

    /// Whether this peer's forwarding header is trusted. A proxy appends to the header of a trusted peer, and
    /// replaces that of any other.
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
            AddressTrust::Peer => false,
            AddressTrust::Proxies { proxies, .. } => {
                let peer = peer.map(|peer| peer.to_canonical());
                peer.is_some_and(|peer| proxies.iter().any(|network| network.contains(&peer)))
            }
            AddressTrust::Hops { .. } | AddressTrust::Leftmost { .. } => true,
        }
    }

    fn new(trust: AddressTrust) -> Self {
        Self { trust, prefix: Ipv6Prefix::default() }
    }

    /// The client address of a request with these headers from this peer.
    pub(crate) fn resolve(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<ClientIp> {
        let peer = peer.map(|address| address.to_canonical());
        let address = match &self.trust {
            AddressTrust::Peer => peer,
            AddressTrust::Leftmost { header } => header.leftmost(headers).or(peer),
            AddressTrust::Proxies { proxies, header } => {
                let is_trusted = |_, hop: IpAddr| proxies.iter().any(|network| network.contains(&hop));
                // Checked first: most untrusted peers are not proxies and send no header.
                if peer.is_some_and(|peer| is_trusted(0, peer)) {
                    first_untrusted_hop(*header, headers, peer, is_trusted)
                } else {
                    peer
                }
            }
            AddressTrust::Hops { hops, header } => {
                first_untrusted_hop(*header, headers, peer, |index, _| index < *hops)
            }
        };
        address.map(|address| ClientIp::within(address, self.prefix))
    }
}

/// [`ClientAddress::peer`].
impl Default for ClientAddress {
    fn default() -> Self {
        Self::peer()
    }
}

/// The first untrusted hop behind a trusted peer; if all are trusted, the last valid one.
fn first_untrusted_hop(
    header: ForwardingHeader,
    headers: &HeaderMap,
    peer: Option<IpAddr>,
    is_trusted: impl Fn(usize, IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut last = peer;
    for (before, hop) in header.hops(headers).enumerate() {
        // An invalid, `unknown` or obfuscated hop: the hops behind it cannot be trusted.
        let Some(hop) = hop.map(|address| address.to_canonical()) else { break };
        last = Some(hop);
        if !is_trusted(before + 1, hop) {
            break;
        }
    }
    last
}

fn parse_network(text: &str) -> Result<IpNet, TrustError> {
    let text = text.trim();
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network
        .map(canonical_network)
        .map_err(|_| TrustError::InvalidNetwork { text: text.chars().take(64).collect() })
}

/// Converts a network of IPv4-mapped addresses to IPv4, as hops are.
fn canonical_network(network: IpNet) -> IpNet {
    let mapped = match network {
        IpNet::V6(v6) => v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96)),
        IpNet::V4(_) => None,
    };
    mapped.and_then(|(address, bits)| IpNet::new(address.into(), bits).ok()).unwrap_or(network)
}
