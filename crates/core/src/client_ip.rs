//! Who a client is by its address: IPv4 as it is, IPv6 by its /64, because a
//! customer is handed 2^64 addresses at once, and an IPv4 address in IPv6 clothes
//! as the IPv4 address that it is. Who hands out other blocks says so by an
//! [`Ipv6Prefix`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A client's address, in the form that it is limited by.
///
/// ```
/// use hivemind_core::ClientIp;
///
/// let [one, neighbour]: [ClientIp; 2] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
/// assert_eq!(one, neighbour); // One customer has the whole /64.
/// let dressed: ClientIp = "::ffff:203.0.113.9".parse()?;
/// assert_eq!(dressed.to_string(), "203.0.113.9");
/// # Ok::<(), hivemind_core::AddressError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientIp {
    address: IpAddr,
    // A part of who it is: `2001:db8::/48` and `2001:db8::/64` are two clients.
    prefix: Ipv6Prefix,
}

/// How many leading bits of an IPv6 address name one client: 48 to 128, usually 64.
///
/// ```
/// use hivemind_core::{ClientIp, Ipv6Prefix};
///
/// let client = ClientIp::within("2001:db8:1:2::3".parse().unwrap(), Ipv6Prefix::new(56).unwrap());
/// assert_eq!(client.to_string(), "2001:db8:1::/56");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv6Prefix(u8);

/// A prefix length that would limit strangers together, or that no address has.
///
/// ```
/// use hivemind_core::Ipv6Prefix;
///
/// let error = Ipv6Prefix::new(32).unwrap_err(); // A whole provider.
/// assert!(error.to_string().starts_with("an IPv6 prefix of 32 bits cannot name a client; take 64"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an IPv6 prefix of {bits} bits cannot name a client; take 64, or anything from 48 (a site) to 128 (one address)"
)]
pub struct Ipv6PrefixError {
    bits: u8,
}

impl Ipv6Prefix {
    /// A prefix of so many bits.
    ///
    /// ```
    /// # use hivemind_core::Ipv6Prefix;
    /// assert_eq!(Ipv6Prefix::new(64), Ok(Ipv6Prefix::default()));
    /// assert!(Ipv6Prefix::new(129).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Under 48 bits one client's bucket would be a provider's; over 128 there are none.
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

/// 64 bits: what one customer is handed.
impl Default for Ipv6Prefix {
    fn default() -> Self {
        Self(64)
    }
}

/// A text that is no address.
///
/// ```
/// use hivemind_core::ClientIp;
///
/// let error = "203.0.113.9:80".parse::<ClientIp>().unwrap_err();
/// assert!(error.to_string().starts_with("`203.0.113.9:80` is no IP address; write it like 203.0.113.9"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no IP address; write it like 203.0.113.9 or 2001:db8::1, without port, brackets or zone"
)]
pub struct AddressError {
    text: String,
}

impl ClientIp {
    /// The client that this address belongs to, where IPv6 clients hold a block of
    /// this size. For IPv4 the prefix means nothing. (An [`IpLimiter`](crate::IpLimiter)
    /// goes by the first 64 bits, whatever the prefix.)
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

    /// The address it stands for; of IPv6, the first of its block.
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
        // Always the same prefix, or one address would be several clients.
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
        // What is shown of a hostile text is bounded.
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
    fn an_address_is_limited_by_what_its_owner_holds() {
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
    fn a_text_that_is_no_address_is_refused_with_the_remedy() {
        for text in ["", "localhost", "203.0.113.9:80", "[::1]", "fe80::1%eth0", "1.2.3", &"9".repeat(1_000)]
        {
            let error = text.parse::<ClientIp>().unwrap_err().to_string();
            assert!(error.contains("write it like 203.0.113.9"), "{error}");
            assert!(error.len() < 200, "{error}");
        }
    }

    #[test]
    fn a_prefix_of_another_length_makes_larger_or_smaller_clients_of_ipv6_and_leaves_ipv4() {
        for (bits, address, limited_as) in [
            (48, "2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
            (56, "2001:db8:1:2ff::1", "2001:db8:1:200::/56"),
            (128, "2001:db8::1", "2001:db8::1/128"),
            (48, "203.0.113.9", "203.0.113.9"),
            (128, "::ffff:203.0.113.9", "203.0.113.9"),
        ] {
            let client = ClientIp::within(address.parse().unwrap(), Ipv6Prefix::new(bits).unwrap());
            assert_eq!(client.to_string(), limited_as, "{address}");
            // Text and identity agree: an IPv4 client is one, whatever the prefix.
            let same = ClientIp::within(address.parse().unwrap(), Ipv6Prefix::default());
            assert_eq!(client == same, client.to_string() == same.to_string(), "{address}");
        }
    }

    #[test]
    fn a_prefix_that_names_no_client_is_refused_with_the_remedy() {
        for bits in [0, 1, 47, 129, 255] {
            let error = Ipv6Prefix::new(bits).unwrap_err().to_string();
            assert!(error.contains("take 64"), "{error}");
        }
        for bits in [48, 64, 128] {
            assert_eq!(Ipv6Prefix::new(bits).map(Ipv6Prefix::bits), Ok(bits));
        }
    }
}
