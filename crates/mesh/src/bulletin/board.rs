//! The shared handle of a node's replicated map. The watcher is called under the lock, so its last call has the
//! final content. Incoming times are those of the node's own clock; entries are dated by the mesh clock.

use super::hearing::{Hearing, NotesLost};
use super::words::Word;
use super::{Bulletin, LONGEST_TEXT, MOST_NOTES, MOST_OTHERS, NotPosted, Note};
use crate::node::Node;
use crate::owner::NodeId;
use crate::parts::Parts;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::wire::Unreadable;
use hivemind_core::Timestamp;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The longest duration of an entry: permanent settings belong in a file.
pub(super) const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// How long a removal or shortening is remembered, at most: a node that is away for longer may bring the entry
/// back.
const REMEMBERED: Duration = Duration::from_secs(7 * 86_400);

type Watcher = Box<dyn Fn(&Bulletin) + Send + Sync>;

/// A node's replicated map.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{Board, NotesLost};
///
/// let board = Board::new(None); // Of a node without peers.
/// let (now, until) = (Timestamp::from_millis(1_000), Timestamp::from_millis(61_000));
/// board.watch(|text| text.starts_with(b"block "), move |bulletin| println!("{}", bulletin.holding(now).count()));
/// board.post(b"block ada", until, now)?;
/// assert_eq!(board.show(|bulletin| bulletin.holding(now).count()), 1);
/// assert!(!board.is_shared() && board.lost() == NotesLost::default());
/// assert_eq!(board.time(now), now); // By its own clock, the only one.
/// assert!(board.take_down(b"block ada", now) && !board.take_down(b"block ada", now));
/// board.sweep(until); // Every second, without peers.
/// # Ok::<(), hivemind_mesh::NotPosted>(())
/// ```
pub struct Board {
    /// None without peers: then removals need no tombstones.
    me: Option<NodeId>,
    /// The source of the mesh time.
    clock: Option<Arc<Parts>>,
    inside: Mutex<Inside>,
    /// Whether peers or the watcher need an update: 1 or 0.
    news: AtomicU32,
    watcher: OnceLock<Watcher>,
}

struct Inside {
    bulletin: Bulletin,
    /// Which texts can be interpreted here.
    reads: fn(&[u8]) -> bool,
    /// Texts written here that have not been sent to peers.
    news: BTreeSet<Box<[u8]>>,
    /// Whether the watcher has not seen entries from peers yet.
    is_unseen: bool,
    hearing: Hearing,
}

impl Board {
    /// An empty map of this node; `None` without peers.
    #[must_use]
    pub fn new(me: Option<NodeId>) -> Self {
        let inside = Inside {
            bulletin: Bulletin::new(MOST_NOTES, MOST_OTHERS),
            reads: |_| true,
            news: BTreeSet::new(),
            is_unseen: false,
            hearing: Hearing::default(),
        };
        let inside = Mutex::new(inside);
        Self { me, clock: None, inside, news: AtomicU32::new(0), watcher: OnceLock::new() }
    }

    /// A map that uses the mesh clock.
    #[doc(hidden)]
    #[must_use]
    pub fn by_mesh_clock(node: &Node) -> Self {
        Self { clock: Some(Arc::clone(node.parts())), ..Self::new(Some(node.member().id.clone())) }
    }

    /// The time by which entries expire, when this node's clock shows `now`.
    #[must_use]
    #[inline]
    pub fn time(&self, now: Timestamp) -> Timestamp {
        self.clock.as_ref().map_or(now, |clock| clock.mesh_time(now))
    }

    /// Whether entries written here are sent to other nodes.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.me.is_some()
    }

    /// Sets the watcher of all changes, once, and which texts it can interpret. The watcher must not call the
    /// map. It runs immediately for local writes, and some milliseconds later, once for all of them, for writes
    /// of peers.
    pub fn watch(&self, reads: fn(&[u8]) -> bool, watcher: impl Fn(&Bulletin) + Send + Sync + 'static) {
        if self.watcher.set(Box::new(watcher)).is_err() {
            return; // The first one stays.
        }
        let mut inside = lock(&self.inside);
        inside.reads = reads;
        inside.bulletin.part(reads, Timestamp::EPOCH);
        self.tell(&mut inside);
    }

    /// Inserts a text until a time, and replaces its previous entry.
    ///
    /// # Errors
    /// If there are too many entries, or it is too long, or ends too early or too late.
    pub fn post(&self, text: &[u8], until: Timestamp, now: Timestamp) -> Result<(), NotPosted> {
        let now = self.time(now);
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
        inside.bulletin.has_room_for(text, now)?;
        self.say(&mut inside, text, false, until, now);
        Ok(())
    }

    /// Removes a text. Returns whether it was active.
    pub fn take_down(&self, text: &[u8], now: Timestamp) -> bool {
        let now = self.time(now);
        let mut inside = lock(&self.inside);
        let Some(until) = inside.bulletin.get(text).filter(|note| note.holds(now)).map(|note| note.until)
        else {
            return false;
        };
        if self.me.is_some() {
            self.say(&mut inside, text, true, until, now);
        } else {
            inside.bulletin.remove(text);
            self.tell(&mut inside);
        }
        true
    }

    fn say(&self, inside: &mut Inside, text: &[u8], is_down: bool, until: Timestamp, now: Timestamp) {
        let known = inside.bulletin.get(text);
        // Later than all writes known here, whatever their clocks were: the last write wins.
        let before = known.map_or(0, |known| known.written_ms.saturating_add(1));
        // In a full map the oldest write is dropped, which must not be this one.
        let before =
            before.max(inside.bulletin.makes_room(text).map_or(0, |oldest| oldest.saturating_add(1)));
        let written_ms = (now.as_nanos() / 1_000_000).max(before);
        // A node that missed this write may know a longer entry.
        let longest = known.map_or(until, |known| known.kept_until.max(until));
        let ends = if is_down { now } else { until };
        let kept_until = ends.max(longest.min(now.saturating_add(REMEMBERED)));
        let kept_until = if self.me.is_some() { kept_until } else { until };
        let note = Note { written_ms, by: self.me.clone(), is_down, until, kept_until };
        inside.bulletin.put(text.into(), note, inside.reads);
        inside.bulletin.keep_latest(now); // No active one: room was checked.
        if self.me.is_some() {
            inside.news.insert(text.into());
            self.news.store(1, Ordering::Release);
        }
        self.tell(inside);
    }

    /// Passes all known entries to `show`, including removed and expired ones.
    pub fn show<T>(&self, show: impl FnOnce(&Bulletin) -> T) -> T {
        let mut inside = lock(&self.inside);
        if inside.is_unseen {
            self.tell(&mut inside); // A caller that sees a change must find it applied.
        }
        show(&inside.bulletin)
    }

    /// Removes expired entries. With peers this happens every second; without any the node calls it.
    pub fn sweep(&self, now: Timestamp) {
        let now = self.time(now);
        let mut inside = lock(&self.inside);
        if inside.bulletin.sweep(now) {
            self.tell(&mut inside);
        }
    }

    /// Entries sent to this node and lost.
    #[must_use]
    pub fn lost(&self) -> NotesLost {
        lock(&self.inside).hearing.lost()
    }

    fn tell(&self, inside: &mut Inside) {
        inside.is_unseen = false;
        if let Some(watcher) = self.watcher.get() {
            watcher(&inside.bulletin);
        }
    }

    /// Messages with local writes that no peer has received yet. Also calls the watcher for writes of peers.
    pub fn take_news(&self) -> Vec<Vec<u8>> {
        if self.news.swap(0, Ordering::AcqRel) == 0 {
            return Vec::new();
        }
        let mut inside = lock(&self.inside);
        if inside.is_unseen {
            self.tell(&mut inside);
        }
        let texts = std::mem::take(&mut inside.news);
        let notes = texts.iter().filter_map(|text| Some((&**text, inside.bulletin.get(text)?)));
        Word::notes(notes)
    }

    /// A periodic message to all peers, so that those with other content request it; none for an empty map.
    pub fn digest(&self, now: Timestamp) -> Option<Vec<u8>> {
        self.sweep(now);
        let digest = lock(&self.inside).bulletin.digest();
        (digest != 0).then(|| Word::Digest(digest).written())
    }

    /// Handles a peer's message and returns the replies.
    ///
    /// # Errors
    /// If it cannot be decoded: then nothing of it is applied.
    pub fn hear(&self, from: &NodeId, bytes: &[u8], now: Timestamp) -> Result<Vec<Vec<u8>>, Unreadable> {
        let Some(word) = Word::read(bytes)? else { return Ok(Vec::new()) };
        let now = self.time(now);
        let mut inside = lock(&self.inside);
        let Inside { bulletin, hearing, reads, .. } = &mut *inside;
        Ok(match word {
            Word::Digest(digest) if digest == bulletin.digest() => Vec::new(),
            Word::Digest(_) if !hearing.asks(from, now) => Vec::new(),
            Word::Digest(_) => vec![Word::Summary(bulletin.summary()).written()],
            Word::Summary(_) if !hearing.answers(from, now) => Vec::new(),
            Word::Summary(known) => Hearing::answer(&bulletin.lacking(known)),
            Word::Notes(notes) => {
                let believed = hearing.believed(from, notes, now);
                let merged = bulletin.merge(believed, *reads, now);
                hearing.dropped(merged.dropped, now);
                if merged.is_changed {
                    inside.is_unseen = true;
                    self.news.store(1, Ordering::Release);
                }
                Vec::new()
            }
        })
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("me", &self.me).finish_non_exhaustive()
    }
}
