//! The name of a counter: a keyed 128-bit hash of its typed parts. Nothing readable
//! is kept, so a million keys cost 16 bytes each and no credential rests in memory.
//!
//! SipHash-1-3 with a 128-bit result, because clients choose the values: without
//! the seed nobody can aim two names at one counter, which the faster
//! non-cryptographic hashes do not promise. Nodes that share the seed agree on keys.

use crate::client_ip::ClientIp;
use crate::limit::Limit;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;

/// One part of a descriptor: a key and its value.
pub type Entry<'a> = (&'a str, &'a str);

/// The readable parts of a counter's name, lent to those who need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The space of names that the rules of one application share.
    pub domain: &'a str,
    /// Who or what is counted, in order.
    pub entries: &'a [Entry<'a>],
}

/// The secret that keys are hashed with; equal on the nodes that share counters.
#[derive(Clone, Copy)]
pub struct KeySeed([u8; 16]);

impl KeySeed {
    /// A seed read from a file that only its nodes can read.
    #[must_use]
    pub const fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// A seed that no other process has: for counters that are shared with none.
    #[must_use]
    pub fn random() -> Self {
        // The standard library draws the keys of each `RandomState` from the system's randomness.
        let half = || u128::from(RandomState::new().hash_one(()));
        Self((half() << 64 | half()).to_le_bytes())
    }

    /// A seed for a cluster that was given none: equal on all its nodes, but no secret.
    #[must_use]
    pub fn from_cluster_id(cluster_id: &str) -> Self {
        Self(SipHasher13::new_with_key(b"hivemind cluster").hash(cluster_id.as_bytes()).as_bytes())
    }
}

impl std::fmt::Debug for KeySeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySeed(..)") // A secret has no business in a log.
    }
}

/// The name of one counter.
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
    /// Each part is preceded by its length: joined with a separator, `("a_b", "c")`
    /// and `("a", "b_c")` would share one counter.
    #[must_use]
    pub fn new(seed: &KeySeed, parts: Parts<'_>, limit: &Limit, ordinal: u16) -> Self {
        let mut hasher = SipHasher13::new_with_key(&seed.0);
        let (algorithm, period) = match limit {
            Limit::TokenBucket(_) => (0, 0),
            Limit::FixedWindow(window) => (1, window.nanos()),
            Limit::SlidingWindow(window) => (2, window.nanos()),
        };
        hasher.write_u64(period);
        // One word for the small numbers. The count of entries needs no more bits
        // than this: each entry is preceded by its lengths, so none can pose as another.
        hasher.write_u64(algorithm << 48 | u64::from(ordinal) << 32 | parts.entries.len() as u64);
        write_part(&mut hasher, parts.domain);
        for (key, value) in parts.entries {
            write_part(&mut hasher, key);
            write_part(&mut hasher, value);
        }
        let (high, low) = hasher.finish128().as_u64();
        Self { high, low }
    }

    /// The key of the one token bucket that a client's address has.
    pub(crate) fn of_address(seed: &KeySeed, client: ClientIp) -> Self {
        // An IPv4 address in its own range of IPv6, which `ClientIp` has emptied.
        let bits = match client.address() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let (high, low) = SipHasher13::new_with_key(&seed.0).hash(&bits.to_le_bytes()).as_u64();
        Self { high, low }
    }

    /// A key with exactly these bits, for stores that get it from a peer.
    #[must_use]
    pub const fn from_bits(high: u64, low: u64) -> Self {
        Self { high, low }
    }

    /// Its bits, evenly spread: they serve as their own hash.
    #[must_use]
    pub const fn bits(self) -> (u64, u64) {
        (self.high, self.low)
    }
}

fn write_part(hasher: &mut SipHasher13, part: &str) {
    hasher.write_u64(part.len() as u64);
    hasher.write(part.as_bytes());
}
