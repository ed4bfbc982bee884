//! The fast-path entries of a node in many small shards, each with its own lock, like the memory store's
//! counters. A decision with held allowance takes the lock of its shard and no other. The node's lock is taken
//! before a shard's, and holds one shard at a time; so no thread waits for two of them in different orders.

use crate::clock::MeshClock;
use crate::counter::counter_window::{CounterWindow, Side};
use crate::counter::fast_path_entry::{Epoch, FastPathEntry};
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::view::NodeId;
use crate::window::tag_at;
use hashbrown::HashTable;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::BTreeMap;

/// The number of shards: for a hundred thousand counters, tables that are three quarters full.
#[cfg(not(loom))]
pub(crate) const SHARDS: usize = 64;
#[cfg(loom)]
pub(crate) const SHARDS: usize = 2;

/// All fast-path entries of one node, shared with decisions outside the node.
#[derive(Debug)]
pub(crate) struct Shards {
    all: [PaddedShard; SHARDS],
    /// Until when windows that were compared with the present views need not be compared again.
    fresh_until: AtomicU64,
    epoch: AtomicU32,
    /// The node's mesh clock: how far it is ahead of the underlying clock, and what it has reached.
    slew: AtomicI64,
    reached: AtomicU64,
}

/// Two shards on one cache line would slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PaddedShard(Mutex<CounterShard>);

/// One shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterShard {
    pub(crate) entries: HashTable<FastPathEntry>,
    /// Counters that are queued for updates. There is room for all of the shard: a decision does not allocate.
    pub(crate) queued: Vec<Key>,
    /// Counters that peers caused to be opened, at most: local use since then is detected by the sweep.
    pub(crate) peer_opened: usize,
}

impl Shards {
    pub(crate) fn new() -> Self {
        Self {
            all: std::array::from_fn(|_| PaddedShard::default()),
            fresh_until: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            slew: AtomicI64::new(0),
            reached: AtomicU64::new(0),
        }
    }

    /// A deep copy with its own locks.
    pub(crate) fn copied(&self) -> Self {
        let all = std::array::from_fn(|index| {
            let shard = self.all.get(index).map(|PaddedShard(shard)| lock(shard).clone());
            PaddedShard(Mutex::new(shard.unwrap_or_default()))
        });
        let (fresh_until, epoch) = (self.fresh_until.load(Ordering::Acquire), self.epoch());
        let (slew, reached) = (self.slew.load(Ordering::Acquire), self.reached.load(Ordering::Acquire));
        Self {
            all,
            fresh_until: AtomicU64::new(fresh_until),
            epoch: AtomicU32::new(epoch),
            slew: AtomicI64::new(slew),
            reached: AtomicU64::new(reached),
        }
    }

    /// The mesh time when the underlying clock shows `local`.
    #[inline]
    pub(crate) fn mesh_time(&self, local: Timestamp) -> Timestamp {
        let shown = local.as_nanos().saturating_add_signed(self.slew.load(Ordering::Acquire));
        Timestamp::from_nanos(shown.max(self.reached.load(Ordering::Acquire)))
    }

    /// The mesh clock advanced. Only the node calls this.
    pub(crate) fn set_clock(&self, clock: &MeshClock) {
        self.slew.store(clock.slew, Ordering::Release);
        self.reached.store(clock.reached.as_nanos(), Ordering::Release);
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is below its divisor")]
    #[inline]
    pub(crate) fn shard(&self, key: Key) -> MutexGuard<'_, CounterShard> {
        // Other bits of the hash than those that select the bucket in a shard's table.
        let bits = usize::try_from(key.bits().1 >> 32 & 0xffff).unwrap_or(0);
        lock(&self.all[bits % SHARDS].0)
    }

    /// A shard by its index.
    pub(crate) fn nth(&self, index: usize) -> Option<MutexGuard<'_, CounterShard>> {
        self.all.get(index).map(|PaddedShard(shard)| lock(shard))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, CounterShard>> {
        self.all.iter().map(|PaddedShard(shard)| lock(shard))
    }

    /// What peers hold of the running windows and of buckets, as far as this node owns them. Locks one shard
    /// after the other, so that no decision waits for all of it. A node with a ledger is the owner, so
    /// ownership is not computed.
    pub(crate) fn rights_held(&self, me: &NodeId, local: Timestamp) -> BTreeMap<NodeId, u64> {
        let now = self.mesh_time(local);
        let mut held: BTreeMap<NodeId, u64> = BTreeMap::new();
        for shard in self.each() {
            for entry in &shard.entries {
                let tag = tag_at(&entry.counter.limit(), now);
                let window = entry.counter.windows.iter().find(|window| window.tag == tag);
                let Some(CounterWindow { side: Side::Ledger(ledger), .. }) = window else { continue };
                ledger.for_each_holding(me, |peer, granted| match held.get_mut(peer) {
                    Some(sum) => *sum = sum.saturating_add(granted),
                    None => {
                        held.insert(peer.clone(), granted);
                    }
                });
            }
        }
        held
    }

    #[inline]
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch.load(Ordering::Acquire)
    }

    /// Whether the views active at `now` are those that windows of this epoch were compared with.
    #[inline]
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        now.as_nanos() < self.fresh_until.load(Ordering::Acquire)
    }

    /// Starts a new epoch, for the views that stay until then. Only the node calls this.
    pub(crate) fn begin_epoch(&self, fresh_until: Timestamp) {
        // Never 0, which is the epoch of a window that was never compared.
        self.epoch.store(self.epoch().wrapping_add(1).max(1), Ordering::Release);
        self.fresh_until.store(fresh_until.as_nanos(), Ordering::Release);
    }

    /// Views changed: every window must be compared again.
    pub(crate) fn views_changed(&self) {
        self.fresh_until.store(0, Ordering::Release);
    }
}

impl CounterShard {
    #[inline]
    pub(crate) fn find(&mut self, key: Key) -> Option<&mut FastPathEntry> {
        self.entries.find_mut(hash(key), |entry| entry.key == key)
    }

    /// The index of a counter, which is created if it does not exist and `new` returns one.
    pub(crate) fn place(
        &mut self,
        key: Key,
        new: impl FnOnce() -> Option<FastPathEntry>,
    ) -> Option<(usize, bool)> {
        if let Some(place) = self.entries.find_bucket_index(hash(key), |entry| entry.key == key) {
            return Some((place, false));
        }
        let place = self.entries.insert_unique(hash(key), new()?, |entry| hash(entry.key)).bucket_index();
        self.queued.reserve(self.entries.len().saturating_sub(self.queued.len()));
        Some((place, true))
    }

    /// Queues a counter for updates to peers.
    #[inline]
    pub(crate) fn queue(&mut self, key: Key) {
        if let Some(entry) = self.entries.find_mut(hash(key), |entry| entry.key == key)
            && !std::mem::replace(&mut entry.queued, true)
        {
            self.queued.push(key);
        }
    }
}

/// A key's low half is a hash already (docs/decisions/006).
#[inline]
fn hash(key: Key) -> u64 {
    key.bits().1
}
