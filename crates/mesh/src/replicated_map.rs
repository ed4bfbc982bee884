//! Replicated map: a small last-writer-wins map that all nodes hold, for blocks that operators set at any node.
//! An entry is a text, which the mesh does not interpret, and the time until which it is active. Of two writes
//! of one text the later one wins. A write that ends an entry early, by removing or shortening it, is kept as a
//! tombstone until the longest of the replaced entries would have ended, for a week at most: a node that was
//! away for less cannot bring the entry back.
//!
//! Merging is a pure function of two maps: nodes receive entries in any order and any number of times, and
//! converge. A full map keeps the latest writes. Invariant: a write is dropped only where the maximum number of
//! later ones of its group is kept, and those are nowhere dropped for an earlier one.

mod entry_error;
mod handle;
mod message;
mod message_limits;
#[cfg(test)]
mod tests;

pub use entry_error::EntryError;
pub use handle::MapHandle;
pub use message_limits::LostEntries;

use crate::view::NodeId;
use hivemind_core::Timestamp;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// The most active entries.
pub(crate) const MOST_ACTIVE: usize = 1_000;
/// The most stored entries, including tombstones.
pub const MOST_ENTRIES: usize = 2_000;
/// The most stored entries of unknown groups: those of a later version.
pub const MOST_OTHERS: usize = 100;
/// The longest text of an entry.
pub const LONGEST_TEXT: usize = 1_024;

/// The last write of a text. Ordered by time: the greatest wins.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MapHandle, NodeId};
///
/// let handle = MapHandle::new(Some(NodeId::parse("a")?));
/// let (now, until) = (Timestamp::from_millis(1_000), Timestamp::from_millis(61_000));
/// handle.insert(b"block ada", until, now)?;
/// let by = handle.read(|map| map.active(now).next().and_then(|(_, entry)| entry.by.clone()));
/// assert_eq!(by.as_ref().map(NodeId::as_str), Some("a"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct MapEntry {
    /// When it was written, in milliseconds since the epoch; later than all that its node knew.
    pub(crate) written_ms: u64,
    /// Where it was written; none on a node without peers.
    pub by: Option<NodeId>,
    /// Whether it was removed.
    pub(crate) is_removed: bool,
    /// Until when it is active.
    pub until: Timestamp,
    /// Until when it is stored: a replaced entry may have lasted longer.
    pub(crate) kept_until: Timestamp,
}

impl MapEntry {
    pub(crate) fn is_active(&self, now: Timestamp) -> bool {
        !self.is_removed && now < self.until
    }

    fn digest(&self) -> u64 {
        let mut hash = SipHasher13::new_with_keys(0x6e6f_7465, 0);
        hash.write_u64(self.written_ms);
        hash.write_u64(self.until.as_nanos());
        hash.write_u64(self.kept_until.as_nanos());
        hash.write_u8(u8::from(self.is_removed));
        hash.write(self.by.as_ref().map_or("", NodeId::as_str).as_bytes());
        hash.finish()
    }
}

pub(crate) fn digest_of(text: &[u8]) -> u64 {
    let mut hash = SipHasher13::new_with_keys(0x7465_7874, 0);
    hash.write(text);
    hash.finish()
}

fn digest_of_entry(text: &[u8], entry: &MapEntry) -> u64 {
    let mut hash = SipHasher13::new_with_keys(digest_of(text), entry.digest());
    hash.write(b"entry");
    hash.finish()
}

/// Entries of one group with a maximum number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryGroup {
    most: usize,
    entries: BTreeMap<Box<[u8]>, MapEntry>,
    /// The digest of all entries; stored because each peer requests it every second.
    digest: u64,
}

impl EntryGroup {
    fn new(most: usize) -> Self {
        Self { most, entries: BTreeMap::new(), digest: 0 }
    }

    fn put(&mut self, text: Box<[u8]>, entry: MapEntry) -> bool {
        if self.entries.get(&text).is_some_and(|known| *known >= entry) {
            return false;
        }
        self.remove(&text);
        self.digest ^= digest_of_entry(&text, &entry);
        self.entries.insert(text, entry);
        true
    }

    fn remove(&mut self, text: &[u8]) {
        if let Some(entry) = self.entries.remove(text) {
            self.digest ^= digest_of_entry(text, &entry);
        }
    }

    /// Drops the oldest entries over the maximum. Returns how many active ones were dropped.
    fn keep_latest(&mut self, now: Timestamp) -> usize {
        let over = self.entries.len().saturating_sub(self.most);
        if over == 0 {
            return 0;
        }
        let mut oldest: Vec<(MapEntry, Box<[u8]>)> =
            self.entries.iter().map(|(text, entry)| (entry.clone(), text.clone())).collect();
        oldest.sort_unstable();
        let mut held = 0;
        for (entry, text) in oldest.into_iter().take(over) {
            held += usize::from(entry.is_active(now));
            self.remove(&text);
        }
        held
    }

    fn sweep(&mut self, now: Timestamp) -> bool {
        let Self { entries, digest, .. } = self;
        let before = entries.len();
        entries.retain(|text, entry| {
            let is_kept = now < entry.kept_until;
            if !is_kept {
                *digest ^= digest_of_entry(text, entry);
            }
            is_kept
        });
        before != entries.len()
    }
}

/// The result of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeResult {
    pub(crate) is_changed: bool,
    /// How many active entries were dropped because of too many later writes.
    pub(crate) dropped: usize,
}

/// All entries that a node knows.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MapHandle, ReplicatedMap};
///
/// let handle = MapHandle::new(None);
/// let until = Timestamp::from_millis(61_000);
/// handle.insert(b"block ada", until, Timestamp::from_millis(1_000))?;
/// let active = |now| handle.read(|map: &ReplicatedMap| map.active(now).count());
/// assert_eq!([active(Timestamp::from_millis(60_999)), active(until)], [1, 0]);
/// # Ok::<(), hivemind_mesh::EntryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicatedMap {
    /// Entries that this node can interpret.
    read: EntryGroup,
    /// Entries of unknown groups, stored separately so that invented ones displace no others.
    others: EntryGroup,
}

impl ReplicatedMap {
    pub(crate) fn new(most: usize, most_others: usize) -> Self {
        Self { read: EntryGroup::new(most), others: EntryGroup::new(most_others) }
    }

    /// Merges entries that are later than the known ones.
    pub(crate) fn merge(
        &mut self,
        entries: impl IntoIterator<Item = (Box<[u8]>, MapEntry)>,
        reads: fn(&[u8]) -> bool,
        now: Timestamp,
    ) -> MergeResult {
        let mut is_changed = false;
        for (text, entry) in entries {
            is_changed |= self.put(text, entry, reads);
        }
        MergeResult { is_changed, dropped: self.keep_latest(now) }
    }

    /// Inserts a write unless a later one is present.
    pub(crate) fn put(&mut self, text: Box<[u8]>, entry: MapEntry, reads: fn(&[u8]) -> bool) -> bool {
        if reads(&text) { self.read.put(text, entry) } else { self.others.put(text, entry) }
    }

    /// Drops the oldest entries over the maximum. Returns how many active ones were dropped.
    pub(crate) fn keep_latest(&mut self, now: Timestamp) -> usize {
        self.read.keep_latest(now) + self.others.keep_latest(now)
    }

    /// Sets which texts can be interpreted here, and separates the others.
    pub(crate) fn set_known_groups(&mut self, reads: fn(&[u8]) -> bool, now: Timestamp) {
        let all = std::mem::take(&mut self.read.entries);
        self.read.digest = 0;
        self.merge(all, reads, now);
    }

    /// Removes expired entries. Returns whether there were any.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> bool {
        let is_changed = self.read.sweep(now);
        self.others.sweep(now) || is_changed
    }

    pub(crate) fn get(&self, text: &[u8]) -> Option<&MapEntry> {
        self.read.entries.get(text).or_else(|| self.others.entries.get(text))
    }

    pub(crate) fn remove(&mut self, text: &[u8]) {
        self.read.remove(text);
        self.others.remove(text);
    }

    /// Why no further text, or not this one, can be inserted.
    pub(crate) fn check_room(&self, text: &[u8], now: Timestamp) -> Result<(), EntryError> {
        let others =
            || self.read.entries.iter().filter(|(known, _)| ***known != *text).map(|(_, entry)| entry);
        let most_active = MOST_ACTIVE.min(self.read.most);
        if others().filter(|entry| entry.is_active(now)).count() >= most_active {
            return Err(EntryError::Full { most: most_active });
        }
        // The oldest write makes room, unless it is still active.
        let is_full = others().count() >= self.read.most;
        if is_full && others().min().is_some_and(|oldest| oldest.is_active(now)) {
            return Err(EntryError::Crowded { most: self.read.most });
        }
        Ok(())
    }

    /// The time of the oldest write, if it has to make room for this text.
    pub(crate) fn makes_room(&self, text: &[u8]) -> Option<u64> {
        let is_full = self.read.entries.len() >= self.read.most && !self.read.entries.contains_key(text);
        if !is_full {
            return None;
        }
        self.read.entries.values().map(|entry| entry.written_ms).min()
    }

    /// All active entries, sorted by text; those that this node cannot interpret come last.
    pub fn active(&self, now: Timestamp) -> impl Iterator<Item = (&[u8], &MapEntry)> {
        self.all().filter(move |(_, entry)| entry.is_active(now))
    }

    pub fn all(&self) -> impl Iterator<Item = (&[u8], &MapEntry)> {
        self.read.entries.iter().chain(&self.others.entries).map(|(text, entry)| (&**text, entry))
    }

    /// A number that is equal for maps with equal content; 0 for an empty one.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.read.digest ^ self.others.digest
    }

    /// The same, computed from the entries.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn recomputed_digest(&self) -> u64 {
        self.all().fold(0, |sum, (text, entry)| sum ^ digest_of_entry(text, entry))
    }

    /// Each text and its last write, as two hashes.
    pub(crate) fn summary(&self) -> Vec<(u64, u64)> {
        self.all().map(|(text, entry)| (digest_of(text), entry.digest())).collect()
    }

    /// The entries that a peer with this summary lacks.
    pub(crate) fn lacking(&self, mut known: Vec<(u64, u64)>) -> Vec<(&[u8], &MapEntry)> {
        known.sort_unstable();
        let lacks = |(text, entry): &(&[u8], &MapEntry)| {
            known.binary_search(&(digest_of(text), entry.digest())).is_err()
        };
        self.all().filter(lacks).collect()
    }
}
