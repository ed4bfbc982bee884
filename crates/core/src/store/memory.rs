//! The store in this process: a table in many small parts, each behind a lock of
//! its own, and the pure algorithms inside the lock. Why this table and not
//! another: docs/decisions/002. Why a key may go: docs/decisions/003.
//!
//! Invariants: never more than `max_keys` keys; removing a key changes no verdict;
//! locks are taken in the order of their shards, so no two batches wait for each other.

use super::batch::{self, Counters};
use super::shard::{Placed, Shard};
use super::{Charge, Context, LocalStore, Op};
use crate::algorithm::{State, Step, step, step_in_place};
use crate::key::Key;
use crate::limit::Limit;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use crate::time::Timestamp;
use crate::verdict::{Verdict, Verdicts};
use smallvec::SmallVec;
use std::time::Duration;

/// A shard's share of `max_keys`: 95 % of what a table of 4,096 places holds, so
/// that at the cap hardly any shard had to take a table of twice the size.
const KEYS_PER_SHARD: usize = 3_400;
/// Fewer shards than this only where there is not a handful of keys for each.
const SHARDS_FOR_CONCURRENCY: usize = 16;
/// Shared buckets for the keys past the cap, over all shards.
const OVERFLOW_SLOTS: usize = 65_536;

/// How large a [`MemoryStore`] may grow, and how long it keeps what says nothing any more.
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
    /// The most keys it holds, from 1 to [`MemoryStore::MOST_KEYS`]. A million take less than 80 MB.
    pub max_keys: usize,
    /// How long a key is kept after its state says the same as none.
    pub idle_ttl: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { max_keys: 1_000_000, idle_ttl: Duration::from_secs(300) }
    }
}

/// How full a [`MemoryStore`] is, and what that has caused.
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
    /// Keys held now.
    pub keys: usize,
    /// Keys removed because they said nothing any more, since the start.
    pub evicted: u64,
    /// Decisions recorded in shared overflow buckets, since the start.
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
/// // Once the key has said nothing for `idle_ttl`, it goes.
/// assert_eq!(store.sweep(Timestamp::from_millis(3_600_000)), 1);
/// ```
pub struct MemoryStore {
    shards: Box<[Aligned]>,
    options: StoreOptions,
    keys: AtomicUsize,
    evicted: AtomicU64,
    overflowed: AtomicU64,
    /// Until when the next sweep holds what is remembered then.
    held_until: AtomicU64,
}

/// Two shards on one cache line would slow each other down.
#[repr(align(128))]
struct Aligned(Mutex<Shard>);

impl MemoryStore {
    /// The most keys that a store can be told to hold.
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

    /// An empty store of so many shards, so that loom has few of them to interleave.
    #[cfg(loom)]
    #[must_use]
    pub fn of_shards(options: StoreOptions, shards: usize) -> Self {
        Self::with_shards(options, shards)
    }

    fn with_shards(options: StoreOptions, shards: usize) -> Self {
        Self {
            shards: (0..shards).map(|_| Aligned(Mutex::new(Shard::default()))).collect(),
            options,
            keys: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            held_until: AtomicU64::new(0),
        }
    }

    /// How full it is.
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

    /// Whether a key has to share its counter with strangers, because the table was full of limited ones when it came.
    /// Then nothing of it is forgotten or given back: that would be for all of them.
    ///
    /// ```
    /// # use hivemind_core::store::{Key, MemoryStore, StoreOptions};
    /// # use hivemind_core::{Limit, Period, Timestamp};
    /// let store = MemoryStore::new(StoreOptions::default());
    /// let limit = Limit::fixed_window(2, Period::MINUTE);
    /// assert!(!store.is_crowded(Key::from_bits(7, 11), &limit, Timestamp::EPOCH)); // There is room.
    /// ```
    #[must_use]
    pub fn is_crowded(&self, key: Key, limit: &Limit, now: Timestamp) -> bool {
        let mut shard = self.shard(self.shard_of(key));
        shard.find(key).is_none() && shard.shared(key, limit, now).is_some()
    }

    /// Removes the keys that have said nothing for `idle_ttl`, one shard after the
    /// other; decisions on the other shards go on meanwhile. Returns how many went.
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

    /// Keeps what is remembered now until `until`, because limits changed: a key's
    /// time to go was reckoned with the rate it had, and a slower one may need longer.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Parts, StoreOptions};
    /// # use hivemind_core::{Limit, Period, Timestamp};
    /// # let (limit, ada) = (Limit::fixed_window(1, Period::SECOND), Parts { domain: "shop", entries: &[("user", "ada")] });
    /// # let store = MemoryStore::new(StoreOptions::default());
    /// # let (start, hour) = (Timestamp::EPOCH, Timestamp::from_millis(3_600_000));
    /// store.decide_now(&[Charge::spend(Key::from_bits(1, 2), ada, &limit)], Context::at(start));
    /// store.hold(start, Timestamp::from_millis(7_200_000));
    /// assert_eq!(store.sweep(hour), 0); // It would have gone by now.
    /// ```
    pub fn hold(&self, now: Timestamp, until: Timestamp) {
        // A request that is under way with the old limits may still write the old time
        // after this, so the next sweep holds once more before it removes anything.
        self.held_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
        self.remove_from_each(|shard| {
            shard.hold(now, until);
            shard.drop_blank(now)
        });
    }

    fn remove_from_each(&self, remove: impl Fn(&mut Shard) -> usize) -> usize {
        let mut removed = 0;
        for Aligned(shard) in &self.shards {
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
        // From the low half's lower end: its upper end and its lowest bits find the place in a shard's
        // table. The high half chooses nothing, so it need not be evenly spread.
        let scaled = u128::from(key.bits().1.rotate_left(32)) * self.shards.len() as u128;
        usize::try_from(scaled >> 64).unwrap_or(0)
    }

    /// Decides a charge that is alone in its batch, as [`LocalStore::decide_now`]
    /// does, and says whether the batch commits. It makes no list of verdicts, and
    /// what the caller does not read of this one is not worked out.
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
        let action = batch::action(charge.op, context.on_refusal);
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
        let action = batch::action(charge.op, context.on_refusal);
        let state = shard.shared(charge.key, charge.limit, context.now);
        let step = step(charge.limit, state, action, charge.cost, context.now);
        if charge.op != Op::Peek {
            self.place(shard, charge, &step, context.now);
        }
        step.verdict
    }

    #[cold]
    fn place(&self, shard: &mut Shard, charge: &Charge<'_>, step: &Step, now: Timestamp) {
        if step.blank_at <= now {
            return; // Nothing to remember.
        }
        // Counted before it is placed, and only if there is room: the cap holds at every moment.
        let one_more = |keys| (keys < self.options.max_keys).then_some(keys + 1);
        let has_room = self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok();
        let slots = OVERFLOW_SLOTS.div_ceil(self.shards.len());
        let placed = shard.place(charge.key, charge.limit, step, now, has_room, slots);
        match placed {
            Placed::Added => {}
            Placed::InsteadOfABlankOne => {
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
            Placed::InOverflow => {
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
        batch::decide_on(batch, context, &mut Held::hold(self, batch, context.now))
    }

    fn forget_now(&self, key: Key) {
        if self.shard(self.shard_of(key)).remove(key) {
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The shards of one batch, locked together.
struct Held<'a> {
    store: &'a MemoryStore,
    guards: SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>,
    now: Timestamp,
}

impl<'a> Held<'a> {
    fn hold(store: &'a MemoryStore, batch: &[Charge<'_>], now: Timestamp) -> Self {
        let mut shards: SmallVec<[usize; 4]> =
            batch.iter().map(|charge| store.shard_of(charge.key)).collect();
        shards.sort_unstable();
        shards.dedup();
        let guards = shards.into_iter().map(|index| (index, store.shard(index))).collect();
        Self { store, guards, now }
    }

    #[expect(clippy::expect_used, reason = "every shard of the batch was locked by `hold`")]
    fn shard(&mut self, key: Key) -> &mut Shard {
        let index = self.store.shard_of(key);
        let held = self.guards.iter_mut().find(|(held, _)| *held == index);
        &mut held.expect("locked by `hold`").1
    }
}

impl Counters for Held<'_> {
    fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
        let now = self.now;
        let shard = self.shard(charge.key);
        match shard.find(charge.key) {
            Some(entry) => Some(entry.state),
            None => shard.shared(charge.key, charge.limit, now),
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
