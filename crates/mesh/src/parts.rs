//! The fast-path entries of a node in many small shards, each with its own lock, like the memory store's
//! counters. A decision with held allowance takes the lock of its shard and no other. The node's lock is taken
//! before a shard's, and holds one shard at a time; so no thread waits for two of them in different orders.

use crate::clock::MeshClock;
use crate::owner::NodeId;
use crate::page::{Page, Side};
use crate::slip::{Epoch, Slip};
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::window::tag_at;
use hashbrown::HashTable;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::BTreeMap;

/// The number of shards: for a hundred thousand counters, tables that are three quarters full.
#[cfg(not(loom))]
pub(crate) const PARTS: usize = 64;
#[cfg(loom)]
pub(crate) const PARTS: usize = 2;

/// All fast-path entries of one node, shared with decisions outside the node.
#[derive(Debug)]
pub(crate) struct Parts {
    all: [Aligned; PARTS],
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
struct Aligned(Mutex<Part>);

/// One shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) slips: HashTable<Slip>,
    /// Counters that are queued for updates. There is room for all of the shard: a decision does not allocate.
    pub(crate) listed: Vec<Key>,
    /// Counters that peers caused to be opened, at most: local use since then is detected by the sweep.
    pub(crate) told: usize,
}

impl Parts {
    pub(crate) fn new() -> Self {
        Self {
            all: std::array::from_fn(|_| Aligned::default()),
            fresh_until: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            slew: AtomicI64::new(0),
            reached: AtomicU64::new(0),
        }
    }

    /// A deep copy with its own locks.
    pub(crate) fn copied(&self) -> Self {
        let all = std::array::from_fn(|index| {
            let part = self.all.get(index).map(|Aligned(part)| lock(part).clone());
            Aligned(Mutex::new(part.unwrap_or_default()))
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
    pub(crate) fn part(&self, key: Key) -> MutexGuard<'_, Part> {
        // Other bits of the hash than those that select the bucket in a shard's table.
        let bits = usize::try_from(key.bits().1 >> 32 & 0xffff).unwrap_or(0);
        lock(&self.all[bits % PARTS].0)
    }

    /// A shard by its index.
    pub(crate) fn nth(&self, index: usize) -> Option<MutexGuard<'_, Part>> {
        self.all.get(index).map(|Aligned(part)| lock(part))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Part>> {
        self.all.iter().map(|Aligned(part)| lock(part))
    }

    /// What peers hold of the running windows and of buckets, as far as this node owns them. Locks one shard
    /// after the other, so that no decision waits for all of it. A node with a ledger is the owner, so
    /// ownership is not computed.
    pub(crate) fn rights_held(&self, me: &NodeId, local: Timestamp) -> BTreeMap<NodeId, u64> {
        let now = self.mesh_time(local);
        let mut held: BTreeMap<NodeId, u64> = BTreeMap::new();
        for part in self.each() {
            for slip in &part.slips {
                let tag = tag_at(&slip.book.limit(), now);
                let page = slip.book.pages.iter().find(|page| page.tag == tag);
                let Some(Page { side: Side::Till(till), .. }) = page else { continue };
                till.lent(me, |peer, lent| match held.get_mut(peer) {
                    Some(sum) => *sum = sum.saturating_add(lent),
                    None => {
                        held.insert(peer.clone(), lent);
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

impl Part {
    #[inline]
    pub(crate) fn find(&mut self, key: Key) -> Option<&mut Slip> {
        self.slips.find_mut(hash(key), |slip| slip.key == key)
    }

    /// The index of a counter, which is created if it does not exist and `new` returns one.
    pub(crate) fn place(&mut self, key: Key, new: impl FnOnce() -> Option<Slip>) -> Option<(usize, bool)> {
        if let Some(place) = self.slips.find_bucket_index(hash(key), |slip| slip.key == key) {
            return Some((place, false));
        }
        let place = self.slips.insert_unique(hash(key), new()?, |slip| hash(slip.key)).bucket_index();
        self.listed.reserve(self.slips.len().saturating_sub(self.listed.len()));
        Some((place, true))
    }

    /// Queues a counter for updates to peers.
    #[inline]
    pub(crate) fn list(&mut self, key: Key) {
        if let Some(slip) = self.slips.find_mut(hash(key), |slip| slip.key == key)
            && !std::mem::replace(&mut slip.listed, true)
        {
            self.listed.push(key);
        }
    }
}

/// A key's low half is a hash already (docs/decisions/006).
#[inline]
fn hash(key: Key) -> u64 {
    key.bits().1
}
