//! Counter cache: a bounded map from counters to what this node knows about them, sharded by lock. Entries only
//! save calls, so they may be dropped at any time, except those with units to return.

use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;
/// Keys of one shard: about a megabyte for all shards.
const KEYS_OF_A_SHARD: usize = 1_024;

/// An entry that can be dropped after its time.
pub(crate) trait Expiring {
    fn is_expired(&self, now: Timestamp) -> bool;

    /// Whether the entry has units to return and must not be dropped.
    fn must_be_kept(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct CounterCache<V> {
    shards: [Mutex<Shard<V>>; SHARDS],
    /// Number of entries: a lookup in an empty cache takes no lock.
    count: AtomicUsize,
}

type Shard<V> = HashMap<Key, V, BuildHasherDefault<LowHasher>>;

impl<V> Default for CounterCache<V> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }
}

impl<V: Expiring> CounterCache<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Calls `look` with the entry of a key.
    pub(crate) fn with<T>(&self, key: Key, look: impl FnOnce(&mut V) -> T) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.shard(key)?.get_mut(&key).map(look)
    }

    /// Inserts an entry. A full shard first drops expired entries, then all that need not be kept; if it is still full,
    /// nothing is inserted.
    pub(crate) fn insert(&self, key: Key, value: V, now: Timestamp) {
        let Some(mut shard) = self.shard(key) else { return };
        let before = shard.len();
        if before >= KEYS_OF_A_SHARD && !shard.contains_key(&key) {
            shard.retain(|_, entry| entry.must_be_kept() || !entry.is_expired(now));
            if shard.len() >= KEYS_OF_A_SHARD {
                shard.retain(|_, entry| entry.must_be_kept());
            }
        }
        if shard.len() < KEYS_OF_A_SHARD || shard.contains_key(&key) {
            shard.insert(key, value);
        }
        self.changed(before, shard.len());
    }

    pub(crate) fn remove(&self, key: Key) -> Option<V> {
        if self.is_empty() {
            return None;
        }
        let mut shard = self.shard(key)?;
        let removed = shard.remove(&key);
        self.changed(usize::from(removed.is_some()), 0);
        removed
    }

    /// Removes and returns all expired entries.
    pub(crate) fn take_expired(&self, now: Timestamp) -> Vec<(Key, V)> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let before = shard.len();
            taken.extend(shard.extract_if(|_, entry| entry.is_expired(now)));
            self.changed(before, shard.len());
        }
        taken
    }

    fn changed(&self, before: usize, after: usize) {
        if after >= before {
            self.count.fetch_add(after - before, Ordering::Release);
        } else {
            self.count.fetch_sub(before - after, Ordering::Release);
        }
    }

    fn shard(&self, key: Key) -> Option<MutexGuard<'_, Shard<V>>> {
        let index = usize::try_from(key.bits().1 >> 60).ok()?;
        Some(self.shards.get(index)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A key's low half is evenly spread and serves as its hash.
#[derive(Default)]
pub(crate) struct LowHasher(u64);

impl Hasher for LowHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half; // The high half comes first, the low one stays.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_core::store::{KeySeed, Parts};
    use hivemind_core::{Limit, Period};

    struct TestEntry {
        owes: bool,
    }

    impl Expiring for TestEntry {
        fn is_expired(&self, _: Timestamp) -> bool {
            true
        }

        fn must_be_kept(&self) -> bool {
            self.owes
        }
    }

    fn key(number: usize) -> Key {
        let (value, limit) = (number.to_string(), Limit::fixed_window(1, Period::HOUR));
        let entries = [("client", value.as_str())];
        Key::new(&KeySeed::new([7; 16]), Parts { domain: "table", entries: &entries }, &limit, 0)
    }

    #[test]
    fn full_table_keeps_entries_to_return_and_stays_bounded() {
        let (table, now) = (CounterCache::default(), Timestamp::from_millis(1));
        (0..100).for_each(|number| table.insert(key(number), TestEntry { owes: true }, now));
        let many = 4 * SHARDS * KEYS_OF_A_SHARD;
        (100..many).for_each(|number| table.insert(key(number), TestEntry { owes: false }, now));
        assert!((0..100).all(|number| table.with(key(number), |entry| entry.owes) == Some(true)));
        (100..many).for_each(|number| table.insert(key(number), TestEntry { owes: true }, now));
        assert_eq!(table.take_expired(now).len(), SHARDS * KEYS_OF_A_SHARD);
    }
}
