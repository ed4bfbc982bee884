//! Counter keys: a keyed 128-bit hash of a counter's typed parts. No readable part is
//! stored, so a key costs 16 bytes and no credential stays in memory.
//!
//! SipHash-1-3 with a 128-bit result, because clients choose the values: without the
//! seed, an attacker cannot make two names collide, which faster non-cryptographic
//! hashes do not guarantee. Nodes with the same seed compute the same keys.

use crate::client_ip::ClientIp;
use crate::limit::Limit;
use crate::sip::Sip13;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// One part of a descriptor: a key and its value.
///
/// ```
/// use hivemind_core::Entry;
///
/// let entries: [Entry<'_>; 2] = [("user", "ada"), ("path", "/login")];
/// assert_eq!(entries[0].1, "ada");
/// ```
pub type Entry<'a> = (&'a str, &'a str);

/// The readable parts of a counter's name, borrowed by stores and logs that show them.
///
/// ```
/// use hivemind_core::store::Parts;
///
/// let parts = Parts { domain: "shop", entries: &[("user", "ada")] };
/// assert_ne!(parts, Parts { domain: "blog", ..parts }); // Another application, another counter.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The namespace of one application's rules.
    pub domain: &'a str,
    /// The counted entries, in order.
    pub entries: &'a [Entry<'a>],
}

impl<'a> Parts<'a> {
    /// The values of its entries: the only parts that a rule does not fix.
    #[inline]
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &'a str> + use<'a> {
        self.entries.iter().map(|(_, value)| *value)
    }
}

/// The secret that keys are hashed with; equal on the nodes that share counters.
///
/// ```
/// use hivemind_core::store::KeySeed;
///
/// let secret = *b"16 secret bytes.";
/// assert_eq!(KeySeed::new(secret), KeySeed::new(secret)); // Two nodes with one file agree.
/// assert_ne!(KeySeed::random(), KeySeed::random());
/// assert_eq!(format!("{:?}", KeySeed::new(secret)), "KeySeed(..)"); // No log shows it.
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeySeed([u8; 16]);

impl KeySeed {
    /// A seed from a secret that only the nodes sharing the counters know.
    ///
    /// ```
    /// # use hivemind_core::store::KeySeed;
    /// assert_ne!(KeySeed::new([1; 16]), KeySeed::new([2; 16]));
    /// ```
    #[must_use]
    pub const fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// A random seed, for counters that are not shared with another process.
    ///
    /// ```
    /// # use hivemind_core::store::KeySeed;
    /// assert_ne!(KeySeed::random(), KeySeed::new([0; 16]));
    /// ```
    #[must_use]
    pub fn random() -> Self {
        // The standard library draws the keys of each `RandomState` from the system's randomness.
        let half = || u128::from(RandomState::new().hash_one(()));
        Self((half() << 64 | half()).to_le_bytes())
    }

    /// A seed for a cluster without a configured one: equal on all its nodes, but not a secret.
    ///
    /// ```
    /// # use hivemind_core::store::KeySeed;
    /// assert_eq!(KeySeed::from_cluster_id("shop"), KeySeed::from_cluster_id("shop"));
    /// assert_ne!(KeySeed::from_cluster_id("shop"), KeySeed::from_cluster_id("blog"));
    /// ```
    #[must_use]
    pub fn from_cluster_id(cluster_id: &str) -> Self {
        let (high, low) = Sip13::new(*b"hivemind cluster").finish_after(cluster_id.as_bytes());
        Self((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
    }
}

impl std::fmt::Debug for KeySeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySeed(..)") // Keeps the secret out of logs.
    }
}

/// The name of one counter.
///
/// ```
/// use hivemind_core::store::{Key, KeySeed, Parts};
/// use hivemind_core::{Limit, Period};
///
/// let (seed, limit) = (KeySeed::new([7; 16]), Limit::fixed_window(5, Period::MINUTE));
/// let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
/// let bob = Parts { domain: "shop", entries: &[("user", "bob")] };
/// assert_ne!(Key::new(&seed, ada, &limit, 0), Key::new(&seed, bob, &limit, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    high: u64,
    low: u64,
}

impl Key {
    /// The key of the counter that `limit` keeps for `parts`.
    ///
    /// Algorithm and, for windows, period are part of a counter's identity, because its
    /// state is meaningless under another algorithm or period. Requests, rate and burst are
    /// not, so a changed limit keeps its counter. `ordinal` distinguishes limits of one kind
    /// on one descriptor.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, store::{Key, KeySeed, Parts}};
    /// let (seed, ada) = (KeySeed::new([7; 16]), Parts { domain: "shop", entries: &[("user", "ada")] });
    /// let key = |limit| Key::new(&seed, ada, &limit, 0);
    /// assert_eq!(key(Limit::fixed_window(5, Period::MINUTE)), key(Limit::fixed_window(9, Period::MINUTE)));
    /// assert_ne!(key(Limit::fixed_window(5, Period::MINUTE)), key(Limit::fixed_window(5, Period::HOUR)));
    /// ```
    #[must_use]
    pub fn new(seed: &KeySeed, parts: Parts<'_>, limit: &Limit, ordinal: u16) -> Self {
        let keys = parts.entries.iter().map(|(key, _)| *key);
        KeyPrefix::new(seed, parts.domain, keys, limit, ordinal).key(parts.values())
    }

    /// The key of the one token bucket that a client's address has.
    ///
    /// Two addresses never share a key, not even by chance: one half is the address, and a
    /// bit of the other half is the address family. That other half is hashed, because it
    /// alone chooses the table slot, which clients must not be able to predict.
    #[inline]
    pub(crate) fn of_address(seed: &KeySeed, client: ClientIp) -> Self {
        // A bit in the middle, which neither the shard nor the table slot is derived from.
        const IS_IPV6: u64 = 1 << 44;
        let hash = Sip13::short(seed.0);
        match client.address() {
            IpAddr::V4(address) => {
                let low = hash.finish_short_after(&address.octets());
                Self { high: address.to_bits().into(), low: low & !IS_IPV6 }
            }
            IpAddr::V6(address) => {
                let high = (address.to_bits() >> 64) as u64;
                Self { high, low: hash.finish_short_after(&high.to_le_bytes()) | IS_IPV6 }
            }
        }
    }

    /// A key with exactly these bits, for stores that receive it from a peer.
    ///
    /// ```
    /// # use hivemind_core::store::Key;
    /// assert_eq!(Key::from_bits(1, 2).bits(), (1, 2));
    /// ```
    #[must_use]
    pub const fn from_bits(high: u64, low: u64) -> Self {
        Self { high, low }
    }

    /// Its bits, as (high, low). The low half is uniformly distributed and serves as the key's hash.
    ///
    /// ```
    /// # use hivemind_core::store::Key;
    /// let (high, low) = Key::from_bits(1, 2).bits(); // Sent to a peer ...
    /// assert_eq!(Key::from_bits(high, low), Key::from_bits(1, 2)); // ... which builds the same key from them.
    /// ```
    #[must_use]
    pub const fn bits(self) -> (u64, u64) {
        (self.high, self.low)
    }
}

/// The part of a key that a rule fixes, hashed once; each request adds only its values.
///
/// The whole message contains the algorithm, ordinal and number of entries, the period of
/// a window, the domain and the entries' keys; then the values. A length precedes each
/// text except the last value: joined with a separator, `("a_b", "c")` and `("a", "b_c")`
/// would share one counter. The last value ends the message, whose length is part of the
/// hash.
///
/// ```
/// use hivemind_core::store::{Key, KeyPrefix, KeySeed, Parts};
/// use hivemind_core::{Limit, Period};
///
/// let (seed, limit) = (KeySeed::new([7; 16]), Limit::fixed_window(5, Period::MINUTE));
/// let prefix = KeyPrefix::new(&seed, "shop", ["user"], &limit, 0); // Once per rule ...
/// let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
/// assert_eq!(prefix.key(["ada"]), Key::new(&seed, ada, &limit, 0)); // ... and the rest per request.
/// ```
#[derive(Clone, Copy)]
pub struct KeyPrefix(Sip13);

impl KeyPrefix {
    /// The prefix of the keys of `limit`'s counters, for entries with these `keys`; see [`Key::new`].
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, store::{KeyPrefix, KeySeed}};
    /// let (seed, limit) = (KeySeed::new([7; 16]), Limit::fixed_window(5, Period::MINUTE));
    /// let of_ordinal = |ordinal| KeyPrefix::new(&seed, "shop", ["user"], &limit, ordinal).key(["ada"]);
    /// assert_ne!(of_ordinal(0), of_ordinal(1)); // Two limits of one kind on one descriptor.
    /// ```
    #[must_use]
    pub fn new<'k>(
        seed: &KeySeed,
        domain: &str,
        keys: impl IntoIterator<Item = &'k str, IntoIter: ExactSizeIterator>,
        limit: &Limit,
        ordinal: u16,
    ) -> Self {
        let keys = keys.into_iter();
        let (algorithm, period) = match limit {
            Limit::TokenBucket(_) => (0, 0),
            Limit::FixedWindow(window) => (1, window.nanos()),
            Limit::SlidingWindow(window) => (2, window.nanos()),
        };
        let mut hash = Sip13::new(seed.0);
        hash.write(algorithm << 48 | u64::from(ordinal) << 32 | keys.len() as u64);
        hash.write(period);
        write_text(&mut hash, domain);
        keys.for_each(|key| write_text(&mut hash, key));
        Self(hash)
    }

    /// The key of the counter for these `values`, one per key of the prefix.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, store::{KeyPrefix, KeySeed}};
    /// # let (seed, limit) = (KeySeed::new([7; 16]), Limit::fixed_window(5, Period::MINUTE));
    /// let prefix = KeyPrefix::new(&seed, "shop", ["user", "path"], &limit, 0);
    /// assert_ne!(prefix.key(["a_b", "c"]), prefix.key(["a", "b_c"]));
    /// ```
    #[must_use]
    #[inline]
    pub fn key<'v>(&self, values: impl IntoIterator<Item = &'v str, IntoIter: DoubleEndedIterator>) -> Key {
        let mut hash = self.0;
        let mut values = values.into_iter();
        let last = values.next_back().unwrap_or_default();
        values.for_each(|value| write_text(&mut hash, value));
        // The half that is ready first chooses the slot: the lookup starts while the other half is computed.
        let (low, high) = hash.finish_after(last.as_bytes());
        Key { high, low }
    }
}

impl std::fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPrefix(..)") // It allows computing keys, like the seed.
    }
}

#[inline]
fn write_text(hash: &mut Sip13, text: &str) {
    hash.write(text.len() as u64);
    hash.write_padded(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{Key, KeySeed};
    use std::collections::HashSet;

    #[test]
    fn keys_of_different_addresses_never_collide() {
        let seed = KeySeed::new([7; 16]);
        // Among them /64s whose bits are those of an IPv4 address, bare and mapped.
        let addresses = [
            "0.0.0.0",
            "::",
            "203.0.113.9",
            "0:0:cb00:7109::",
            "0:ffff:cb00:7109::",
            "203.0.113.10",
            "2001:db8::",
            "2001:db8:0:1::",
            "255.255.255.255",
            "0:0:ffff:ffff::",
            "ffff:ffff:ffff:ffff::",
        ];
        let key = |address: &&str| Key::of_address(&seed, address.parse().unwrap());
        let keys: Vec<Key> = addresses.iter().map(key).collect();
        let halves: HashSet<(u64, bool)> =
            keys.iter().map(|key| (key.high, key.low >> 44 & 1 == 1)).collect();
        assert_eq!(halves.len(), addresses.len(), "distinguished by the bits that are not hashed: {keys:?}");
        assert_ne!(keys[0], Key::of_address(&KeySeed::new([8; 16]), "0.0.0.0".parse().unwrap()));
    }
}
