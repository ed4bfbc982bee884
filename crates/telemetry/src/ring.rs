//! Decision ring: the last decisions for operators, with client, frontend and result. It has a fixed number of bytes,
//! allocated at the start; new decisions replace the oldest.
//!
//! No thread waits: each one writes to its own shard while there are enough shards. If its shard is locked, for example
//! by a reader, the decision is omitted and counted. A decision allocates nothing, except to decode a value with a `%`
//! and to hash a credential.

mod arena;
mod record;
#[cfg(test)]
mod tests;

pub use record::{DecisionHead, DecisionRecord, DescriptorOutcome, DescriptorRecord, Truncation, cut};

use arena::{Arena, ArenaCopy};
use hivemind_core::Timestamp;
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Average bytes of a decision with its texts; longer decisions reduce the number that fit.
const BYTES_EACH: usize = 420;
/// Number of shards; additional threads share them.
const MOST_SHARDS: usize = 8;

/// The last decisions.
#[derive(Debug, Default)]
pub struct DecisionRing {
    shards: Box<[RingShard]>,
}

/// On its own cache line, because each thread writes to its own shard.
#[derive(Debug)]
#[repr(align(128))]
struct RingShard {
    records: Mutex<Records>,
    missed: AtomicU64,
}

#[derive(Debug)]
struct Records {
    arena: Arena,
    /// Buffer of a record, whose length is known only after encoding.
    draft: Vec<u8>,
    /// Number of all decisions so far.
    count: u64,
}

thread_local! {
    static THREAD_NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of this thread.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let known = THREAD_NUMBER.try_with(|thread_number| {
        let number = thread_number.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        thread_number.set(Some(number));
        number
    });
    known.unwrap_or_default()
}

impl DecisionRing {
    /// A ring for about `most` decisions; 0: none are stored.
    pub fn new(most: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self::with_shards(most, cores.min(MOST_SHARDS))
    }

    pub fn with_shards(most: usize, shards: usize) -> Self {
        if most == 0 {
            return Self::default();
        }
        let each = most.div_ceil(shards);
        // A record of maximum length always fits.
        let bytes = each.saturating_mul(BYTES_EACH).max(record::LONGEST);
        let shard = |_| {
            let records = Records { arena: Arena::new(each, bytes), draft: Vec::new(), count: 0 };
            RingShard { records: Mutex::new(records), missed: AtomicU64::new(0) }
        };
        Self { shards: (0..shards).map(shard).collect() }
    }

    pub fn is_on(&self) -> bool {
        !self.shards.is_empty()
    }

    /// Records a decision.
    #[inline]
    pub fn record<'p>(
        &self,
        head: &DecisionHead<'_>,
        parts: impl ExactSizeIterator<Item = DescriptorOutcome<'p>>,
    ) {
        if self.is_on() {
            self.write(thread_number(), head, parts);
        }
    }

    /// Records as the thread with this number.
    pub fn write<'p>(
        &self,
        thread_number: usize,
        head: &DecisionHead<'_>,
        parts: impl ExactSizeIterator<Item = DescriptorOutcome<'p>>,
    ) {
        let Some(shard) = self.shards.get(thread_number % self.shards.len().max(1)) else { return };
        let Ok(mut records) = shard.records.try_lock() else {
            shard.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let Records { arena, draft, count } = &mut *records;
        draft.clear();
        record::write(draft, *count, head, parts);
        arena.push(draft);
        *count += 1;
    }

    /// Copies the ring: a short lock per shard, because decisions are omitted while it is held.
    pub fn snapshot(&self) -> Snapshot {
        let copied =
            |shard: &RingShard| shard.records.lock().unwrap_or_else(PoisonError::into_inner).arena.snapshot();
        let missed = |shard: &RingShard| shard.missed.load(Ordering::Relaxed);
        Snapshot {
            shards: self.shards.iter().map(copied).collect(),
            missed: self.shards.iter().map(missed).sum(),
        }
    }
}

/// A snapshot of the ring.
#[derive(Debug)]
pub struct Snapshot {
    shards: Vec<ArenaCopy>,
    /// Number of omitted decisions since the start.
    pub missed: u64,
}

impl Snapshot {
    /// All decisions, newest first.
    pub fn newest_first(&self) -> Vec<RecordRef<'_>> {
        let width = self.shards.len() as u64;
        let of_shard = |(shard, copied)| {
            let record = move |record| {
                let (count, at) = record::begin(record)?;
                Some(RecordRef { at, id: count * width + shard, shard, record })
            };
            ArenaCopy::records(copied).filter_map(record)
        };
        let mut all: Vec<RecordRef<'_>> = (0_u64..).zip(&self.shards).flat_map(of_shard).collect();
        all.sort_unstable_by_key(|record| std::cmp::Reverse((record.at, record.id)));
        all
    }

    /// The time since which all decisions are present; before it, some shards have dropped theirs.
    pub fn whole_since(&self) -> Timestamp {
        let oldest = |copied: &ArenaCopy| {
            let times = copied.records().filter_map(|record| Some(record::begin(record)?.1));
            times.min().filter(|_| copied.has_evicted)
        };
        self.shards.iter().filter_map(oldest).max().unwrap_or_default()
    }
}

/// A decision that is not decoded yet.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'s> {
    pub at: Timestamp,
    pub id: u64,
    /// Its shard, in which decisions are in order.
    pub shard: u64,
    record: &'s [u8],
}

impl<'s> RecordRef<'s> {
    pub fn read(&self) -> Option<DecisionRecord<'s>> {
        record::read(self.record)
    }
}
