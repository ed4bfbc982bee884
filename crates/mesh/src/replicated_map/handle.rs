//! The shared handle of a node's replicated map. The watcher is called under the lock, so its last call has the
//! final content. Incoming times are those of the node's own clock; entries are dated by the mesh clock.

use super::message::MapMessage;
use super::message_limits::{LostEntries, MessageLimits};
use super::{EntryError, LONGEST_TEXT, MOST_ENTRIES, MOST_OTHERS, MapEntry, ReplicatedMap};
use crate::counter::shards::Shards;
use crate::frame::wire::Unreadable;
use crate::node::Node;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::view::NodeId;
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

type Watcher = Box<dyn Fn(&ReplicatedMap) + Send + Sync>;

/// A node's replicated map.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MapHandle, LostEntries};
///
/// let handle = MapHandle::new(None); // Of a node without peers.
/// let (now, until) = (Timestamp::from_millis(1_000), Timestamp::from_millis(61_000));
/// handle.watch(|text| text.starts_with(b"block "), move |map| println!("{}", map.active(now).count()));
/// handle.insert(b"block ada", until, now)?;
/// assert_eq!(handle.read(|map| map.active(now).count()), 1);
/// assert!(!handle.is_shared() && handle.lost() == LostEntries::default());
/// assert_eq!(handle.time(now), now); // By its own clock, the only one.
/// assert!(handle.remove(b"block ada", now) && !handle.remove(b"block ada", now));
/// handle.sweep(until); // Every second, without peers.
/// # Ok::<(), hivemind_mesh::EntryError>(())
/// ```
pub struct MapHandle {
    /// None without peers: then removals need no tombstones.
    me: Option<NodeId>,
    /// The source of the mesh time.
    clock: Option<Arc<Shards>>,
    state: Mutex<HandleState>,
    /// Whether peers or the watcher need an update: 1 or 0.
    has_updates: AtomicU32,
    watcher: OnceLock<Watcher>,
}

struct HandleState {
    map: ReplicatedMap,
    /// Which texts can be interpreted here.
    reads: fn(&[u8]) -> bool,
    /// Texts written here that have not been sent to peers.
    unsent: BTreeSet<Box<[u8]>>,
    /// Whether the watcher has not seen entries from peers yet.
    is_unseen: bool,
    limits: MessageLimits,
}

impl MapHandle {
    /// An empty map of this node; `None` without peers.
    #[must_use]
    pub fn new(me: Option<NodeId>) -> Self {
        let state = HandleState {
            map: ReplicatedMap::new(MOST_ENTRIES, MOST_OTHERS),
            reads: |_| true,
            unsent: BTreeSet::new(),
            is_unseen: false,
            limits: MessageLimits::default(),
        };
        let state = Mutex::new(state);
        Self { me, clock: None, state, has_updates: AtomicU32::new(0), watcher: OnceLock::new() }
    }

    /// A map that uses the mesh clock.
    #[doc(hidden)]
    #[must_use]
    pub fn by_mesh_clock(node: &Node) -> Self {
        Self { clock: Some(Arc::clone(node.shards())), ..Self::new(Some(node.member().id.clone())) }
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
    pub fn watch(&self, reads: fn(&[u8]) -> bool, watcher: impl Fn(&ReplicatedMap) + Send + Sync + 'static) {
        if self.watcher.set(Box::new(watcher)).is_err() {
            return; // The first one stays.
        }
        let mut state = lock(&self.state);
        state.reads = reads;
        state.map.set_known_groups(reads, Timestamp::EPOCH);
        self.notify(&mut state);
    }

    /// Inserts a text until a time, and replaces its previous entry.
    ///
    /// # Errors
    /// If there are too many entries, or it is too long, or ends too early or too late.
    pub fn insert(&self, text: &[u8], until: Timestamp, now: Timestamp) -> Result<(), EntryError> {
        let now = self.time(now);
        if text.len() > LONGEST_TEXT {
            return Err(EntryError::TooLong { most: LONGEST_TEXT });
        }
        if until <= now {
            return Err(EntryError::Over);
        }
        if until > now.saturating_add(LONGEST) {
            return Err(EntryError::TooLate);
        }
        let mut state = lock(&self.state);
        state.map.sweep(now);
        state.map.check_room(text, now)?;
        self.write(&mut state, text, false, until, now);
        Ok(())
    }

    /// Removes a text. Returns whether it was active.
    pub fn remove(&self, text: &[u8], now: Timestamp) -> bool {
        let now = self.time(now);
        let mut state = lock(&self.state);
        let Some(until) = state.map.get(text).filter(|entry| entry.is_active(now)).map(|entry| entry.until)
        else {
            return false;
        };
        if self.me.is_some() {
            self.write(&mut state, text, true, until, now);
        } else {
            state.map.remove(text);
            self.notify(&mut state);
        }
        true
    }

    fn write(
        &self,
        state: &mut HandleState,
        text: &[u8],
        is_removed: bool,
        until: Timestamp,
        now: Timestamp,
    ) {
        let known = state.map.get(text);
        // Later than all writes known here, whatever their clocks were: the last write wins.
        let before = known.map_or(0, |known| known.written_ms.saturating_add(1));
        // In a full map the oldest write is dropped, which must not be this one.
        let before = before.max(state.map.makes_room(text).map_or(0, |oldest| oldest.saturating_add(1)));
        let written_ms = (now.as_nanos() / 1_000_000).max(before);
        // A node that missed this write may know a longer entry.
        let longest = known.map_or(until, |known| known.kept_until.max(until));
        let ends = if is_removed { now } else { until };
        let kept_until = ends.max(longest.min(now.saturating_add(REMEMBERED)));
        let kept_until = if self.me.is_some() { kept_until } else { until };
        let entry = MapEntry { written_ms, by: self.me.clone(), is_removed, until, kept_until };
        state.map.put(text.into(), entry, state.reads);
        state.map.keep_latest(now); // No active one: room was checked.
        if self.me.is_some() {
            state.unsent.insert(text.into());
            self.has_updates.store(1, Ordering::Release);
        }
        self.notify(state);
    }

    /// Passes all known entries to `read`, including removed and expired ones.
    pub fn read<T>(&self, read: impl FnOnce(&ReplicatedMap) -> T) -> T {
        let mut state = lock(&self.state);
        if state.is_unseen {
            self.notify(&mut state); // A caller that sees a change must find it applied.
        }
        read(&state.map)
    }

    /// Removes expired entries. With peers this happens every second; without any the node calls it.
    pub fn sweep(&self, now: Timestamp) {
        let now = self.time(now);
        let mut state = lock(&self.state);
        if state.map.sweep(now) {
            self.notify(&mut state);
        }
    }

    /// Entries sent to this node and lost.
    #[must_use]
    pub fn lost(&self) -> LostEntries {
        lock(&self.state).limits.lost()
    }

    fn notify(&self, state: &mut HandleState) {
        state.is_unseen = false;
        if let Some(watcher) = self.watcher.get() {
            watcher(&state.map);
        }
    }

    /// Messages with local writes that no peer has received yet. Also calls the watcher for writes of peers.
    pub fn take_updates(&self) -> Vec<Vec<u8>> {
        if self.has_updates.swap(0, Ordering::AcqRel) == 0 {
            return Vec::new();
        }
        let mut state = lock(&self.state);
        if state.is_unseen {
            self.notify(&mut state);
        }
        let texts = std::mem::take(&mut state.unsent);
        let entries = texts.iter().filter_map(|text| Some((&**text, state.map.get(text)?)));
        MapMessage::entries(entries)
    }

    /// A periodic message to all peers, so that those with other content request it; none for an empty map.
    pub fn digest(&self, now: Timestamp) -> Option<Vec<u8>> {
        self.sweep(now);
        let digest = lock(&self.state).map.digest();
        (digest != 0).then(|| MapMessage::Digest(digest).encode())
    }

    /// Handles a peer's message and returns the replies.
    ///
    /// # Errors
    /// If it cannot be decoded: then nothing of it is applied.
    pub fn receive(&self, from: &NodeId, bytes: &[u8], now: Timestamp) -> Result<Vec<Vec<u8>>, Unreadable> {
        let Some(message) = MapMessage::read(bytes)? else { return Ok(Vec::new()) };
        let now = self.time(now);
        let mut state = lock(&self.state);
        let HandleState { map, limits, reads, .. } = &mut *state;
        Ok(match message {
            MapMessage::Digest(digest) if digest == map.digest() => Vec::new(),
            MapMessage::Digest(_) if !limits.asks(from, now) => Vec::new(),
            MapMessage::Digest(_) => vec![MapMessage::Summary(map.summary()).encode()],
            MapMessage::Summary(_) if !limits.answers(from, now) => Vec::new(),
            MapMessage::Summary(known) => MessageLimits::answer(&map.lacking(known)),
            MapMessage::Entries(entries) => {
                let accepted = limits.accepted(from, entries, now);
                let merged = map.merge(accepted, *reads, now);
                limits.dropped(merged.dropped, now);
                if merged.is_changed {
                    state.is_unseen = true;
                    self.has_updates.store(1, Ordering::Release);
                }
                Vec::new()
            }
        })
    }
}

impl fmt::Debug for MapHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapHandle").field("me", &self.me).finish_non_exhaustive()
    }
}
