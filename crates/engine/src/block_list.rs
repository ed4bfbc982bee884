//! Block list: keys that an operator blocked until a time, regardless of their limits.
//!
//! Blocks are entries of the replicated map of the mesh (`hivemind_mesh::MapHandle`). This module
//! indexes them for decisions.
//!
//! While nothing is blocked, a decision reads one number, which is 0. Otherwise the number is the time at
//! which the last block ends. Blocks expire by the mesh's clock, without a timer.

mod key_name;
mod stored_key_name;

pub use key_name::KeyName;
pub(crate) use stored_key_name::StoredKeyName;

use arc_swap::{ArcSwap, Guard};
use hivemind_core::Timestamp;
use hivemind_core::store::Parts;
use hivemind_mesh::{EntryError, MapEntry, MapHandle, ReplicatedMap};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One block, as reported by the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub name: StoredKeyName,
    pub until: Timestamp,
    /// The node that received the command; `None` without a mesh.
    pub by: Option<String>,
}

/// All blocked keys.
pub struct BlockList {
    board: Arc<MapHandle>,
    index: Arc<BlockIndex>,
    /// Number of requests refused because of a block.
    refused: AtomicU64,
}

/// The index of the board that decisions read.
struct BlockIndex {
    /// When the last block ends; 0 if nothing is blocked.
    ends_last: AtomicU64,
    table: ArcSwap<BlockTable>,
    hasher: RandomState,
}

/// Blocked keys, by the hash of their name.
#[derive(Default)]
struct BlockTable {
    named: HashMap<u64, Vec<(Arc<KeyName>, Timestamp)>>,
    /// Keys with a value that is known only by its hash. While this is empty, no decision computes a hash.
    hidden: HashMap<Arc<StoredKeyName>, Timestamp>,
    /// Parsed texts, so the next table does not parse them again.
    texts: HashMap<Box<[u8]>, Read>,
}

/// A parsed text.
#[derive(Clone)]
enum Read {
    Named(u64, Arc<KeyName>),
    Hidden(Arc<StoredKeyName>),
}

/// The table at one moment, for all charges of a batch.
pub struct BlockSnapshot<'a> {
    index: &'a BlockIndex,
    table: Guard<Arc<BlockTable>>,
    now: Timestamp,
}

impl BlockSnapshot<'_> {
    /// How long the key stays blocked; `None` if it is not.
    #[inline]
    pub fn wait(&self, parts: Parts<'_>) -> Option<Duration> {
        let named = self.table.named.get(&self.index.hash(parts));
        let found =
            named.and_then(|named| named.iter().find(|(name, until)| name.is(parts) && self.now < *until));
        let until = found.map(|(_, until)| *until).or_else(|| self.hidden(parts))?;
        Some(until.since(self.now))
    }

    /// When the block of a key with a hashed value ends.
    fn hidden(&self, parts: Parts<'_>) -> Option<Timestamp> {
        let hidden = Some(&self.table.hidden).filter(|hidden| !hidden.is_empty())?;
        hidden.get(&StoredKeyName::of(parts)).copied().filter(|until| self.now < *until)
    }
}

impl Default for BlockList {
    /// The block list of a node without peers.
    fn default() -> Self {
        Self::on(Arc::new(MapHandle::new(None)))
    }
}

impl BlockList {
    /// The block list stored on `board`.
    pub fn on(board: Arc<MapHandle>) -> Self {
        let (table, hasher) = (ArcSwap::from_pointee(BlockTable::default()), RandomState::new());
        let index = Arc::new(BlockIndex { ends_last: AtomicU64::new(0), table, hasher });
        let watching = Arc::clone(&index);
        board.watch(|text| StoredKeyName::read(text).is_some(), move |entries| watching.update(entries));
        Self { board, index, refused: AtomicU64::new(0) }
    }

    /// Whether any key is blocked.
    #[inline]
    pub(crate) fn are_any(&self, now: Timestamp) -> bool {
        let ends_last = self.index.ends_last.load(Ordering::Relaxed);
        ends_last != 0 && self.time(now).as_nanos() < ends_last
    }

    /// The time by which blocks end, for this node's own time `now`.
    #[inline]
    pub fn time(&self, now: Timestamp) -> Timestamp {
        self.board.time(now)
    }

    /// The blocks at this moment, for several lookups.
    pub fn snapshot(&self, now: Timestamp) -> BlockSnapshot<'_> {
        BlockSnapshot { index: &self.index, table: self.index.table.load(), now: self.time(now) }
    }

    /// When the block of a key ends; `None` if the key is not blocked.
    pub fn until(&self, parts: Parts<'_>, now: Timestamp) -> Option<Timestamp> {
        let snapshot = self.snapshot(now);
        snapshot.wait(parts).map(|wait| snapshot.now.saturating_add(wait))
    }

    /// Counts a request that was refused because one of its keys is blocked.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of requests refused because of a block.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Removes expired blocks, so that they do not return if the clock is set back.
    pub fn sweep(&self, now: Timestamp) {
        if self.index.ends_last.load(Ordering::Relaxed) != 0 {
            self.board.sweep(now);
        }
    }

    /// Blocks a key.
    pub fn block(&self, name: &KeyName, until: Timestamp, now: Timestamp) -> Result<(), EntryError> {
        self.board.insert(&name.stored().text(), until, now)
    }

    /// Ends a block early. Returns whether there was one.
    pub fn unblock(&self, name: &KeyName, now: Timestamp) -> bool {
        self.board.remove(&name.stored().text(), now)
    }

    /// Whether all nodes of a mesh apply the blocks.
    pub fn are_shared(&self) -> bool {
        self.board.is_shared()
    }

    /// All blocks, sorted by their texts; the board bounds their number.
    pub fn list(&self, now: Timestamp) -> Vec<Block> {
        let now = self.time(now);
        self.board.read(|entries| {
            let block = |(text, entry): (&[u8], &MapEntry)| {
                let by = entry.by.as_ref().map(ToString::to_string);
                Some(Block { name: StoredKeyName::read(text)?, until: entry.until, by })
            };
            entries.active(now).filter_map(block).collect()
        })
    }
}

impl BlockIndex {
    fn hash(&self, parts: Parts<'_>) -> u64 {
        self.hasher.hash_one((parts.domain, parts.entries))
    }

    fn update(&self, entries: &ReplicatedMap) {
        let before = self.table.load();
        let (mut table, mut ends_last) = (BlockTable::default(), Timestamp::EPOCH);
        // Expiry is checked at lookup.
        for (text, entry) in entries.active(Timestamp::EPOCH) {
            let known = before.texts.get(text).cloned();
            // Entries of a newer version may not be blocks.
            let Some(read) = known.or_else(|| self.read(text)) else { continue };
            ends_last = ends_last.max(entry.until);
            match &read {
                Read::Named(hash, name) => {
                    table.named.entry(*hash).or_default().push((Arc::clone(name), entry.until));
                }
                Read::Hidden(name) => {
                    table.hidden.insert(Arc::clone(name), entry.until);
                }
            }
            table.texts.insert(text.into(), read);
        }
        self.table.store(Arc::new(table));
        self.ends_last.store(ends_last.as_nanos(), Ordering::Relaxed);
    }

    fn read(&self, text: &[u8]) -> Option<Read> {
        let posted = StoredKeyName::read(text)?;
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

    fn until(blocks: &BlockList, name: &KeyName, now: Timestamp) -> Option<Timestamp> {
        name.with_parts(|parts| blocks.until(parts, now))
    }

    // Fails when the table is not updated with the board.
    #[test]
    fn block_applies_to_its_key_until_it_expires_or_is_lifted() {
        let blocks = BlockList::default();
        assert!(!blocks.are_any(NOW));
        blocks.block(&name("ada"), later(10), NOW).unwrap();
        blocks.block(&name("bob"), later(20), NOW).unwrap();
        assert_eq!(until(&blocks, &name("ada"), NOW), Some(later(10)));
        assert_eq!(until(&blocks, &name("ada"), later(10)), None);
        assert_eq!(until(&blocks, &name("eve"), NOW), None);
        assert_eq!(until(&blocks, &KeyName::new("e", [("user", "ada"), ("path", "/")]), NOW), None);
        assert!(blocks.are_any(later(19)) && !blocks.are_any(later(20)));
        blocks.block(&name("ada"), later(5), NOW).unwrap();
        assert_eq!(until(&blocks, &name("ada"), later(5)), None, "the last command wins");
        assert!(blocks.unblock(&name("bob"), NOW) && !blocks.unblock(&name("bob"), NOW));
        assert_eq!(until(&blocks, &name("bob"), NOW), None);
    }

    // Fails when the board stores the value itself, or when a decision does not find its hash.
    #[test]
    fn credential_is_blocked_and_unblocked_by_its_hash() {
        let blocks = BlockList::default();
        let secret = |value| KeyName::new("d", [("user", "ada"), ("authorization", value)]);
        blocks.block(&secret("of-ada"), later(10), NOW).unwrap();
        blocks.block(&name("bob"), later(10), NOW).unwrap();
        let text = blocks.board.read(|entries| {
            entries
                .active(NOW)
                .map(|(text, _)| String::from_utf8_lossy(text).into_owned())
                .collect::<String>()
        });
        assert!(text.contains("bob") && !text.contains("of-ada"), "{text}");
        assert_eq!(until(&blocks, &secret("of-ada"), NOW), Some(later(10)));
        assert_eq!(until(&blocks, &secret("of-ada"), later(10)), None);
        assert_eq!(until(&blocks, &name("bob"), NOW), Some(later(10)));
        let shown =
            blocks.list(NOW).iter().map(|block| block.name.shown_entries().to_string()).collect::<String>();
        assert!(shown.contains("sha256:") && !shown.contains("of-ada"), "{shown}");
        for other in ["of-bob", "", shown.as_str()] {
            assert_eq!(until(&blocks, &secret(other), NOW), None, "{other}");
            assert!(!blocks.unblock(&secret(other), NOW), "{other}");
        }
        assert!(blocks.unblock(&secret("of-ada"), NOW));
        assert_eq!(until(&blocks, &secret("of-ada"), NOW), None);
    }

    // Fails when the table keeps expired blocks until the next block.
    #[test]
    fn expired_block_does_not_return_when_clock_is_set_back() {
        let blocks = BlockList::default();
        blocks.block(&name("ada"), later(10), NOW).unwrap();
        blocks.sweep(later(9));
        assert!(until(&blocks, &name("ada"), later(9)).is_some());
        blocks.sweep(later(10));
        assert_eq!((until(&blocks, &name("ada"), NOW), blocks.are_any(NOW)), (None, false));
    }

    #[test]
    fn list_contains_active_blocks_only() {
        let blocks = BlockList::default();
        for (value, seconds) in [("c", 10), ("a", 20), ("b", 10)] {
            blocks.block(&name(value), later(seconds), NOW).unwrap();
        }
        let names = |now| blocks.list(now).into_iter().map(|block| block.name).collect::<Vec<_>>();
        assert_eq!(names(NOW), ["a", "b", "c"].map(|value| name(value).stored()));
        assert_eq!(names(later(10)), [name("a").stored()]);
        assert!(names(later(20)).is_empty());
    }
}
