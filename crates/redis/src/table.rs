//! A bounded table of counters that this node knows something of, in parts behind
//! locks of their own. What it holds may be dropped at any time, as it only saves asking,
//! but for what has to be given back.

use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PARTS: usize = 16;
/// Keys of one part: a million bytes or so for all of them together.
const KEYS_OF_A_PART: usize = 1_024;

/// What can be dropped once its time is over.
pub(crate) trait Ephemeral {
    fn is_over(&self, now: Timestamp) -> bool;

    /// Whether it may not be dropped, since it holds what is to be given back.
    fn is_owing(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct Table<V> {
    parts: [Mutex<Part<V>>; PARTS],
    /// So that looking into an empty table costs nothing.
    held: AtomicUsize,
}

type Part<V> = HashMap<Key, V, BuildHasherDefault<Low>>;

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self { parts: std::array::from_fn(|_| Mutex::default()), held: AtomicUsize::new(0) }
    }
}

impl<V: Ephemeral> Table<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// What is held of one key.
    pub(crate) fn with<T>(&self, key: Key, look: impl FnOnce(&mut V) -> T) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.part(key)?.get_mut(&key).map(look)
    }

    /// Puts it there. Where there is no room, what is over goes, then all of the part, except
    /// for what owes something; if it is full of such, nothing is put there.
    pub(crate) fn insert(&self, key: Key, value: V, now: Timestamp) {
        let Some(mut part) = self.part(key) else { return };
        let before = part.len();
        if before >= KEYS_OF_A_PART && !part.contains_key(&key) {
            part.retain(|_, held| held.is_owing() || !held.is_over(now));
            if part.len() >= KEYS_OF_A_PART {
                part.retain(|_, held| held.is_owing());
            }
        }
        if part.len() < KEYS_OF_A_PART || part.contains_key(&key) {
            part.insert(key, value);
        }
        self.changed(before, part.len());
    }

    pub(crate) fn remove(&self, key: Key) -> Option<V> {
        if self.is_empty() {
            return None;
        }
        let mut part = self.part(key)?;
        let removed = part.remove(&key);
        self.changed(usize::from(removed.is_some()), 0);
        removed
    }

    /// Takes out all that is over.
    pub(crate) fn take_over(&self, now: Timestamp) -> Vec<(Key, V)> {
        let mut taken = Vec::new();
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let before = part.len();
            taken.extend(part.extract_if(|_, held| held.is_over(now)));
            self.changed(before, part.len());
        }
        taken
    }

    fn changed(&self, before: usize, after: usize) {
        if after >= before {
            self.held.fetch_add(after - before, Ordering::Release);
        } else {
            self.held.fetch_sub(before - after, Ordering::Release);
        }
    }

    fn part(&self, key: Key) -> Option<MutexGuard<'_, Part<V>>> {
        let index = usize::try_from(key.bits().1 >> 60).ok()?;
        Some(self.parts.get(index)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A key's low half is evenly spread and serves as its hash.
#[derive(Default)]
pub(crate) struct Low(u64);

impl Hasher for Low {
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

    struct Entry {
        owes: bool,
    }

    impl Ephemeral for Entry {
        fn is_over(&self, _: Timestamp) -> bool {
            true
        }

        fn is_owing(&self) -> bool {
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
        let (table, now) = (Table::default(), Timestamp::from_millis(1));
        (0..100).for_each(|number| table.insert(key(number), Entry { owes: true }, now));
        let many = 4 * PARTS * KEYS_OF_A_PART;
        (100..many).for_each(|number| table.insert(key(number), Entry { owes: false }, now));
        assert!((0..100).all(|number| table.with(key(number), |held| held.owes) == Some(true)));
        (100..many).for_each(|number| table.insert(key(number), Entry { owes: true }, now));
        assert_eq!(table.take_over(now).len(), PARTS * KEYS_OF_A_PART);
    }
}
