//! Replicated map: a small last-writer-wins map that all nodes hold, for blocks that operators set at any node.
//! An entry is a text, which the mesh does not interpret, and the time until which it is active. Of two writes
//! of one text the later one wins. A write that ends an entry early, by removing or shortening it, is kept as a
//! tombstone until the longest of the replaced entries would have ended, for a week at most: a node that was
//! away for less cannot bring the entry back.
//!
//! Merging is a pure function of two maps: nodes receive entries in any order and any number of times, and
//! converge. A full map keeps the latest writes. Invariant: a write is dropped only where the maximum number of
//! later ones of its group is kept, and those are nowhere dropped for an earlier one.

mod board;
mod hearing;
mod not_posted;
#[cfg(test)]
mod tests;
mod words;

pub use board::Board;
pub use hearing::NotesLost;
pub use not_posted::NotPosted;

use crate::owner::NodeId;
use hivemind_core::Timestamp;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// The most active entries.
pub(crate) const MOST_HOLDING: usize = 1_000;
/// The most stored entries, including tombstones.
pub const MOST_NOTES: usize = 2_000;
/// The most stored entries of unknown groups: those of a later version.
pub const MOST_OTHERS: usize = 100;
/// The longest text of an entry.
pub const LONGEST_TEXT: usize = 1_024;

/// The last write of a text. Ordered by time: the greatest wins.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{Board, NodeId};
///
/// let board = Board::new(Some(NodeId::parse("a")?));
/// let (now, until) = (Timestamp::from_millis(1_000), Timestamp::from_millis(61_000));
/// board.post(b"block ada", until, now)?;
/// let by = board.show(|bulletin| bulletin.holding(now).next().and_then(|(_, note)| note.by.clone()));
/// assert_eq!(by.as_ref().map(NodeId::as_str), Some("a"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Note {
    /// When it was written, in milliseconds since the epoch; later than all that its node knew.
    pub(crate) written_ms: u64,
    /// Where it was written; none on a node without peers.
    pub by: Option<NodeId>,
    /// Whether it was removed.
    pub(crate) is_down: bool,
    /// Until when it is active.
    pub until: Timestamp,
    /// Until when it is stored: a replaced entry may have lasted longer.
    pub(crate) kept_until: Timestamp,
}

impl Note {
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        !self.is_down && now < self.until
    }

    fn digest(&self) -> u64 {
        let mut hash = SipHasher13::new_with_keys(0x6e6f_7465, 0);
        hash.write_u64(self.written_ms);
        hash.write_u64(self.until.as_nanos());
        hash.write_u64(self.kept_until.as_nanos());
        hash.write_u8(u8::from(self.is_down));
        hash.write(self.by.as_ref().map_or("", NodeId::as_str).as_bytes());
        hash.finish()
    }
}

pub(crate) fn digest_of(text: &[u8]) -> u64 {
    let mut hash = SipHasher13::new_with_keys(0x7465_7874, 0);
    hash.write(text);
    hash.finish()
}

fn digest_of_word(text: &[u8], note: &Note) -> u64 {
    let mut hash = SipHasher13::new_with_keys(digest_of(text), note.digest());
    hash.write(b"note");
    hash.finish()
}

/// Entries of one group with a maximum number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    most: usize,
    notes: BTreeMap<Box<[u8]>, Note>,
    /// The digest of all entries; stored because each peer requests it every second.
    digest: u64,
}

impl Kind {
    fn new(most: usize) -> Self {
        Self { most, notes: BTreeMap::new(), digest: 0 }
    }

    fn put(&mut self, text: Box<[u8]>, note: Note) -> bool {
        if self.notes.get(&text).is_some_and(|known| *known >= note) {
            return false;
        }
        self.remove(&text);
        self.digest ^= digest_of_word(&text, &note);
        self.notes.insert(text, note);
        true
    }

    fn remove(&mut self, text: &[u8]) {
        if let Some(note) = self.notes.remove(text) {
            self.digest ^= digest_of_word(text, &note);
        }
    }

    /// Drops the oldest entries over the maximum. Returns how many active ones were dropped.
    fn keep_latest(&mut self, now: Timestamp) -> usize {
        let over = self.notes.len().saturating_sub(self.most);
        if over == 0 {
            return 0;
        }
        let mut oldest: Vec<(Note, Box<[u8]>)> =
            self.notes.iter().map(|(text, note)| (note.clone(), text.clone())).collect();
        oldest.sort_unstable();
        let mut held = 0;
        for (note, text) in oldest.into_iter().take(over) {
            held += usize::from(note.holds(now));
            self.remove(&text);
        }
        held
    }

    fn sweep(&mut self, now: Timestamp) -> bool {
        let Self { notes, digest, .. } = self;
        let before = notes.len();
        notes.retain(|text, note| {
            let is_kept = now < note.kept_until;
            if !is_kept {
                *digest ^= digest_of_word(text, note);
            }
            is_kept
        });
        before != notes.len()
    }
}

/// The result of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) is_changed: bool,
    /// How many active entries were dropped because of too many later writes.
    pub(crate) dropped: usize,
}

/// All entries that a node knows.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{Board, Bulletin};
///
/// let board = Board::new(None);
/// let until = Timestamp::from_millis(61_000);
/// board.post(b"block ada", until, Timestamp::from_millis(1_000))?;
/// let holding = |now| board.show(|bulletin: &Bulletin| bulletin.holding(now).count());
/// assert_eq!([holding(Timestamp::from_millis(60_999)), holding(until)], [1, 0]);
/// # Ok::<(), hivemind_mesh::NotPosted>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulletin {
    /// Entries that this node can interpret.
    read: Kind,
    /// Entries of unknown groups, stored separately so that invented ones displace no others.
    others: Kind,
}

impl Bulletin {
    pub(crate) fn new(most: usize, most_others: usize) -> Self {
        Self { read: Kind::new(most), others: Kind::new(most_others) }
    }

    /// Merges entries that are later than the known ones.
    pub(crate) fn merge(
        &mut self,
        words: impl IntoIterator<Item = (Box<[u8]>, Note)>,
        reads: fn(&[u8]) -> bool,
        now: Timestamp,
    ) -> Merged {
        let mut is_changed = false;
        for (text, note) in words {
            is_changed |= self.put(text, note, reads);
        }
        Merged { is_changed, dropped: self.keep_latest(now) }
    }

    /// Inserts a write unless a later one is present.
    pub(crate) fn put(&mut self, text: Box<[u8]>, note: Note, reads: fn(&[u8]) -> bool) -> bool {
        if reads(&text) { self.read.put(text, note) } else { self.others.put(text, note) }
    }

    /// Drops the oldest entries over the maximum. Returns how many active ones were dropped.
    pub(crate) fn keep_latest(&mut self, now: Timestamp) -> usize {
        self.read.keep_latest(now) + self.others.keep_latest(now)
    }

    /// Sets which texts can be interpreted here, and separates the others.
    pub(crate) fn part(&mut self, reads: fn(&[u8]) -> bool, now: Timestamp) {
        let all = std::mem::take(&mut self.read.notes);
        self.read.digest = 0;
        self.merge(all, reads, now);
    }

    /// Removes expired entries. Returns whether there were any.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> bool {
        let is_changed = self.read.sweep(now);
        self.others.sweep(now) || is_changed
    }

    pub(crate) fn get(&self, text: &[u8]) -> Option<&Note> {
        self.read.notes.get(text).or_else(|| self.others.notes.get(text))
    }

    pub(crate) fn remove(&mut self, text: &[u8]) {
        self.read.remove(text);
        self.others.remove(text);
    }

    /// Why no further text, or not this one, can be inserted.
    pub(crate) fn has_room_for(&self, text: &[u8], now: Timestamp) -> Result<(), NotPosted> {
        let others = || self.read.notes.iter().filter(|(known, _)| ***known != *text).map(|(_, note)| note);
        let most_holding = MOST_HOLDING.min(self.read.most);
        if others().filter(|note| note.holds(now)).count() >= most_holding {
            return Err(NotPosted::Full { most: most_holding });
        }
        // The oldest write makes room, unless it is still active.
        let is_full = others().count() >= self.read.most;
        if is_full && others().min().is_some_and(|oldest| oldest.holds(now)) {
            return Err(NotPosted::Crowded { most: self.read.most });
        }
        Ok(())
    }

    /// The time of the oldest write, if it has to make room for this text.
    pub(crate) fn makes_room(&self, text: &[u8]) -> Option<u64> {
        let is_full = self.read.notes.len() >= self.read.most && !self.read.notes.contains_key(text);
        if !is_full {
            return None;
        }
        self.read.notes.values().map(|note| note.written_ms).min()
    }

    /// All active entries, sorted by text; those that this node cannot interpret come last.
    pub fn holding(&self, now: Timestamp) -> impl Iterator<Item = (&[u8], &Note)> {
        self.all().filter(move |(_, note)| note.holds(now))
    }

    pub fn all(&self) -> impl Iterator<Item = (&[u8], &Note)> {
        self.read.notes.iter().chain(&self.others.notes).map(|(text, note)| (&**text, note))
    }

    /// A number that is equal for maps with equal content; 0 for an empty one.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.read.digest ^ self.others.digest
    }

    /// The same, computed from the entries.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn digest_anew(&self) -> u64 {
        self.all().fold(0, |sum, (text, note)| sum ^ digest_of_word(text, note))
    }

    /// Each text and its last write, as two hashes.
    pub(crate) fn summary(&self) -> Vec<(u64, u64)> {
        self.all().map(|(text, note)| (digest_of(text), note.digest())).collect()
    }

    /// The entries that a peer with this summary lacks.
    pub(crate) fn lacking(&self, mut known: Vec<(u64, u64)>) -> Vec<(&[u8], &Note)> {
        known.sort_unstable();
        let lacks =
            |(text, note): &(&[u8], &Note)| known.binary_search(&(digest_of(text), note.digest())).is_err();
        self.all().filter(lacks).collect()
    }
}
