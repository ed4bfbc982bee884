//! One shard of the counter table, behind one lock. It is small, so that a sweep or a
//! move to a larger table blocks its keys for a few microseconds only.

use super::overflow::Overflow;
use crate::algorithm::{State, Step};
use crate::key::Key;
use crate::limit::Limit;
use crate::time::Timestamp;
use hashbrown::HashTable;
use std::time::Duration;

/// Keys probed for one to evict when a new key arrives at a full table.
const EVICTION_PROBES: usize = 16;

pub(super) struct TableEntry {
    key: Key,
    pub(super) state: State,
    /// See [`Step::blank_at`].
    pub(super) blank_at: Timestamp,
}

impl TableEntry {
    #[inline]
    pub(super) fn record(&mut self, step: &Step) {
        self.state = step.state;
        self.blank_at = step.blank_at;
    }
}

/// How a new key was stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Added,
    ReplacedBlank,
    InOverflow,
}

#[derive(Default)]
pub(super) struct Shard {
    table: HashTable<TableEntry>,
    overflow: Option<Overflow>,
    /// The clock hand of eviction: where the last search ended.
    hand: usize,
}

impl Shard {
    #[inline]
    pub(super) fn find(&mut self, key: Key) -> Option<&mut TableEntry> {
        self.table.find_mut(hash(key), |entry| entry.key == key)
    }

    /// The state of a key that is not in the table: its shared overflow bucket, if any.
    pub(super) fn read_overflow(&self, key: Key, limit: &Limit, now: Timestamp) -> Option<State> {
        self.overflow.as_ref().and_then(|overflow| overflow.read(key, limit, now))
    }

    /// Stores a key that is not in the table: in a free slot, else in place of a blank key,
    /// else in the overflow.
    pub(super) fn place(
        &mut self,
        key: Key,
        limit: &Limit,
        made: &Step,
        now: Timestamp,
        has_room: bool,
        overflow_slots: usize,
    ) -> Placement {
        let placed = match has_room {
            true => Placement::Added,
            false if self.evict_blank(now) => Placement::ReplacedBlank,
            false => Placement::InOverflow,
        };
        if placed == Placement::InOverflow {
            let overflow = self.overflow.get_or_insert_with(|| Overflow::new(overflow_slots));
            overflow.write(key, limit, made, now);
        } else {
            let entry = TableEntry { key, state: made.state, blank_at: made.blank_at };
            self.table.insert_unique(hash(key), entry, |entry| hash(entry.key));
        }
        placed
    }

    /// Evicts like the CLOCK algorithm, so that each search probes other keys.
    fn evict_blank(&mut self, now: Timestamp) -> bool {
        let buckets = self.table.num_buckets();
        let mut probes = EVICTION_PROBES.min(self.table.len());
        while probes > 0 {
            self.hand = (self.hand + 1) % buckets;
            let Some(entry) = self.table.get_bucket(self.hand) else { continue };
            if entry.blank_at <= now
                && let Ok(entry) = self.table.get_bucket_entry(self.hand)
            {
                entry.remove();
                return true;
            }
            probes -= 1;
        }
        false
    }

    pub(super) fn remove(&mut self, key: Key) -> bool {
        match self.table.find_entry(hash(key), |entry| entry.key == key) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Removes the keys that have been blank for `idle_ttl`, and returns their number.
    pub(super) fn sweep(&mut self, now: Timestamp, idle_ttl: Duration) -> usize {
        let before = self.table.len();
        self.table.retain(|entry| entry.blank_at.saturating_add(idle_ttl) > now);
        // Releases memory after a flood, but not on small fluctuations.
        if self.table.len() * 8 < self.table.capacity() {
            self.table.shrink_to(self.table.len() * 2, |entry| hash(entry.key));
        }
        before - self.table.len()
    }

    /// Removes the keys that are blank at `now`: a slower rate would count them from a time
    /// long ago. Returns their number.
    pub(super) fn drop_blank(&mut self, now: Timestamp) -> usize {
        let before = self.table.len();
        self.table.retain(|entry| entry.blank_at > now);
        before - self.table.len()
    }

    /// Keeps every key that is not blank until `until` at least.
    pub(super) fn hold(&mut self, now: Timestamp, until: Timestamp) {
        for entry in self.table.iter_mut().filter(|entry| entry.blank_at > now) {
            entry.blank_at = entry.blank_at.max(until);
        }
    }
}

fn hash(key: Key) -> u64 {
    key.bits().1
}
