//! Notes that all nodes of a mesh have: what an operator said at one of them holds at all. A note is a text, which
//! the mesh does not read, and the time until which it holds. Of two words about one text the later one counts. A word
//! that ends a note before its time, because it takes it down or shortens it, is kept until the longest of those that
//! it replaced would have ended, for a week at most: so whoever was away for less cannot bring it back.
//!
//! Merging is a function of two bulletins and nothing else: in whatever order nodes hear of each other's notes, and
//! however often, they end up with the same. A full bulletin keeps the latest words. Invariant: a word is left out only
//! where so many later ones of its kind are kept, and those are nowhere dropped for an earlier one.

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

/// The most notes that hold at one time.
pub(crate) const MOST_HOLDING: usize = 1_000;
/// The most notes that are kept, those that were taken down included.
pub const MOST_NOTES: usize = 2_000;
/// The most of them that are of a kind which this node does not know: a later version's.
pub const MOST_OTHERS: usize = 100;
/// The longest text of a note.
pub const LONGEST_TEXT: usize = 1_024;

/// What was last said about a text. Ordered by when it was said: the greatest counts.
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
    /// When it was said, in milliseconds since the epoch; later than everything its node knew of then.
    pub(crate) written_ms: u64,
    /// Where it was said; none on a node without peers.
    pub by: Option<NodeId>,
    /// Whether it was taken down.
    pub(crate) is_down: bool,
    /// Until when it holds.
    pub until: Timestamp,
    /// Until when it is remembered: what it replaced may have been for longer.
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

/// Notes of one kind, of which so many are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    most: usize,
    notes: BTreeMap<Box<[u8]>, Note>,
    /// Of all of them; kept, because each peer asks for it each second.
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

    /// Says how many that hold were dropped for later ones.
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

/// What came of words that were heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) is_changed: bool,
    /// How many notes that held were dropped, because there were too many later words.
    pub(crate) dropped: usize,
}

/// All notes that a node knows of.
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
    /// Those that somebody here can read.
    read: Kind,
    /// Those of kinds that nobody here knows, so that whoever makes them up takes no place from the others.
    others: Kind,
}

impl Bulletin {
    pub(crate) fn new(most: usize, most_others: usize) -> Self {
        Self { read: Kind::new(most), others: Kind::new(most_others) }
    }

    /// Takes over what is later than what is known.
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

    /// Puts up a word about a text unless a later one is there.
    pub(crate) fn put(&mut self, text: Box<[u8]>, note: Note, reads: fn(&[u8]) -> bool) -> bool {
        if reads(&text) { self.read.put(text, note) } else { self.others.put(text, note) }
    }

    /// Says how many that hold were dropped for later ones.
    pub(crate) fn keep_latest(&mut self, now: Timestamp) -> usize {
        self.read.keep_latest(now) + self.others.keep_latest(now)
    }

    /// From now on it is known which texts can be read here.
    pub(crate) fn part(&mut self, reads: fn(&[u8]) -> bool, now: Timestamp) {
        let all = std::mem::take(&mut self.read.notes);
        self.read.digest = 0;
        self.merge(all, reads, now);
    }

    /// Forgets what need not be remembered any more, and says whether there was any.
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

    /// Why no other text may be put up, nor this one again.
    pub(crate) fn has_room_for(&self, text: &[u8], now: Timestamp) -> Result<(), NotPosted> {
        let others = || self.read.notes.iter().filter(|(known, _)| ***known != *text).map(|(_, note)| note);
        let most_holding = MOST_HOLDING.min(self.read.most);
        if others().filter(|note| note.holds(now)).count() >= most_holding {
            return Err(NotPosted::Full { most: most_holding });
        }
        // The oldest word makes room, unless that would end what it says.
        let is_full = others().count() >= self.read.most;
        if is_full && others().min().is_some_and(|oldest| oldest.holds(now)) {
            return Err(NotPosted::Crowded { most: self.read.most });
        }
        Ok(())
    }

    /// When the oldest word was said, where it has to make room for this text.
    pub(crate) fn makes_room(&self, text: &[u8]) -> Option<u64> {
        let is_full = self.read.notes.len() >= self.read.most && !self.read.notes.contains_key(text);
        if !is_full {
            return None;
        }
        self.read.notes.values().map(|note| note.written_ms).min()
    }

    /// All that hold at this moment, in the order of their texts; those that nobody here can read come last.
    pub fn holding(&self, now: Timestamp) -> impl Iterator<Item = (&[u8], &Note)> {
        self.all().filter(move |(_, note)| note.holds(now))
    }

    pub fn all(&self) -> impl Iterator<Item = (&[u8], &Note)> {
        self.read.notes.iter().chain(&self.others.notes).map(|(text, note)| (&**text, note))
    }

    /// A number that two bulletins have in common if they say the same; 0 for one that says nothing.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.read.digest ^ self.others.digest
    }

    /// The same, made of what is there.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn digest_anew(&self) -> u64 {
        self.all().fold(0, |sum, (text, note)| sum ^ digest_of_word(text, note))
    }

    /// Each text and what is known of it, as two numbers.
    pub(crate) fn summary(&self) -> Vec<(u64, u64)> {
        self.all().map(|(text, note)| (digest_of(text), note.digest())).collect()
    }

    /// What somebody lacks who knows only this.
    pub(crate) fn lacking(&self, mut known: Vec<(u64, u64)>) -> Vec<(&[u8], &Note)> {
        known.sort_unstable();
        let lacks =
            |(text, note): &(&[u8], &Note)| known.binary_search(&(digest_of(text), note.digest())).is_err();
        self.all().filter(lacks).collect()
    }
}
