//! The in-memory store: a sharded table with one lock per shard, and the pure algorithms
//! inside the lock. Table design: docs/decisions/002. Eviction: docs/decisions/003.
//!
//! Invariants: never more than `max_keys` keys; removing a key changes no verdict; locks
//! are taken in the order of their shards, so two batches never deadlock.

use super::batch::{self, Counters};
use super::shard::{Placement, Shard};
use super::{Charge, Context, LocalStore, Op};
use crate::algorithm::{State, Step, step, step_in_place};
use crate::key::Key;
use crate::limit::Limit;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use crate::time::Timestamp;
use crate::verdict::{Verdict, Verdicts};
use smallvec::SmallVec;
use std::time::Duration;

/// A shard's share of `max_keys`: 95 % of the capacity of a table with 4,096 slots, so
/// that few shards need a table of twice that size when the store is full.
const KEYS_PER_SHARD: usize = 3_400;
/// The minimum number of shards, except for stores with fewer than 64 keys per shard.
const SHARDS_FOR_CONCURRENCY: usize = 16;
/// Shared buckets for keys beyond the capacity, over all shards.
const OVERFLOW_SLOTS: usize = 65_536;

/// Capacity of a [`MemoryStore`], and how long it keeps idle keys.
///
/// ```
/// use hivemind_core::store::{MemoryStore, StoreOptions};
/// use std::time::Duration;
///
/// let options = StoreOptions { max_keys: 10_000, idle_ttl: Duration::from_secs(10) };
/// assert_eq!(MemoryStore::new(options).occupancy().keys, 0);
/// assert_eq!(StoreOptions::default().max_keys, 1_000_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// The maximum number of keys, from 1 to [`MemoryStore::MOST_KEYS`]. A million take less than 80 MB.
    pub max_keys: usize,
    /// How long a key is kept after its state became blank.
    pub idle_ttl: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { max_keys: 1_000_000, idle_ttl: Duration::from_secs(300) }
    }
}

/// Usage of a [`MemoryStore`], with evictions and overflows.
///
/// ```
/// use hivemind_core::store::{MemoryStore, Occupancy, StoreOptions};
///
/// let store = MemoryStore::new(StoreOptions::default());
/// assert_eq!(store.occupancy(), Occupancy::default()); // No keys, none evicted, none overflowed.
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Current number of keys.
    pub keys: usize,
    /// Idle keys removed since the start.
    pub evicted: u64,
    /// Decisions recorded in shared overflow buckets since the start.
    pub overflowed: u64,
}

/// Counters in this process's memory.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Parts, StoreOptions};
/// use hivemind_core::{Limit, Period, Timestamp};
///
/// let store = MemoryStore::new(StoreOptions::default());
/// let limit = Limit::fixed_window(1, Period::SECOND);
/// let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
/// let charge = Charge::spend(Key::from_bits(1, 2), ada, &limit);
/// assert!(store.decide_now(&[charge], Context::at(Timestamp::EPOCH)).committed);
/// assert_eq!(store.occupancy().keys, 1);
// A key that has been blank for `idle_ttl` is removed.
/// assert_eq!(store.sweep(Timestamp::from_millis(3_600_000)), 1);
/// ```
pub struct MemoryStore {
    shards: Box<[AlignedShard]>,
    options: StoreOptions,
    keys: AtomicUsize,
    evicted: AtomicU64,
    overflowed: AtomicU64,
    /// The time until which the next sweep keeps the keys present at that sweep.
    held_until: AtomicU64,
}

/// A shard on its own cache lines: two shards on one line would slow each other down.
#[repr(align(128))]
struct AlignedShard(Mutex<Shard>);

impl MemoryStore {
    /// The largest value of [`StoreOptions::max_keys`].
    ///
    /// ```
    /// # use hivemind_core::store::{MemoryStore, StoreOptions};
    /// assert!(StoreOptions::default().max_keys < MemoryStore::MOST_KEYS);
    /// ```
    pub const MOST_KEYS: usize = 1_000_000_000;

    /// An empty store.
    ///
    /// ```
    /// # use hivemind_core::store::{MemoryStore, StoreOptions};
    /// assert_eq!(MemoryStore::new(StoreOptions::default()).occupancy().keys, 0);
    /// ```
    #[must_use]
    pub fn new(options: StoreOptions) -> Self {
        let options = StoreOptions { max_keys: options.max_keys.clamp(1, Self::MOST_KEYS), ..options };
        let shards = options
            .max_keys
            .div_ceil(KEYS_PER_SHARD)
            .max(options.max_keys.div_ceil(64).min(SHARDS_FOR_CONCURRENCY));
        Self::with_shards(options, shards)
    }

    /// An empty store with this number of shards: loom interleaves only a few.
    #[cfg(loom)]
    #[must_use]
    pub fn of_shards(options: StoreOptions, shards: usize) -> Self {
        Self::with_shards(options, shards)
    }

    fn with_shards(options: StoreOptions, shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| AlignedShard(Mutex::new(Shard::default()))).collect(),
            options,
            keys: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            held_until: AtomicU64::new(0),
        }
    }

    /// How full the store is.
    ///
    /// ```
    /// # use hivemind_core::store::{MemoryStore, StoreOptions};
    /// let occupancy = MemoryStore::new(StoreOptions::default()).occupancy();
    /// assert_eq!((occupancy.keys, occupancy.evicted, occupancy.overflowed), (0, 0, 0));
    /// ```
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            keys: self.keys.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
            overflowed: self.overflowed.load(Ordering::Relaxed),
        }
    }

    /// Whether a key shares its counter with unrelated keys, because the table was full of limited keys when it arrived.
    /// Such a counter is not reset or refunded: that would affect all of its keys.
    ///
    /// ```
    /// # use hivemind_core::store::{Key, MemoryStore, StoreOptions};
    /// # use hivemind_core::{Limit, Period, Timestamp};
    /// let store = MemoryStore::new(StoreOptions::default());
    /// let limit = Limit::fixed_window(2, Period::MINUTE);
    /// assert!(!store.is_crowded(Key::from_bits(7, 11), &limit, Timestamp::EPOCH)); // The table has room.
    /// ```
    #[must_use]
    pub fn is_crowded(&self, key: Key, limit: &Limit, now: Timestamp) -> bool {
        let mut shard = self.shard(self.shard_of(key));
        shard.find(key).is_none() && shard.read_overflow(key, limit, now).is_some()
    }

    /// Removes the keys that have been blank for `idle_ttl`, one shard after the other;
    /// decisions on the other shards continue meanwhile. Returns the number of removed keys.
    ///
    /// ```
    /// # use hivemind_core::{Timestamp, store::{MemoryStore, StoreOptions}};
    /// assert_eq!(MemoryStore::new(StoreOptions::default()).sweep(Timestamp::EPOCH), 0);
    /// ```
    pub fn sweep(&self, now: Timestamp) -> usize {
        let held_until = Timestamp::from_nanos(self.held_until.swap(0, Ordering::Relaxed));
        self.remove_from_each(|shard| {
            shard.hold(now, held_until);
            shard.sweep(now, self.options.idle_ttl)
        })
    }

    /// Keeps the current keys until `until` after limits changed: a key's expiry was computed
    /// with its old rate, and a slower rate may need longer.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Parts, StoreOptions};
    /// # use hivemind_core::{Limit, Period, Timestamp};
    /// # let (limit, ada) = (Limit::fixed_window(1, Period::SECOND), Parts { domain: "shop", entries: &[("user", "ada")] });
    /// # let store = MemoryStore::new(StoreOptions::default());
    /// # let (start, hour) = (Timestamp::EPOCH, Timestamp::from_millis(3_600_000));
    /// store.decide_now(&[Charge::spend(Key::from_bits(1, 2), ada, &limit)], Context::at(start));
    /// store.hold(start, Timestamp::from_millis(7_200_000));
    /// assert_eq!(store.sweep(hour), 0); // Without `hold`, it would have been removed.
    /// ```
    pub fn hold(&self, now: Timestamp, until: Timestamp) {
        // A concurrent request with the old limits may still write the old expiry after this,
        // so the next sweep holds once more before it removes anything.
        self.held_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
        self.remove_from_each(|shard| {
            shard.hold(now, until);
            shard.drop_blank(now)
        });
    }

    fn remove_from_each(&self, remove: impl Fn(&mut Shard) -> usize) -> usize {
        let mut removed = 0;
        for AlignedShard(shard) in &self.shards {
            let gone = remove(&mut lock(shard));
            self.keys.fetch_sub(gone, Ordering::Relaxed);
            removed += gone;
        }
        self.evicted.fetch_add(removed as u64, Ordering::Relaxed);
        removed
    }

    #[expect(clippy::indexing_slicing, reason = "the high half of a product is below its factor")]
    #[inline]
    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[index].0)
    }

    #[inline]
    fn shard_of(&self, key: Key) -> usize {
        // From the low half's lower end: its upper end and lowest bits select the slot in a shard's
        // table. The high half selects nothing, so it need not be uniformly distributed.
        let scaled = u128::from(key.bits().1.rotate_left(32)) * self.shards.len() as u128;
        usize::try_from(scaled >> 64).unwrap_or(0)
    }

    /// Decides a batch of a single charge, like [`LocalStore::decide_now`], and returns
    /// whether it commits. It allocates no list of verdicts, and the optimizer can drop the
    /// parts of this verdict that the caller does not read.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, Key, MemoryStore, Parts, StoreOptions};
    /// # use hivemind_core::{Limit, Period, Timestamp};
    /// # let (limit, ada) = (Limit::fixed_window(5, Period::SECOND), Parts { domain: "shop", entries: &[("user", "ada")] });
    /// # let store = MemoryStore::new(StoreOptions::default());
    /// let charge = Charge::spend(Key::from_bits(1, 2), ada, &limit);
    /// let (committed, verdict) = store.decide_alone(&charge, Context::at(Timestamp::EPOCH));
    /// assert!(committed && verdict.remaining == 4);
    /// ```
    #[inline]
    pub fn decide_alone(&self, charge: &Charge<'_>, context: Context) -> (bool, Verdict) {
        let verdict = self.decide_one(charge, context);
        (batch::commits_alone(charge, &verdict), verdict)
    }

    #[inline]
    fn decide_one(&self, charge: &Charge<'_>, context: Context) -> Verdict {
        let action = batch::action(charge, context.on_refusal);
        let mut shard = self.shard(self.shard_of(charge.key));
        let Some(entry) = shard.find(charge.key) else {
            return self.decide_unknown(&mut shard, charge, context);
        };
        let step = step_in_place(charge.limit, Some(entry.state), action, charge.cost, context.now);
        if charge.op != Op::Peek {
            entry.record(&step);
        }
        step.verdict
    }

    #[cold]
    fn decide_unknown(&self, shard: &mut Shard, charge: &Charge<'_>, context: Context) -> Verdict {
        let action = batch::action(charge, context.on_refusal);
        let state = shard.read_overflow(charge.key, charge.limit, context.now);
        let step = step(charge.limit, state, action, charge.cost, context.now);
        if charge.op != Op::Peek {
            self.place(shard, charge, &step, context.now);
        }
        step.verdict
    }

    #[cold]
    fn place(&self, shard: &mut Shard, charge: &Charge<'_>, step: &Step, now: Timestamp) {
        if step.blank_at <= now {
            return; // A blank state need not be stored.
        }
        // Counted before insertion, and only if there is room: the capacity is never exceeded.
        let one_more = |keys| (keys < self.options.max_keys).then_some(keys + 1);
        let has_room = self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok();
        let slots = OVERFLOW_SLOTS.div_ceil(self.shards.len());
        let placed = shard.place(charge.key, charge.limit, step, now, has_room, slots);
        match placed {
            Placement::Added => {}
            Placement::ReplacedBlank => {
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
            Placement::InOverflow => {
                self.overflowed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl LocalStore for MemoryStore {
    #[inline]
    fn decide_now(&self, batch: &[Charge<'_>], context: Context) -> Verdicts {
        if let [charge] = batch {
            let (committed, verdict) = self.decide_alone(charge, context);
            return Verdicts::of_one(committed, verdict);
        }
        batch::decide_on(batch, context, &mut LockedShards::lock(self, batch, context.now))
    }

    fn forget_now(&self, key: Key) {
        if self.shard(self.shard_of(key)).remove(key) {
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The shards of one batch, locked together.
struct LockedShards<'a> {
    store: &'a MemoryStore,
    guards: SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>,
    now: Timestamp,
}

impl<'a> LockedShards<'a> {
    fn lock(store: &'a MemoryStore, batch: &[Charge<'_>], now: Timestamp) -> Self {
        let mut shards: SmallVec<[usize; 4]> =
            batch.iter().map(|charge| store.shard_of(charge.key)).collect();
        shards.sort_unstable();
        shards.dedup();
        let guards = shards.into_iter().map(|index| (index, store.shard(index))).collect();
        Self { store, guards, now }
    }

    #[expect(clippy::expect_used, reason = "every shard of the batch was locked by `lock`")]
    fn shard(&mut self, key: Key) -> &mut Shard {
        let index = self.store.shard_of(key);
        let held = self.guards.iter_mut().find(|(held, _)| *held == index);
        &mut held.expect("locked by `lock`").1
    }
}

impl Counters for LockedShards<'_> {
    fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
        let now = self.now;
        let shard = self.shard(charge.key);
        match shard.find(charge.key) {
            Some(entry) => Some(entry.state),
            None => shard.read_overflow(charge.key, charge.limit, now),
        }
    }

    fn write(&mut self, charge: &Charge<'_>, step: &Step) {
        let (store, now) = (self.store, self.now);
        let shard = self.shard(charge.key);
        match shard.find(charge.key) {
            Some(entry) => entry.record(step),
            None => store.place(shard, charge, step, now),
        }
    }
}
