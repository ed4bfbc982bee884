//! Notes that all nodes of a mesh have: what an operator said at one of them holds at all. A note is a text, which
//! the mesh does not read, and the time until which it holds. Of two words about one text the later one counts; a note
//! that was taken down stays, as such, until it would have ended, so that nobody who missed it can bring it back.
//!
//! Merging is a function of two bulletins and nothing else: in whatever order nodes hear of each other's notes, and
//! however often, they end up with the same. A full bulletin keeps the latest words. Invariant: a word is left out only
//! where so many later ones are kept, and those are nowhere dropped for an earlier one.

mod board;
#[cfg(test)]
mod tests;
mod words;

pub use board::{Board, NotPosted};

use crate::owner::NodeId;
use hivemind_core::Timestamp;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// The most notes that hold at one time.
pub(crate) const MOST_HOLDING: usize = 1_000;
/// The most notes that are kept, those that were taken down included.
pub(crate) const MOST_NOTES: usize = 2_000;
/// The longest text of a note.
pub(crate) const LONGEST_TEXT: usize = 1_024;

/// What was last said about a text. Ordered by when it was said: the greatest counts.
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
}

impl Note {
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        !self.is_down && now < self.until
    }

    fn digest(&self) -> u64 {
        let mut hash = SipHasher13::new_with_keys(0x6e6f_7465, 0);
        hash.write_u64(self.written_ms);
        hash.write_u64(self.until.as_nanos());
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

/// All notes that a node knows of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulletin {
    most: usize,
    notes: BTreeMap<Box<[u8]>, Note>,
}

impl Bulletin {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, notes: BTreeMap::new() }
    }

    /// Takes over what is later than what is known. Says whether anything was.
    pub(crate) fn merge(&mut self, others: impl IntoIterator<Item = (Box<[u8]>, Note)>) -> bool {
        let mut changed = false;
        for (text, note) in others {
            changed |= self.put(text, note);
        }
        self.keep_latest();
        changed
    }

    /// Puts up a word about a text unless a later one is there.
    pub(crate) fn put(&mut self, text: Box<[u8]>, note: Note) -> bool {
        match self.notes.get_mut(&text) {
            Some(known) if *known >= note => false,
            Some(known) => {
                *known = note;
                true
            }
            None => {
                self.notes.insert(text, note);
                true
            }
        }
    }

    fn keep_latest(&mut self) {
        let over = self.notes.len().saturating_sub(self.most);
        if over == 0 {
            return;
        }
        let mut oldest: Vec<(Note, Box<[u8]>)> =
            self.notes.iter().map(|(text, note)| (note.clone(), text.clone())).collect();
        oldest.sort_unstable();
        for (_, text) in oldest.into_iter().take(over) {
            self.notes.remove(&text);
        }
    }

    /// Forgets what has ended, and says whether there was any.
    pub(crate) fn sweep(&mut self, now: Timestamp) -> bool {
        let before = self.notes.len();
        self.notes.retain(|_, note| now < note.until);
        before != self.notes.len()
    }

    pub(crate) fn get(&self, text: &[u8]) -> Option<&Note> {
        self.notes.get(text)
    }

    pub(crate) fn remove(&mut self, text: &[u8]) {
        self.notes.remove(text);
    }

    /// Whether another text may be put up, or this one again.
    pub(crate) fn has_room_for(&self, text: &[u8], now: Timestamp) -> bool {
        let holding = self.holding(now).filter(|(known, _)| *known != text).count();
        let others = self.notes.len() - usize::from(self.notes.contains_key(text));
        holding < MOST_HOLDING.min(self.most) && others < self.most
    }

    /// All that hold at this moment, in the order of their texts.
    pub fn holding(&self, now: Timestamp) -> impl Iterator<Item = (&[u8], &Note)> {
        self.all().filter(move |(_, note)| note.holds(now))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&[u8], &Note)> {
        self.notes.iter().map(|(text, note)| (&**text, note))
    }

    /// A number that two bulletins have in common if they say the same; 0 for one that says nothing.
    pub(crate) fn digest(&self) -> u64 {
        self.all().fold(0, |sum, (text, note)| {
            let mut hash = SipHasher13::new_with_keys(digest_of(text), note.digest());
            hash.write(b"note");
            sum ^ hash.finish()
        })
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
