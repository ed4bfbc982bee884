//! Access to the counters of a node, opened one at a time: an open counter holds the lock of its shard, and its
//! borrow keeps the node from opening another one meanwhile.

use crate::book::Book;
use crate::limits::Limits;
use crate::page::Page;
use crate::parts::{PARTS, Part, Parts};
use crate::slip::Slip;
use crate::sync::MutexGuard;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// All counters of a node.
#[derive(Debug)]
pub(crate) struct Books {
    parts: Arc<Parts>,
    /// Only the node adds and removes.
    count: usize,
    /// How many counters peers caused to be opened, at most, in all shards.
    told: usize,
    /// The present, as the node last received it: spending found in an entry happened by then.
    now: Timestamp,
    /// The mesh clock's total forward adjustment: buckets earn nothing for it.
    gained: u64,
}

impl Books {
    pub(crate) fn new() -> Self {
        Self { parts: Arc::new(Parts::new()), count: 0, told: 0, now: Timestamp::EPOCH, gained: 0 }
    }

    pub(crate) fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    pub(crate) fn see(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The mesh clock's total forward adjustment is now `gained`. Counters are reopened before they are spent
    /// from.
    pub(crate) fn wait_for(&mut self, gained: u64) {
        if std::mem::replace(&mut self.gained, gained) != gained {
            self.parts.views_changed();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// How many counters peers caused to be opened, at most.
    pub(crate) fn told(&self) -> usize {
        self.told
    }

    /// A peer caused this counter to be opened; no local request has used it.
    pub(crate) fn note_told(&mut self, key: &Key) {
        let Some(mut book) = self.get_mut(key) else { return };
        book.told = true;
        book.part.told += 1;
        drop(book);
        self.told += 1;
    }

    /// Opens a counter, if it exists.
    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<OpenBook<'_>> {
        let mut part = self.parts.part(*key);
        let (place, _) = part.place(*key, || None)?;
        Some(OpenBook::new(part, place, self.now, self.gained))
    }

    /// Reads an entry and its counter without opening it.
    pub(crate) fn look_at_slip<R>(&self, key: &Key, read: impl FnOnce(&Slip) -> R) -> Option<R> {
        self.parts.part(*key).find(*key).map(|slip| read(slip))
    }

    /// Reads a counter without opening it: spending through its entry is not included.
    pub(crate) fn look<R>(&self, key: &Key, read: impl FnOnce(&Book) -> R) -> Option<R> {
        self.parts.part(*key).find(*key).map(|slip| read(&slip.book))
    }

    pub(crate) fn contains_key(&self, key: &Key) -> bool {
        self.parts.part(*key).find(*key).is_some()
    }

    /// Opens a counter, and creates it if it does not exist and there are fewer than `most`.
    pub(crate) fn get_or_insert(
        &mut self,
        (key, limit): (Key, &Limit),
        limits: &mut Limits,
        now: Timestamp,
        most: usize,
    ) -> Option<OpenBook<'_>> {
        let (has_room, gained) = (self.count < most, self.gained);
        let mut part = self.parts.part(key);
        let (place, is_new) =
            part.place(key, || has_room.then(|| Slip::new(key, limits.of(limit), now, gained)))?;
        self.count += usize::from(is_new);
        Some(OpenBook::new(part, place, self.now, self.gained))
    }

    /// Opens a counter at one of its windows.
    pub(crate) fn page(&mut self, key: &Key, tag: u64) -> Option<OpenPage<'_>> {
        let book = self.get_mut(key)?;
        let place = book.pages.iter().rposition(|page| page.tag == tag)?;
        Some(OpenPage { book, place })
    }

    pub(crate) fn clear(&mut self) {
        for mut part in self.parts.each() {
            part.slips.clear();
            part.listed.clear();
            part.told = 0;
        }
        (self.count, self.told) = (0, 0);
    }

    /// Keeps only the counters for which `keeps` returns true.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&mut Slip) -> bool) {
        for index in 0..PARTS {
            self.retain_in(index, &mut keeps);
        }
    }

    /// The same for one shard.
    pub(crate) fn retain_in(&mut self, index: usize, mut keeps: impl FnMut(&mut Slip) -> bool) {
        let Some(mut part) = self.parts.nth(index) else { return };
        let (count, told) = (part.slips.len(), part.told);
        let mut still_told = 0;
        part.slips.retain(|slip| {
            slip.write_up(self.now);
            let stays = keeps(slip);
            still_told += usize::from(stays && slip.book.told);
            stays
        });
        part.told = still_told;
        self.count = self.count.saturating_sub(count - part.slips.len());
        self.told = self.told.saturating_sub(told) + still_told;
    }

    /// All counter windows: key, limit and window number.
    pub(crate) fn pages(&self) -> Vec<(Key, Limit, u64)> {
        let mut pages = Vec::new();
        for part in self.parts.each() {
            for slip in &part.slips {
                let book = &slip.book;
                pages.extend(book.pages.iter().map(|page| (slip.key, book.limit(), page.tag)));
            }
        }
        pages
    }

    /// All counters: key and limit.
    pub(crate) fn all(&self) -> Vec<(Key, Limit)> {
        let mut all = Vec::with_capacity(self.count);
        for part in self.parts.each() {
            all.extend(part.slips.iter().map(|slip| (slip.key, slip.book.limit())));
        }
        all
    }

    /// Queues a counter for updates to peers.
    pub(crate) fn list(&mut self, key: Key) {
        self.parts.part(key).list(key);
    }

    /// Takes the queued counters. A counter counts as queued until `set_listed` clears it.
    pub(crate) fn take_listed(&mut self) -> Vec<Key> {
        let mut all = Vec::new();
        for mut part in self.parts.each() {
            all.append(&mut part.listed);
        }
        all
    }

    pub(crate) fn nothing_is_listed(&self) -> bool {
        self.parts.each().all(|part| part.listed.is_empty())
    }
}

/// A copy shares nothing with its original.
impl Clone for Books {
    fn clone(&self) -> Self {
        let Self { count, told, now, gained, .. } = *self;
        Self { parts: Arc::new(self.parts.copied()), count, told, now, gained }
    }
}

/// An open counter: nothing else spends from it, and its fast-path entry is void.
pub(crate) struct OpenBook<'a> {
    part: MutexGuard<'a, Part>,
    place: usize,
}

impl<'a> OpenBook<'a> {
    fn new(part: MutexGuard<'a, Part>, place: usize, now: Timestamp, gained: u64) -> Self {
        let mut open = Self { part, place };
        open.slip_mut().write_up(now);
        open.wait_for(gained);
        open.weigh_last();
        open
    }

    #[expect(clippy::expect_used, reason = "found when it was opened, and the lock is held since")]
    fn slip(&self) -> &Slip {
        self.part.slips.get_bucket(self.place).expect("it is open")
    }

    #[expect(clippy::expect_used, reason = "found when it was opened, and the lock is held since")]
    fn slip_mut(&mut self) -> &mut Slip {
        self.part.slips.get_bucket_mut(self.place).expect("it is open")
    }

    /// Queues it for updates to peers, or marks it as not queued.
    pub(crate) fn set_listed(&mut self, listed: bool) {
        let slip = self.slip_mut();
        let (key, was) = (slip.key, std::mem::replace(&mut slip.listed, listed));
        if listed && !was {
            self.part.listed.push(key);
        }
    }
}

impl Deref for OpenBook<'_> {
    type Target = Book;
    fn deref(&self) -> &Book {
        &self.slip().book
    }
}

impl DerefMut for OpenBook<'_> {
    fn deref_mut(&mut self) -> &mut Book {
        &mut self.slip_mut().book
    }
}

/// A counter that is open at one of its windows.
pub(crate) struct OpenPage<'a> {
    book: OpenBook<'a>,
    place: usize,
}

impl OpenPage<'_> {
    /// Queues its counter for updates to peers.
    pub(crate) fn list(&mut self) {
        self.book.set_listed(true);
    }
}

impl Deref for OpenPage<'_> {
    type Target = Page;
    #[expect(clippy::indexing_slicing, reason = "found when it was opened, and windows stay while it is")]
    fn deref(&self) -> &Page {
        &self.book.pages[self.place]
    }
}

impl DerefMut for OpenPage<'_> {
    #[expect(clippy::indexing_slicing, reason = "found when it was opened, and windows stay while it is")]
    fn deref_mut(&mut self) -> &mut Page {
        &mut self.book.pages[self.place]
    }
}
