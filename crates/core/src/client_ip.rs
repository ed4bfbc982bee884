//! Client addresses: IPv4 as is, IPv6 by its /64, because a customer usually gets 2^64
//! addresses at once. IPv4-mapped IPv6 addresses count as IPv4. For networks that assign
//! other block sizes, see [`Ipv6Prefix`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A client's address, in the form that limits use.
///
/// ```
/// use hivemind_core::ClientIp;
///
/// let [one, neighbour]: [ClientIp; 2] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
/// assert_eq!(one, neighbour); // The whole /64 belongs to one customer.
/// let mapped: ClientIp = "::ffff:203.0.113.9".parse()?;
/// assert_eq!(mapped.to_string(), "203.0.113.9");
/// # Ok::<(), hivemind_core::AddressError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientIp {
    address: IpAddr,
    // Part of the identity: `2001:db8::/48` and `2001:db8::/64` are two clients.
    prefix: Ipv6Prefix,
}

/// The number of leading bits of an IPv6 address that identify one client: 48 to 128, usually 64.
///
/// ```
/// use hivemind_core::{ClientIp, Ipv6Prefix};
///
/// let client = ClientIp::within("2001:db8:1:2::3".parse().unwrap(), Ipv6Prefix::new(56).unwrap());
/// assert_eq!(client.to_string(), "2001:db8:1::/56");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv6Prefix(u8);

/// An invalid prefix length: one that would merge unrelated clients, or is longer than an address.
///
/// ```
/// use hivemind_core::Ipv6Prefix;
///
/// let error = Ipv6Prefix::new(32).unwrap_err(); // A whole provider.
/// assert!(error.to_string().starts_with("an IPv6 prefix of 32 bits cannot identify a client; use 64"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an IPv6 prefix of {bits} bits cannot identify a client; use 64, or any length from 48 (a site) to 128 (one address)"
)]
pub struct Ipv6PrefixError {
    bits: u8,
}

impl Ipv6Prefix {
    /// A prefix of `bits` bits.
    ///
    /// ```
    /// # use hivemind_core::Ipv6Prefix;
    /// assert_eq!(Ipv6Prefix::new(64), Ok(Ipv6Prefix::default()));
    /// assert!(Ipv6Prefix::new(129).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If `bits` is below 48, where one bucket would serve a whole provider, or above 128.
    pub const fn new(bits: u8) -> Result<Self, Ipv6PrefixError> {
        if bits >= 48 && bits <= 128 { Ok(Self(bits)) } else { Err(Ipv6PrefixError { bits }) }
    }

    /// Its length in bits.
    ///
    /// ```
    /// # use hivemind_core::Ipv6Prefix;
    /// assert_eq!(Ipv6Prefix::default().bits(), 64);
    /// ```
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// 64 bits: the usual block of one customer.
impl Default for Ipv6Prefix {
    fn default() -> Self {
        Self(64)
    }
}

/// A text that is not an IP address.
///
/// ```
/// use hivemind_core::ClientIp;
///
/// let error = "203.0.113.9:80".parse::<ClientIp>().unwrap_err();
/// assert!(error.to_string().starts_with("`203.0.113.9:80` is not an IP address; write it like 203.0.113.9"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an IP address; write it like 203.0.113.9 or 2001:db8::1, without port, brackets or zone"
)]
pub struct AddressError {
    text: String,
}

impl ClientIp {
    /// The client of this address, where each IPv6 client has a block of this size. The
    /// prefix does not apply to IPv4. (An [`IpLimiter`](crate::IpLimiter) uses the first 64
    /// bits, whatever the prefix.)
    ///
    /// ```
    /// # use hivemind_core::{ClientIp, Ipv6Prefix};
    /// let site = Ipv6Prefix::new(48)?;
    /// let client = ClientIp::within("2001:db8:1:2::3".parse().unwrap(), site);
    /// assert_eq!(client.to_string(), "2001:db8:1::/48");
    /// # Ok::<(), hivemind_core::Ipv6PrefixError>(())
    /// ```
    #[must_use]
    pub fn within(address: IpAddr, prefix: Ipv6Prefix) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - u32::from(prefix.bits()));
                Self { address: IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask)), prefix }
            }
            IpAddr::V4(address) => Self::from(address),
        }
    }

    /// Its address; for IPv6, the first of its block.
    ///
    /// ```
    /// # use hivemind_core::ClientIp;
    /// let client: ClientIp = "2001:db8::7".parse()?;
    /// assert_eq!(client.address().to_string(), "2001:db8::");
    /// # Ok::<(), hivemind_core::AddressError>(())
    /// ```
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }
}

impl From<IpAddr> for ClientIp {
    fn from(address: IpAddr) -> Self {
        Self::within(address, Ipv6Prefix::default())
    }
}

impl From<Ipv4Addr> for ClientIp {
    fn from(address: Ipv4Addr) -> Self {
        // Always the same prefix; otherwise one address would be several clients.
        Self { address: IpAddr::V4(address), prefix: Ipv6Prefix::default() }
    }
}

impl From<Ipv6Addr> for ClientIp {
    fn from(address: Ipv6Addr) -> Self {
        Self::from(IpAddr::V6(address))
    }
}

impl FromStr for ClientIp {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let address: Result<IpAddr, _> = text.parse();
        // Limits how much of a hostile text the error shows.
        address.map(Self::from).map_err(|_| AddressError { text: text.chars().take(64).collect() })
    }
}

impl fmt::Display for ClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) => write!(f, "{address}/{}", self.prefix.bits()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientIp, Ipv6Prefix};

    #[test]
    fn client_ip_is_ipv4_address_or_ipv6_block() {
        for (address, limited_as) in [
            ("203.0.113.9", "203.0.113.9"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:db8:1:2::", "2001:db8:1:2::/64"),
            ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("::1", "::/64"),
        ] {
            let client: ClientIp = address.parse().unwrap();
            assert_eq!(client.to_string(), limited_as, "{address}");
        }
    }

    #[test]
    fn invalid_address_error_names_remedy_and_is_bounded() {
        for text in ["", "localhost", "203.0.113.9:80", "[::1]", "fe80::1%eth0", "1.2.3", &"9".repeat(1_000)]
        {
            let error = text.parse::<ClientIp>().unwrap_err().to_string();
            assert!(error.contains("write it like 203.0.113.9"), "{error}");
            assert!(error.len() < 200, "{error}");
        }
    }

    #[test]
    fn ipv6_prefix_changes_block_size_and_ignores_ipv4() {
        for (bits, address, limited_as) in [
            (48, "2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
            (56, "2001:db8:1:2ff::1", "2001:db8:1:200::/56"),
            (128, "2001:db8::1", "2001:db8::1/128"),
            (48, "203.0.113.9", "203.0.113.9"),
            (128, "::ffff:203.0.113.9", "203.0.113.9"),
        ] {
            let client = ClientIp::within(address.parse().unwrap(), Ipv6Prefix::new(bits).unwrap());
            assert_eq!(client.to_string(), limited_as, "{address}");
            // Text and identity agree: an IPv4 client is the same, whatever the prefix.
            let same = ClientIp::within(address.parse().unwrap(), Ipv6Prefix::default());
            assert_eq!(client == same, client.to_string() == same.to_string(), "{address}");
        }
    }

    #[test]
    fn invalid_ipv6_prefix_error_names_remedy() {
        for bits in [0, 1, 47, 129, 255] {
            let error = Ipv6Prefix::new(bits).unwrap_err().to_string();
            assert!(error.contains("use 64"), "{error}");
        }
        for bits in [48, 64, 128] {
            assert_eq!(Ipv6Prefix::new(bits).map(Ipv6Prefix::bits), Ok(bits));
        }
    }
}
