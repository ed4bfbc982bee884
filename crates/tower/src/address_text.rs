//! Text of a client address, without an allocation. It is part of the counter name of an address guard, which
//! most requests are charged to.

use hivemind_core::ClientIp;
use std::fmt::{self, Write};

/// The longest text: eight groups of four digits, seven colons and `/128`.
const CAPACITY: usize = 43;

#[derive(Clone, Copy)]
pub(crate) struct AddressText {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl AddressText {
    /// The `Display` of the address, or `unknown`.
    pub(crate) fn new(address: Option<ClientIp>) -> Self {
        let mut text = Self { bytes: [0; CAPACITY], len: 0 };
        // Every address fits, as a test checks; a longer one would be cut.
        let _ = match address {
            Some(address) => write!(text, "{address}"),
            None => text.write_str("unknown"),
        };
        text
    }

    pub(crate) fn as_str(&self) -> &str {
        // Only complete ASCII texts are written.
        let text = self.bytes.get(..self.len).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl Write for AddressText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let place = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_core::Ipv6Prefix;

    #[test]
    fn address_text_equals_display_for_longest_address() {
        for address in ["203.0.113.255", "::", "2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
            for length in [48, 64, 128] {
                let client = ClientIp::within(address.parse().unwrap(), Ipv6Prefix::new(length).unwrap());
                assert_eq!(AddressText::new(Some(client)).as_str(), client.to_string());
            }
        }
        assert_eq!(AddressText::new(None).as_str(), "unknown");
    }
}
