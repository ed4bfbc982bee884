//! Who a client is by its address: IPv4 as it is, IPv6 by its /64, because a
//! customer is handed 2^64 addresses at once, and an IPv4 address in IPv6 clothes
//! as the IPv4 address that it is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A client's address, in the form that it is limited by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientIp(IpAddr);

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no IP address; write it like 203.0.113.9 or 2001:db8::1, without port, brackets or zone"
)]
pub struct AddressError {
    text: String,
}

impl ClientIp {
    /// The address it stands for; of IPv6, the first of its /64.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.0
    }
}

impl From<IpAddr> for ClientIp {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            IpAddr::V4(address) => IpAddr::V4(address),
        })
    }
}

impl From<Ipv4Addr> for ClientIp {
    fn from(address: Ipv4Addr) -> Self {
        Self(IpAddr::V4(address))
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
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) => write!(f, "{address}/64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ClientIp;

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
}
