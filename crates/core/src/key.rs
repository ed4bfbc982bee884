//! The name of a counter: a keyed 128-bit hash of its typed parts. Nothing readable
//! is kept, so a million keys cost 16 bytes each and no credential rests in memory.
//!
//! SipHash-1-3 with a 128-bit result, because clients choose the values: without
//! the seed nobody can aim two names at one counter, which the faster
//! non-cryptographic hashes do not promise. Nodes that share the seed agree on keys.

use crate::client_ip::ClientIp;
use crate::limit::Limit;
use crate::sip::Sip13;
use siphasher::sip128::SipHasher13;
use std::hash::{BuildHasher, RandomState};
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
    #[inline]
    pub fn new(seed: &KeySeed, parts: Parts<'_>, limit: &Limit, ordinal: u16) -> Self {
        let mut hasher = Sip13::new(seed.0);
        let (algorithm, period) = match limit {
            Limit::TokenBucket(_) => (0, 0),
            Limit::FixedWindow(window) => (1, window.nanos()),
            Limit::SlidingWindow(window) => (2, window.nanos()),
        };
        // Small numbers share a word, since each word costs a round of the hash. The
        // number of entries needs none: with all lengths told, only one reading is left.
        hasher.write(algorithm << 48 | u64::from(ordinal) << 32 | parts.domain.len() as u64);
        if period != 0 {
            hasher.write(period);
        }
        write_words(&mut hasher, parts.domain);
        for (key, value) in parts.entries {
            hasher.write((key.len() as u64) << 32 | value.len() as u64);
            write_words(&mut hasher, key);
            write_words(&mut hasher, value);
        }
        let (high, low) = hasher.finish();
        Self { high, low }
    }

    /// The key of the one token bucket that a client's address has.
    pub(crate) fn of_address(seed: &KeySeed, client: ClientIp) -> Self {
        // An IPv4 address in its own range of IPv6, which `ClientIp` has emptied.
        let bits = match client.address() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let mut hasher = Sip13::new(seed.0);
        #[expect(clippy::cast_possible_truncation, reason = "each half is 64 bits wide")]
        let (low, high) = (bits as u64, (bits >> 64) as u64);
        hasher.write(low);
        hasher.write(high);
        let (high, low) = hasher.finish();
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

/// Writes a part in whole words, which the hash takes without buffering. The last
/// word may repeat bytes of the one before it; the length, written first, tells.
#[expect(
    clippy::inline_always,
    reason = "the hash's state stays in registers; called, it goes through memory"
)]
#[inline(always)]
fn write_words(hasher: &mut Sip13, part: &str) {
    let bytes = part.as_bytes();
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hasher.write(u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        hasher.write(last_word(bytes));
    }
}

/// The last eight bytes, or all of a shorter part.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*word);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
