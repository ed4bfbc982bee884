//! One part of the table, behind one lock. Small enough that sweeping it, or
//! moving it to a larger table, holds up its keys for some microseconds only.

use super::overflow::Overflow;
use crate::algorithm::{State, Step};
use crate::key::Key;
use crate::limit::Limit;
use crate::time::Timestamp;
use hashbrown::HashTable;
use std::time::Duration;

/// Keys looked at for one that can go, when a new one comes at the cap.
const GLANCES: usize = 16;

pub(super) struct Entry {
    key: Key,
    pub(super) state: State,
    /// See [`Step::blank_at`].
    pub(super) blank_at: Timestamp,
}

impl Entry {
    #[inline]
    pub(super) fn record(&mut self, step: &Step) {
        self.state = step.state;
        self.blank_at = step.blank_at;
    }
}

/// Where a new key found its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    Added,
    InsteadOfABlankOne,
    InOverflow,
}

#[derive(Default)]
pub(super) struct Shard {
    table: HashTable<Entry>,
    overflow: Option<Overflow>,
    /// Where the last search for a key that can go ended.
    hand: usize,
}

impl Shard {
    #[inline]
    pub(super) fn find(&mut self, key: Key) -> Option<&mut Entry> {
        self.table.find_mut(hash(key), |entry| entry.key == key)
    }

    /// What a key that is not in the table has to build on: what it shared while there was no room for it.
    pub(super) fn shared(&self, key: Key, limit: &Limit, now: Timestamp) -> Option<State> {
        self.overflow.as_ref().and_then(|overflow| overflow.read(key, limit, now))
    }

    /// Places a key that is not in the table: in a free place, else in that of a
    /// key whose state says nothing any more, else in the overflow.
    pub(super) fn place(
        &mut self,
        key: Key,
        limit: &Limit,
        made: &Step,
        now: Timestamp,
        has_room: bool,
        overflow_slots: usize,
    ) -> Placed {
        let placed = match has_room {
            true => Placed::Added,
            false if self.evict_a_blank_one(now) => Placed::InsteadOfABlankOne,
            false => Placed::InOverflow,
        };
        if placed == Placed::InOverflow {
            let overflow = self.overflow.get_or_insert_with(|| Overflow::new(overflow_slots));
            overflow.write(key, limit, made, now);
        } else {
            let entry = Entry { key, state: made.state, blank_at: made.blank_at };
            self.table.insert_unique(hash(key), entry, |entry| hash(entry.key));
        }
        placed
    }

    /// Goes round the table like a clock's hand, so that each search looks at other keys.
    fn evict_a_blank_one(&mut self, now: Timestamp) -> bool {
        let buckets = self.table.num_buckets();
        let mut glances = GLANCES.min(self.table.len());
        while glances > 0 {
            self.hand = (self.hand + 1) % buckets;
            let Some(entry) = self.table.get_bucket(self.hand) else { continue };
            if entry.blank_at <= now
                && let Ok(entry) = self.table.get_bucket_entry(self.hand)
            {
                entry.remove();
                return true;
            }
            glances -= 1;
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

    /// Removes what has been blank for `idle_ttl`, and says how many keys that were.
    pub(super) fn sweep(&mut self, now: Timestamp, idle_ttl: Duration) -> usize {
        let before = self.table.len();
        self.table.retain(|entry| entry.blank_at.saturating_add(idle_ttl) > now);
        // Give memory back after a flood, but not at every ebb.
        if self.table.len() * 8 < self.table.capacity() {
            self.table.shrink_to(self.table.len() * 2, |entry| hash(entry.key));
        }
        before - self.table.len()
    }

    /// Removes what says nothing at `now`: a slower rate would count it from a time
    /// long past. Returns how many keys that were.
    pub(super) fn drop_blank(&mut self, now: Timestamp) -> usize {
        let before = self.table.len();
        self.table.retain(|entry| entry.blank_at > now);
        before - self.table.len()
    }

    /// Keeps every key that still says something until `until` at least.
    pub(super) fn hold(&mut self, now: Timestamp, until: Timestamp) {
        for entry in self.table.iter_mut().filter(|entry| entry.blank_at > now) {
            entry.blank_at = entry.blank_at.max(until);
        }
    }
}

fn hash(key: Key) -> u64 {
    key.bits().1
}
