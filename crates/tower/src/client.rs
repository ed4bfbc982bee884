//! Client identity: a name with the prefix of its source, and an address.
//!
//! The name selects the bucket, so it is bounded, and two sources cannot produce the same one. It is stored
//! inline: naming a client happens on every request and does not allocate. A credential is never part of it,
//! only a hash of it.

use hivemind_core::{ClientIp, Ipv6Prefix};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use std::net::IpAddr;

/// The longest name: `custom:`, a layer name of 16 characters, a colon and an id of 64.
const CAPACITY: usize = 88;
/// The longest id that is used verbatim; longer ones are hashed.
const MAX_ID_LEN: usize = 64;
/// The longest layer name.
pub(crate) const MAX_LAYER_LEN: usize = 16;

/// The client of a request: a name for its bucket, and an address for the address guard and the refusal log.
///
/// ```
/// use hivemind_tower::Identity;
///
/// let (request, ()) = http::Request::get("/").header("authorization", "Bearer secret").body(())?.into_parts();
/// let client = Identity::default().identify(&request, Some([203, 0, 113, 9].into()));
/// assert!(client.name().starts_with("bearer:") && !client.name().contains("secret")); // Only a hash.
/// assert_eq!(client.address().map(|address| address.to_string()).as_deref(), Some("203.0.113.9"));
/// assert!(!client.is_by_address()); // So the guard of its address is charged too.
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    name: ClientName,
    address: Option<ClientIp>,
    is_by_address: bool,
}

impl Client {
    /// The name, with the prefix of its source: `session:<16 hex>`,
    /// `bearer:<16 hex>`, `apikey:<id>`, `custom:<layer>:<id>`, `ip:203.0.113.9`,
    /// `ip:2001:db8::/64`, or `ip:unknown` for a peer without an address.
    ///
    /// ```
    /// # use hivemind_tower::Identity;
    /// let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// assert_eq!(Identity::default().identify(&request, None).name(), "ip:unknown");
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The client's address according to the trusted hops; `None` for a peer without one, such as on a Unix
    /// socket.
    #[must_use]
    pub const fn address(&self) -> Option<ClientIp> {
        self.address
    }

    /// Whether it is identified by its address alone. Its bucket limits the address then, and no guard is
    /// charged.
    #[must_use]
    pub const fn is_by_address(&self) -> bool {
        self.is_by_address
    }

    /// Whether `name` is a possible client name.
    pub(crate) fn is_valid_name(name: &str) -> bool {
        match name.split_once(':') {
            Some(("ip", address)) => is_address(address),
            Some(("session" | "bearer" | "apikey" | "custom", rest)) => !rest.is_empty(),
            _ => false,
        }
    }

    pub(crate) fn by_address(address: Option<ClientIp>) -> Self {
        let mut name = ClientName::new("ip:");
        match address {
            Some(address) => name.push_address(address),
            None => name.push("unknown"),
        }
        Self { name, address, is_by_address: true }
    }

    /// A client identified by a secret. Its name has 64 bits of the secret's SHA-256: enough to distinguish
    /// clients, and useless for logging in.
    pub(crate) fn by_secret(prefix: &str, secret: &[u8], address: Option<ClientIp>) -> Self {
        let mut name = ClientName::new(prefix);
        name.push_hash(secret, 8);
        Self { name, address, is_by_address: false }
    }

    /// A client identified by an id that is not secret. A long or unusual id becomes 128 bits of its SHA-256:
    /// names are bounded, and collisions cannot be constructed.
    pub(crate) fn by_id(prefix: &str, id: &[u8], address: Option<ClientIp>) -> Self {
        let mut name = ClientName::new(prefix);
        match std::str::from_utf8(id) {
            Ok(text) if text.len() <= MAX_ID_LEN && text.bytes().all(is_unreserved) => name.push(text),
            _ => {
                // A verbatim id cannot contain a colon, so it cannot imitate a hash.
                name.push("sha256:");
                name.push_hash(id, 16);
            }
        }
        Self { name, address, is_by_address: false }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("name", &self.name())
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Whether a text is the `Display` of a client address; an IPv6 client is its block.
pub(crate) fn is_address(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "64"));
    let prefix = bits.parse().ok().and_then(|bits| Ipv6Prefix::new(bits).ok()).unwrap_or_default();
    let is_canonical = |address| ClientIp::within(address, prefix).to_string() == text;
    text == "unknown" || address.parse().is_ok_and(is_canonical)
}

/// Whether an id with this byte can be used verbatim.
pub(crate) const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A short text without an allocation. Text beyond the capacity is cut; callers push only bounded text, which
/// a test of the longest names checks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ClientName {
    bytes: [u8; CAPACITY],
    len: u8,
}

impl ClientName {
    fn new(prefix: &str) -> Self {
        let mut name = Self { bytes: [0; CAPACITY], len: 0 };
        name.push(prefix);
        name
    }

    fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let from = usize::from(self.len);
        let fits = bytes.len().min(CAPACITY - from.min(CAPACITY));
        if let (Some(place), Some(bytes)) = (self.bytes.get_mut(from..from + fits), bytes.get(..fits)) {
            place.copy_from_slice(bytes);
            // At most the capacity, which fits a `u8`.
            self.len += u8::try_from(fits).unwrap_or_default();
        }
    }

    fn push_address(&mut self, client: ClientIp) {
        let IpAddr::V4(address) = client.address() else {
            // Writing into a `Name` cannot fail.
            let _ = write!(self, "{client}");
            return;
        };
        // Without a formatter, which would take longer than everything else here; this is the most common name.
        for (index, octet) in address.octets().into_iter().enumerate() {
            let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
            let leading_zeros = usize::from(octet < 100) + usize::from(octet < 10);
            self.push_bytes(if index == 0 { b"" } else { b"." });
            self.push_bytes(digits.get(leading_zeros..).unwrap_or_default());
        }
    }

    fn push_hash(&mut self, secret: &[u8], bytes: usize) {
        let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble };
        for byte in Sha256::digest(secret).iter().take(bytes) {
            self.push_bytes(&[digit(byte >> 4), digit(byte & 15)]);
        }
    }

    fn as_str(&self) -> &str {
        let held = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(held).unwrap_or_default()
    }
}

impl Write for ClientName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Fails when any text is accepted as a client name.
    #[test]
    fn client_name_validation_accepts_only_possible_names() {
        for name in ["ip:203.0.113.9", "ip:2001:db8::/64", "ip:2001:db8::/56", "ip:unknown", "apikey:team-7"]
        {
            assert!(Client::is_valid_name(name), "{name}");
        }
        for name in
            ["203.0.113.9", "ip:", "ip:2001:db8::1", "ip:2001:db8::1/64", "ip:1.2.3.4/24", "key:x", "apikey:"]
        {
            assert!(!Client::is_valid_name(name), "{name}");
        }
    }

    #[test]
    fn client_name_has_source_prefix_and_no_secret() {
        let secret = Client::by_secret("session:", b"abc", None);
        assert_eq!(secret.name(), "session:ba7816bf8f01cfea"); // The example of FIPS 180-2.
        assert_eq!(Client::by_id("apikey:", b"team-7", None).name(), "apikey:team-7");
        assert_eq!(Client::by_address(None).name(), "ip:unknown");
        for (address, name) in [
            ("2001:db8::1", "ip:2001:db8::/64"),
            ("0.9.10.99", "ip:0.9.10.99"),
            ("100.101.200.255", "ip:100.101.200.255"),
        ] {
            assert_eq!(Client::by_address(Some(address.parse().unwrap())).name(), name);
        }
        assert!(!format!("{secret:?}").contains("abc"));
    }

    /// Fails with a capacity of 80.
    #[test]
    fn longest_client_names_fit_the_capacity() {
        let longest = "2001:db8:1234:1234:1234:1234:1234:1234".parse().unwrap();
        let address = ClientIp::within(longest, Ipv6Prefix::new(128).unwrap());
        assert!(Client::by_address(Some(address)).name().ends_with("1234:1234:1234:1234/128"));
        let prefix = format!("custom:{}:", "l".repeat(MAX_LAYER_LEN));
        let client = Client::by_id(&prefix, "x".repeat(MAX_ID_LEN).as_bytes(), None);
        assert_eq!(client.name(), format!("{prefix}{}", "x".repeat(MAX_ID_LEN)));
        let client = Client::by_id(&prefix, "x".repeat(MAX_ID_LEN + 1).as_bytes(), None);
        assert_eq!(client.name().len(), prefix.len() + "sha256:".len() + 32);
    }

    /// Ids of separators, ids that look like hashes, and ids around the longest length.
    fn ids() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "[a:=% ]{0,4}".prop_map(String::into_bytes),
            "(sha256:)?[0-9a-f]{31,33}".prop_map(String::into_bytes),
            "x{62,67}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..4),
        ]
    }

    proptest! {
        /// Fails when long ids are cut instead of hashed, and when a colon counts as an unreserved byte.
        #[test]
        fn client_names_are_bounded_and_unique_per_id(one in ids(), other in ids()) {
            let (first, second) = (Client::by_id("apikey:", &one, None), Client::by_id("apikey:", &other, None));
            prop_assert_eq!(first.name() == second.name(), one == other);
            prop_assert!(first.name().len() <= CAPACITY);
            prop_assert!(first.name().bytes().all(|byte| is_unreserved(byte) || byte == b':'));
            // The hash of an id cannot be sent as an id.
            let echoed = first.name().trim_start_matches("apikey:").as_bytes().to_vec();
            let echo = Client::by_id("apikey:", &echoed, None);
            prop_assert_eq!(echo.name() == first.name(), echoed == one);
        }
    }
}
