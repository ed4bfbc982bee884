//! Keys that an operator has blocked until a time, whatever their limits say. They are notes on a board, which all
//! nodes of a mesh have in common (`hivemind_mesh::Board`); here they lie so that a decision finds them.
//!
//! Where nothing is blocked a decision reads one number, which is 0; where something is, it is the moment at which the last
//! block ends. So blocks end by themselves, by the clock of the mesh, and nobody has to wake up for it.

mod key_name;
mod posted;

pub(crate) use key_name::KeyName;
pub(crate) use posted::Posted;

use arc_swap::{ArcSwap, Guard};
use hivemind_core::Timestamp;
use hivemind_core::store::Parts;
use hivemind_mesh::{Board, Bulletin, NotPosted, Note};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One block, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) name: Posted,
    pub(crate) until: Timestamp,
    /// The node at which it was said; none without a mesh.
    pub(crate) by: Option<String>,
}

/// All keys that are blocked.
pub(crate) struct Blocks {
    board: Arc<Board>,
    seen: Arc<Seen>,
    /// Requests that were refused because of them.
    refused: AtomicU64,
}

/// The board, as decisions see it.
struct Seen {
    /// When the last of them ends; 0 if there is none.
    ends_last: AtomicU64,
    table: ArcSwap<Table>,
    hasher: RandomState,
}

/// What is blocked, by the hash of its name.
#[derive(Default)]
struct Table {
    named: HashMap<u64, Vec<(Arc<KeyName>, Timestamp)>>,
    /// Those with a value that is known by its hash only: while there are none, no decision hashes any.
    hidden: HashMap<Arc<Posted>, Timestamp>,
    /// Each text as it was read, so that the next table need not read it again.
    texts: HashMap<Box<[u8]>, Read>,
}

/// A text as it was read.
#[derive(Clone)]
enum Read {
    Named(u64, Arc<KeyName>),
    Hidden(Arc<Posted>),
}

/// The table as it was at one moment, for all charges of a batch.
pub(crate) struct Looked<'a> {
    seen: &'a Seen,
    table: Guard<Arc<Table>>,
    now: Timestamp,
}

impl Looked<'_> {
    /// How long a key is blocked, if it is.
    #[inline]
    pub(crate) fn wait(&self, parts: Parts<'_>) -> Option<Duration> {
        let named = self.table.named.get(&self.seen.hash(parts));
        let found =
            named.and_then(|named| named.iter().find(|(name, until)| name.is(parts) && self.now < *until));
        let until = found.map(|(_, until)| *until).or_else(|| self.hidden(parts))?;
        Some(until.since(self.now))
    }

    /// Until when a key is blocked by the hash of a value.
    fn hidden(&self, parts: Parts<'_>) -> Option<Timestamp> {
        let hidden = Some(&self.table.hidden).filter(|hidden| !hidden.is_empty())?;
        hidden.get(&Posted::of(parts)).copied().filter(|until| self.now < *until)
    }
}

impl Default for Blocks {
    /// Those of a node without peers.
    fn default() -> Self {
        Self::on(Arc::new(Board::new(None)))
    }
}

impl Blocks {
    /// Those on a board.
    pub(crate) fn on(board: Arc<Board>) -> Self {
        let (table, hasher) = (ArcSwap::from_pointee(Table::default()), RandomState::new());
        let seen = Arc::new(Seen { ends_last: AtomicU64::new(0), table, hasher });
        let watching = Arc::clone(&seen);
        board.watch(|text| Posted::read(text).is_some(), move |bulletin| watching.look_at(bulletin));
        Self { board, seen, refused: AtomicU64::new(0) }
    }

    /// Whether any key is blocked.
    #[inline]
    pub(crate) fn are_any(&self, now: Timestamp) -> bool {
        let ends_last = self.seen.ends_last.load(Ordering::Relaxed);
        ends_last != 0 && self.time(now).as_nanos() < ends_last
    }

    /// What the clock shows by which blocks end, when this node's own shows `now`.
    #[inline]
    pub(crate) fn time(&self, now: Timestamp) -> Timestamp {
        self.board.time(now)
    }

    /// What is blocked at this moment, to ask for several keys.
    pub(crate) fn look(&self, now: Timestamp) -> Looked<'_> {
        Looked { seen: &self.seen, table: self.seen.table.load(), now: self.time(now) }
    }

    /// Until when a key is blocked, if it is.
    pub(crate) fn until(&self, parts: Parts<'_>, now: Timestamp) -> Option<Timestamp> {
        let looked = self.look(now);
        looked.wait(parts).map(|wait| looked.now.saturating_add(wait))
    }

    /// A request was refused because a key of it is blocked.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Forgets what has ended: should the clock be set back, it must not hold again.
    pub(crate) fn sweep(&self, now: Timestamp) {
        if self.seen.ends_last.load(Ordering::Relaxed) != 0 {
            self.board.sweep(now);
        }
    }

    /// Blocks a key.
    pub(crate) fn block(&self, name: &KeyName, until: Timestamp, now: Timestamp) -> Result<(), NotPosted> {
        self.board.post(&name.posted().text(), until, now)
    }

    /// Ends a block before its time. Says whether there was one.
    pub(crate) fn unblock(&self, name: &KeyName, now: Timestamp) -> bool {
        self.board.take_down(&name.posted().text(), now)
    }

    /// Whether all nodes of a mesh heed them.
    pub(crate) fn are_shared(&self) -> bool {
        self.board.is_shared()
    }

    /// All of them, in the order of their texts; a board has a bound.
    pub(crate) fn list(&self, now: Timestamp) -> Vec<Block> {
        let now = self.time(now);
        self.board.show(|bulletin| {
            let block = |(text, note): (&[u8], &Note)| {
                let by = note.by.as_ref().map(ToString::to_string);
                Some(Block { name: Posted::read(text)?, until: note.until, by })
            };
            bulletin.holding(now).filter_map(block).collect()
        })
    }
}

impl Seen {
    fn hash(&self, parts: Parts<'_>) -> u64 {
        self.hasher.hash_one((parts.domain, parts.entries))
    }

    fn look_at(&self, bulletin: &Bulletin) {
        let before = self.table.load();
        let (mut table, mut ends_last) = (Table::default(), Timestamp::EPOCH);
        // Whether one has ended is asked when it is found.
        for (text, note) in bulletin.holding(Timestamp::EPOCH) {
            let known = before.texts.get(text).cloned();
            // What peers of a later version put up may be no block at all.
            let Some(read) = known.or_else(|| self.read(text)) else { continue };
            ends_last = ends_last.max(note.until);
            match &read {
                Read::Named(hash, name) => {
                    table.named.entry(*hash).or_default().push((Arc::clone(name), note.until));
                }
                Read::Hidden(name) => {
                    table.hidden.insert(Arc::clone(name), note.until);
                }
            }
            table.texts.insert(text.into(), read);
        }
        self.table.store(Arc::new(table));
        self.ends_last.store(ends_last.as_nanos(), Ordering::Relaxed);
    }

    fn read(&self, text: &[u8]) -> Option<Read> {
        let posted = Posted::read(text)?;
        Some(match posted.plain() {
            Some(name) => Read::Named(name.with_parts(|parts| self.hash(parts)), Arc::new(name)),
            None => Read::Hidden(Arc::new(posted)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn name(value: &str) -> KeyName {
        KeyName::new("d", [("user", value), ("path", "/")])
    }

    fn later(seconds: u64) -> Timestamp {
        NOW.saturating_add(Duration::from_secs(seconds))
    }

    fn until(blocks: &Blocks, name: &KeyName, now: Timestamp) -> Option<Timestamp> {
        name.with_parts(|parts| blocks.until(parts, now))
    }

    // Seen failing on: a table that is not told of the board.
    #[test]
    fn a_block_holds_for_its_key_alone_and_ends_by_itself_or_by_a_word() {
        let blocks = Blocks::default();
        assert!(!blocks.are_any(NOW));
        blocks.block(&name("ada"), later(10), NOW).unwrap();
        blocks.block(&name("bob"), later(20), NOW).unwrap();
        assert_eq!(until(&blocks, &name("ada"), NOW), Some(later(10)));
        assert_eq!(until(&blocks, &name("ada"), later(10)), None);
        assert_eq!(until(&blocks, &name("eve"), NOW), None);
        assert_eq!(until(&blocks, &KeyName::new("e", [("user", "ada"), ("path", "/")]), NOW), None);
        assert!(blocks.are_any(later(19)) && !blocks.are_any(later(20)));
        blocks.block(&name("ada"), later(5), NOW).unwrap();
        assert_eq!(until(&blocks, &name("ada"), later(5)), None, "the last word counts");
        assert!(blocks.unblock(&name("bob"), NOW) && !blocks.unblock(&name("bob"), NOW));
        assert_eq!(until(&blocks, &name("bob"), NOW), None);
    }

    // Guards against: the board that has the value itself, and a decision that does not find its hash.
    #[test]
    fn what_opens_something_is_blocked_and_unblocked_by_a_hash() {
        let blocks = Blocks::default();
        let secret = |value| KeyName::new("d", [("user", "ada"), ("authorization", value)]);
        blocks.block(&secret("of-somebody"), later(10), NOW).unwrap();
        blocks.block(&name("bob"), later(10), NOW).unwrap();
        let told = blocks.board.show(|bulletin| {
            bulletin
                .holding(NOW)
                .map(|(text, _)| String::from_utf8_lossy(text).into_owned())
                .collect::<String>()
        });
        assert!(told.contains("bob") && !told.contains("of-somebody"), "{told}");
        assert_eq!(until(&blocks, &secret("of-somebody"), NOW), Some(later(10)));
        assert_eq!(until(&blocks, &secret("of-somebody"), later(10)), None);
        assert_eq!(until(&blocks, &name("bob"), NOW), Some(later(10)));
        let shown =
            blocks.list(NOW).iter().map(|block| block.name.shown_entries().to_string()).collect::<String>();
        assert!(shown.contains("sha256:") && !shown.contains("of-somebody"), "{shown}");
        for other in ["of-nobody", "", shown.as_str()] {
            assert_eq!(until(&blocks, &secret(other), NOW), None, "{other}");
            assert!(!blocks.unblock(&secret(other), NOW), "{other}");
        }
        assert!(blocks.unblock(&secret("of-somebody"), NOW));
        assert_eq!(until(&blocks, &secret("of-somebody"), NOW), None);
    }

    // Seen failing on: a table that keeps what has ended until the next block.
    #[test]
    fn a_block_that_has_ended_does_not_hold_again_when_the_clock_is_set_back() {
        let blocks = Blocks::default();
        blocks.block(&name("ada"), later(10), NOW).unwrap();
        blocks.sweep(later(9));
        assert!(until(&blocks, &name("ada"), later(9)).is_some());
        blocks.sweep(later(10));
        assert_eq!((until(&blocks, &name("ada"), NOW), blocks.are_any(NOW)), (None, false));
    }

    #[test]
    fn all_blocks_that_hold_are_listed_and_no_others() {
        let blocks = Blocks::default();
        for (value, seconds) in [("c", 10), ("a", 20), ("b", 10)] {
            blocks.block(&name(value), later(seconds), NOW).unwrap();
        }
        let names = |now| blocks.list(now).into_iter().map(|block| block.name).collect::<Vec<_>>();
        assert_eq!(names(NOW), ["a", "b", "c"].map(|value| name(value).posted()));
        assert_eq!(names(later(10)), [name("a").posted()]);
        assert!(names(later(20)).is_empty());
    }
}
