//! A node's bulletin, as its tasks share it: whoever is told of changes is told under the lock, so that the last
//! thing it hears is the truth.

use super::words::Word;
use super::{Bulletin, LONGEST_TEXT, MOST_NOTES, Note};
use crate::owner::NodeId;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::wire::Unreadable;
use hivemind_core::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

/// The longest time that a note may hold: what is for good belongs into a file.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// How far clocks may differ between nodes that believe each other's notes.
const CLOCKS_DIFFER: Duration = Duration::from_secs(86_400);
/// How often one peer is answered, at most, to what it knows and to what it lacks.
const ANSWERED_EVERY: Duration = Duration::from_millis(500);
/// The most peers of which it is remembered when they were answered.
const MOST_ANSWERED: usize = 1_000;

/// Why a note is not put up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotPosted {
    /// There are so many already.
    Full {
        /// How many hold at most.
        most: usize,
    },
    /// Its text is too long.
    TooLong {
        /// How many bytes it may have.
        most: usize,
    },
    /// It would hold for too long.
    TooLate,
    /// It would have ended already.
    Over,
}

impl fmt::Display for NotPosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { most } => write!(f, "there are {most} already: wait for some to end"),
            Self::TooLong { most } => write!(f, "it has more than {most} bytes"),
            Self::TooLate => f.write_str("it is for longer than 366 days"),
            Self::Over => f.write_str("its end is past"),
        }
    }
}

impl std::error::Error for NotPosted {}

type Watcher = Box<dyn Fn(&Bulletin) + Send + Sync>;

/// A node's bulletin.
pub struct Board {
    /// None without peers: then nobody has to hear that something was taken down.
    me: Option<NodeId>,
    inside: Mutex<Inside>,
    /// Whether there is something to tell at once: 1 or 0.
    news: AtomicU32,
    watcher: OnceLock<Watcher>,
}

struct Inside {
    bulletin: Bulletin,
    /// Texts that somebody spoke of here, and that peers have not been told.
    news: BTreeSet<Box<[u8]>>,
    /// When each peer was last answered, to a digest and to a summary.
    answered: BTreeMap<NodeId, [Timestamp; 2]>,
}

impl Board {
    /// An empty one, of this node; of none where there are no peers.
    #[must_use]
    pub fn new(me: Option<NodeId>) -> Self {
        let (bulletin, news, answered) = (Bulletin::new(MOST_NOTES), BTreeSet::new(), BTreeMap::new());
        let inside = Mutex::new(Inside { bulletin, news, answered });
        Self { me, inside, news: AtomicU32::new(0), watcher: OnceLock::new() }
    }

    /// Whether other nodes hear of what is put up here.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.me.is_some()
    }

    /// Who is told of every change, once and for all. It must not ask the board anything.
    pub fn watch(&self, watcher: impl Fn(&Bulletin) + Send + Sync + 'static) {
        let _ = self.watcher.set(Box::new(watcher)); // The first one stays.
        self.tell(&lock(&self.inside));
    }

    /// Puts up a text until a time, in the place of what was said about it before.
    ///
    /// # Errors
    /// If there are too many, or it is too long, or ends too early or too late.
    pub fn post(&self, text: &[u8], until: Timestamp, now: Timestamp) -> Result<(), NotPosted> {
        if text.len() > LONGEST_TEXT {
            return Err(NotPosted::TooLong { most: LONGEST_TEXT });
        }
        if until <= now {
            return Err(NotPosted::Over);
        }
        if until > now.saturating_add(LONGEST) {
            return Err(NotPosted::TooLate);
        }
        let mut inside = lock(&self.inside);
        inside.bulletin.sweep(now);
        if !inside.bulletin.has_room_for(text, now) {
            return Err(NotPosted::Full { most: super::MOST_HOLDING });
        }
        self.say(&mut inside, text, false, until, now);
        Ok(())
    }

    /// Takes a text down, and says whether it was up.
    pub fn take_down(&self, text: &[u8], now: Timestamp) -> bool {
        let mut inside = lock(&self.inside);
        let Some(until) = inside.bulletin.get(text).filter(|note| note.holds(now)).map(|note| note.until)
        else {
            return false;
        };
        if self.me.is_some() {
            self.say(&mut inside, text, true, until, now);
        } else {
            inside.bulletin.remove(text);
            self.tell(&inside);
        }
        true
    }

    fn say(&self, inside: &mut Inside, text: &[u8], is_down: bool, until: Timestamp, now: Timestamp) {
        // Later than what is known here, however the clocks are that it was said by: the last word counts.
        let before = inside.bulletin.get(text).map_or(0, |known| known.written_ms.saturating_add(1));
        let written_ms = (now.as_nanos() / 1_000_000).max(before);
        inside.bulletin.put(text.into(), Note { written_ms, by: self.me.clone(), is_down, until });
        if self.me.is_some() {
            inside.news.insert(text.into());
            self.news.store(1, Ordering::Release);
        }
        self.tell(inside);
    }

    /// Shows all that hold, in the order of their texts.
    pub fn show<T>(&self, show: impl FnOnce(&Bulletin) -> T) -> T {
        show(&lock(&self.inside).bulletin)
    }

    fn tell(&self, inside: &Inside) {
        if let Some(watcher) = self.watcher.get() {
            watcher(&inside.bulletin);
        }
    }

    /// What was said here and nobody has been told yet, as messages.
    pub(crate) fn take_news(&self) -> Vec<Vec<u8>> {
        if self.news.swap(0, Ordering::AcqRel) == 0 {
            return Vec::new();
        }
        let mut inside = lock(&self.inside);
        let texts = std::mem::take(&mut inside.news);
        let notes = texts.iter().filter_map(|text| Some((&**text, inside.bulletin.get(text)?)));
        Word::notes(notes)
    }

    /// What all peers are told now and then, so that those who missed something ask for it: nothing where there is nothing.
    pub(crate) fn digest(&self, now: Timestamp) -> Option<Vec<u8>> {
        let mut inside = lock(&self.inside);
        if inside.bulletin.sweep(now) {
            self.tell(&inside);
        }
        let digest = inside.bulletin.digest();
        (digest != 0).then(|| Word::Digest(digest).written())
    }

    /// Hears what a peer says of its own bulletin, and gives back what it is answered.
    ///
    /// # Errors
    /// If it cannot be read: then nothing of it is believed.
    pub(crate) fn hear(
        &self,
        from: &NodeId,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<Vec<Vec<u8>>, Unreadable> {
        let Some(word) = Word::read(bytes)? else { return Ok(Vec::new()) };
        let mut inside = lock(&self.inside);
        Ok(match word {
            Word::Digest(digest) if digest == inside.bulletin.digest() => Vec::new(),
            Word::Digest(_) if !inside.answers(from, 0, now) => Vec::new(),
            Word::Digest(_) => vec![Word::Summary(inside.bulletin.summary()).written()],
            Word::Summary(_) if !inside.answers(from, 1, now) => Vec::new(),
            Word::Summary(known) => Word::notes(inside.bulletin.lacking(known)),
            Word::Notes(notes) => {
                let latest_ms = now.saturating_add(CLOCKS_DIFFER).as_nanos() / 1_000_000;
                let last = now.saturating_add(LONGEST).saturating_add(CLOCKS_DIFFER);
                let is_believed = |note: &Note| {
                    note.by.is_some()
                        && note.written_ms <= latest_ms
                        && note.until > now
                        && note.until <= last
                };
                if inside.bulletin.merge(notes.into_iter().filter(|(_, note)| is_believed(note))) {
                    self.tell(&inside);
                }
                Vec::new()
            }
        })
    }
}

impl Inside {
    /// Whether a peer is answered now: whoever asks without end is answered now and then.
    fn answers(&mut self, peer: &NodeId, kind: usize, now: Timestamp) -> bool {
        if self.answered.len() >= MOST_ANSWERED && !self.answered.contains_key(peer) {
            self.answered.clear();
        }
        let times = self.answered.entry(peer.clone()).or_default();
        let Some(last) = times.get_mut(kind) else { return false };
        // Apart either way: a clock that was set back must not silence it.
        let is_due = Duration::from_nanos(now.as_nanos().abs_diff(last.as_nanos())) >= ANSWERED_EVERY;
        if is_due {
            *last = now;
        }
        is_due
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("me", &self.me).finish_non_exhaustive()
    }
}
