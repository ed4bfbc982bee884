//! Counters of a node, opened one at a time: an open counter holds the lock of its shard, and its
//! borrow keeps the node from opening another one meanwhile.

use crate::counter::Counter;
use crate::counter::counter_window::CounterWindow;
use crate::counter::fast_path_entry::FastPathEntry;
use crate::counter::limit_interner::LimitInterner;
use crate::counter::shards::{CounterShard, SHARDS, Shards};
use crate::sync::MutexGuard;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// All counters of a node.
#[derive(Debug)]
pub(crate) struct CounterMap {
    shards: Arc<Shards>,
    /// Only the node adds and removes.
    count: usize,
    /// How many counters peers caused to be opened, at most, in all shards.
    peer_opened: usize,
    /// The present, as the node last received it: spending found in an entry happened by then.
    now: Timestamp,
    /// The mesh clock's total forward adjustment: buckets earn nothing for it.
    gained: u64,
}

impl CounterMap {
    pub(crate) fn new() -> Self {
        Self { shards: Arc::new(Shards::new()), count: 0, peer_opened: 0, now: Timestamp::EPOCH, gained: 0 }
    }

    pub(crate) fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    pub(crate) fn see(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The mesh clock's total forward adjustment is now `gained`. Counters are reopened before they are spent
    /// from.
    pub(crate) fn wait_for(&mut self, gained: u64) {
        if std::mem::replace(&mut self.gained, gained) != gained {
            self.shards.views_changed();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// How many counters peers caused to be opened, at most.
    pub(crate) fn peer_opened(&self) -> usize {
        self.peer_opened
    }

    /// A peer caused this counter to be opened; no local request has used it.
    pub(crate) fn mark_peer_opened(&mut self, key: &Key) {
        let Some(mut counter) = self.get_mut(key) else { return };
        counter.peer_opened = true;
        counter.shard.peer_opened += 1;
        drop(counter);
        self.peer_opened += 1;
    }

    /// Opens a counter, if it exists.
    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<OpenCounter<'_>> {
        let mut shard = self.shards.shard(*key);
        let (place, _) = shard.place(*key, || None)?;
        Some(OpenCounter::new(shard, place, self.now, self.gained))
    }

    /// Reads an entry and its counter without opening it.
    pub(crate) fn look_at_entry<R>(&self, key: &Key, read: impl FnOnce(&FastPathEntry) -> R) -> Option<R> {
        self.shards.shard(*key).find(*key).map(|entry| read(entry))
    }

    /// Reads a counter without opening it: spending through its entry is not included.
    pub(crate) fn look<R>(&self, key: &Key, read: impl FnOnce(&Counter) -> R) -> Option<R> {
        self.shards.shard(*key).find(*key).map(|entry| read(&entry.counter))
    }

    pub(crate) fn contains_key(&self, key: &Key) -> bool {
        self.shards.shard(*key).find(*key).is_some()
    }

    /// Opens a counter, and creates it if it does not exist and there are fewer than `most`.
    pub(crate) fn get_or_insert(
        &mut self,
        (key, limit): (Key, &Limit),
        limits: &mut LimitInterner,
        now: Timestamp,
        most: usize,
    ) -> Option<OpenCounter<'_>> {
        let (has_room, gained) = (self.count < most, self.gained);
        let mut shard = self.shards.shard(key);
        let (place, is_new) =
            shard.place(key, || has_room.then(|| FastPathEntry::new(key, limits.of(limit), now, gained)))?;
        self.count += usize::from(is_new);
        Some(OpenCounter::new(shard, place, self.now, self.gained))
    }

    /// Opens a counter at one of its windows.
    pub(crate) fn window(&mut self, key: &Key, tag: u64) -> Option<OpenWindow<'_>> {
        let counter = self.get_mut(key)?;
        let place = counter.windows.iter().rposition(|window| window.tag == tag)?;
        Some(OpenWindow { counter, place })
    }

    pub(crate) fn clear(&mut self) {
        for mut shard in self.shards.each() {
            shard.entries.clear();
            shard.queued.clear();
            shard.peer_opened = 0;
        }
        (self.count, self.peer_opened) = (0, 0);
    }

    /// Keeps only the counters for which `keeps` returns true.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&mut FastPathEntry) -> bool) {
        for index in 0..SHARDS {
            self.retain_in(index, &mut keeps);
        }
    }

    /// The same for one shard.
    pub(crate) fn retain_in(&mut self, index: usize, mut keeps: impl FnMut(&mut FastPathEntry) -> bool) {
        let Some(mut shard) = self.shards.nth(index) else { return };
        let (count, peer_opened) = (shard.entries.len(), shard.peer_opened);
        let mut still_peer_opened = 0;
        shard.entries.retain(|entry| {
            entry.flush(self.now);
            let stays = keeps(entry);
            still_peer_opened += usize::from(stays && entry.counter.peer_opened);
            stays
        });
        shard.peer_opened = still_peer_opened;
        self.count = self.count.saturating_sub(count - shard.entries.len());
        self.peer_opened = self.peer_opened.saturating_sub(peer_opened) + still_peer_opened;
    }

    /// All counter windows: key, limit and window number.
    pub(crate) fn windows(&self) -> Vec<(Key, Limit, u64)> {
        let mut windows = Vec::new();
        for shard in self.shards.each() {
            for entry in &shard.entries {
                let counter = &entry.counter;
                windows.extend(counter.windows.iter().map(|window| (entry.key, counter.limit(), window.tag)));
            }
        }
        windows
    }

    /// All counters: key and limit.
    pub(crate) fn all(&self) -> Vec<(Key, Limit)> {
        let mut all = Vec::with_capacity(self.count);
        for shard in self.shards.each() {
            all.extend(shard.entries.iter().map(|entry| (entry.key, entry.counter.limit())));
        }
        all
    }

    /// Queues a counter for updates to peers.
    pub(crate) fn queue(&mut self, key: Key) {
        self.shards.shard(key).queue(key);
    }

    /// Takes the queued counters. A counter counts as queued until `set_queued` clears it.
    pub(crate) fn take_queued(&mut self) -> Vec<Key> {
        let mut all = Vec::new();
        for mut shard in self.shards.each() {
            all.append(&mut shard.queued);
        }
        all
    }

    pub(crate) fn is_queue_empty(&self) -> bool {
        self.shards.each().all(|shard| shard.queued.is_empty())
    }
}

/// A copy shares nothing with its original.
impl Clone for CounterMap {
    fn clone(&self) -> Self {
        let Self { count, peer_opened, now, gained, .. } = *self;
        Self { shards: Arc::new(self.shards.copied()), count, peer_opened, now, gained }
    }
}

/// An open counter: nothing else spends from it, and its fast-path entry is void.
pub(crate) struct OpenCounter<'a> {
    shard: MutexGuard<'a, CounterShard>,
    place: usize,
}

impl<'a> OpenCounter<'a> {
    fn new(shard: MutexGuard<'a, CounterShard>, place: usize, now: Timestamp, gained: u64) -> Self {
        let mut open = Self { shard, place };
        open.entry_mut().flush(now);
        open.wait_for(gained);
        open.weigh_last();
        open
    }

    #[expect(clippy::expect_used, reason = "found when it was opened, and the lock is held since")]
    fn entry(&self) -> &FastPathEntry {
        self.shard.entries.get_bucket(self.place).expect("it is open")
    }

    #[expect(clippy::expect_used, reason = "found when it was opened, and the lock is held since")]
    fn entry_mut(&mut self) -> &mut FastPathEntry {
        self.shard.entries.get_bucket_mut(self.place).expect("it is open")
    }

    /// Queues it for updates to peers, or marks it as not queued.
    pub(crate) fn set_queued(&mut self, queued: bool) {
        let entry = self.entry_mut();
        let (key, was) = (entry.key, std::mem::replace(&mut entry.queued, queued));
        if queued && !was {
            self.shard.queued.push(key);
        }
    }
}

impl Deref for OpenCounter<'_> {
    type Target = Counter;
    fn deref(&self) -> &Counter {
        &self.entry().counter
    }
}

impl DerefMut for OpenCounter<'_> {
    fn deref_mut(&mut self) -> &mut Counter {
        &mut self.entry_mut().counter
    }
}

/// A counter that is open at one of its windows.
pub(crate) struct OpenWindow<'a> {
    counter: OpenCounter<'a>,
    place: usize,
}

impl OpenWindow<'_> {
    /// Queues its counter for updates to peers.
    pub(crate) fn queue(&mut self) {
        self.counter.set_queued(true);
    }
}

impl Deref for OpenWindow<'_> {
    type Target = CounterWindow;
    #[expect(clippy::indexing_slicing, reason = "found when it was opened, and windows stay while it is")]
    fn deref(&self) -> &CounterWindow {
        &self.counter.windows[self.place]
    }
}

impl DerefMut for OpenWindow<'_> {
    #[expect(clippy::indexing_slicing, reason = "found when it was opened, and windows stay while it is")]
    fn deref_mut(&mut self) -> &mut CounterWindow {
        &mut self.counter.windows[self.place]
    }
}
