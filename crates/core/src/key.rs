//! The name of a counter: a keyed 128-bit hash of its typed parts. Nothing readable
//! is kept, so a million keys cost 16 bytes each and no credential rests in memory.
//!
//! SipHash-1-3 with a 128-bit result, because clients choose the values: without
//! the seed nobody can aim two names at one counter, which the faster
//! non-cryptographic hashes do not promise. Nodes that share the seed agree on keys.

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
/// let who: [Entry<'_>; 2] = [("user", "ada"), ("path", "/login")];
/// assert_eq!(who[0].1, "ada");
/// ```
pub type Entry<'a> = (&'a str, &'a str);

/// The readable parts of a counter's name, lent to those who need them.
///
/// ```
/// use hivemind_core::store::Parts;
///
/// let parts = Parts { domain: "shop", entries: &[("user", "ada")] };
/// assert_ne!(parts, Parts { domain: "blog", ..parts }); // Another application, another counter.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The space of names that the rules of one application share.
    pub domain: &'a str,
    /// Who or what is counted, in order.
    pub entries: &'a [Entry<'a>],
}

impl<'a> Parts<'a> {
    /// The values of its entries, which are all that a rule leaves open.
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
    /// A seed read from a file that only its nodes can read.
    ///
    /// ```
    /// # use hivemind_core::store::KeySeed;
    /// assert_ne!(KeySeed::new([1; 16]), KeySeed::new([2; 16]));
    /// ```
    #[must_use]
    pub const fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// A seed that no other process has: for counters that are shared with none.
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

    /// A seed for a cluster that was given none: equal on all its nodes, but no secret.
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
        f.write_str("KeySeed(..)") // A secret has no business in a log.
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
    /// Algorithm and, for windows, period are part of a counter's identity, since
    /// its state means nothing under another; requests, rate and burst are not, so
    /// that a changed limit keeps its counter. `ordinal` tells limits of one kind
    /// on one descriptor apart.
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
    /// No two addresses share one, not even by chance: one half is the address, and
    /// a bit of the other says of which family. That half is hashed, since it alone
    /// chooses the place in a table, which clients must not be able to aim at.
    #[inline]
    pub(crate) fn of_address(seed: &KeySeed, client: ClientIp) -> Self {
        // In the middle, where neither the shard nor the table's place is taken from.
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

    /// A key with exactly these bits, for stores that get it from a peer.
    ///
    /// ```
    /// # use hivemind_core::store::Key;
    /// assert_eq!(Key::from_bits(1, 2).bits(), (1, 2));
    /// ```
    #[must_use]
    pub const fn from_bits(high: u64, low: u64) -> Self {
        Self { high, low }
    }

    /// Its bits, as (high, low). The low half is evenly spread and serves as the key's own hash.
    ///
    /// ```
    /// # use hivemind_core::store::Key;
    /// let (high, low) = Key::from_bits(1, 2).bits(); // To be sent to a peer ...
    /// assert_eq!(Key::from_bits(high, low), Key::from_bits(1, 2)); // ... which makes the same key of them.
    /// ```
    #[must_use]
    pub const fn bits(self) -> (u64, u64) {
        (self.high, self.low)
    }
}

/// The part of a key that a rule fixes, hashed once: what is left for each request are its values.
///
/// The whole message is the algorithm, ordinal and number of entries, the period of
/// a window, the domain and the entries' keys; then the values. Each text but the
/// last value is preceded by its length: joined with a separator, `("a_b", "c")`
/// and `("a", "b_c")` would share one counter. The last value ends the message, and
/// the hash tells the message's length itself.
///
/// ```
/// use hivemind_core::store::{Key, KeyPrefix, KeySeed, Parts};
/// use hivemind_core::{Limit, Period};
///
/// let (seed, limit) = (KeySeed::new([7; 16]), Limit::fixed_window(5, Period::MINUTE));
/// let prefix = KeyPrefix::new(&seed, "shop", ["user"], &limit, 0); // Once for the rule ...
/// let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
/// assert_eq!(prefix.key(["ada"]), Key::new(&seed, ada, &limit, 0)); // ... and the rest for each request.
/// ```
#[derive(Clone, Copy)]
pub struct KeyPrefix(Sip13);

impl KeyPrefix {
    /// What the keys of the counters of `limit` begin with, for entries of these `keys`; see [`Key::new`].
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

    /// The key of the counter for these `values`, one for each key of the prefix.
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
        // The half that is ready first chooses the place: the table is found while the other is made.
        let (low, high) = hash.finish_after(last.as_bytes());
        Key { high, low }
    }
}

impl std::fmt::Debug for KeyPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPrefix(..)") // Whoever has it can make keys, as with the seed.
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
    fn no_two_addresses_share_a_key() {
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
        assert_eq!(halves.len(), addresses.len(), "told apart by what is not hashed: {keys:?}");
        assert_ne!(keys[0], Key::of_address(&KeySeed::new([8; 16]), "0.0.0.0".parse().unwrap()));
    }
}
