//! The last decisions, for operators: who was asked for, by which frontend, and what became of it. A fixed number of bytes,
//! taken at the start; the oldest make room for the newest.
//!
//! Nobody waits here: each thread writes to a shard of its own as long as there are enough, and whoever finds its shard
//! taken, by a reader say, leaves its decision out and is counted. Nothing is allocated for a decision, but for what is read
//! of a value with a `%` in it, and for the hash of one that opens something.

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

/// What a decision takes in the mean, its texts included; those that take more leave room for fewer.
const BYTES_EACH: usize = 420;
/// More threads than these share.
const MOST_SHARDS: usize = 8;

/// The last decisions.
#[derive(Debug, Default)]
pub struct DecisionRing {
    shards: Box<[RingShard]>,
}

/// On a cache line of its own: what one thread writes, no other reads.
#[derive(Debug)]
#[repr(align(128))]
struct RingShard {
    records: Mutex<Records>,
    missed: AtomicU64,
}

#[derive(Debug)]
struct Records {
    arena: Arena,
    /// A record is written here first: only then is it known how long it is.
    draft: Vec<u8>,
    /// How many there ever were.
    count: u64,
}

thread_local! {
    static THREAD_NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of this thread among all that ever decided.
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
    /// With room for so many; 0: none are kept.
    pub fn new(most: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self::with_shards(most, cores.min(MOST_SHARDS))
    }

    pub fn with_shards(most: usize, shards: usize) -> Self {
        if most == 0 {
            return Self::default();
        }
        let each = most.div_ceil(shards);
        // One that is as long as can be has room in any case.
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

    /// Writes a decision down.
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

    /// As the thread of this number.
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

    /// All that are there, copied: whoever decides waits for nobody, so nobody reads for long.
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

/// The ring at a moment.
#[derive(Debug)]
pub struct Snapshot {
    shards: Vec<ArenaCopy>,
    /// How many were left out since the start.
    pub missed: u64,
}

impl Snapshot {
    /// All of them, the newest first.
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

    /// From when on nothing has made room for others yet: before that, some threads' decisions are here, and some are not.
    pub fn whole_since(&self) -> Timestamp {
        let oldest = |copied: &ArenaCopy| {
            let times = copied.records().filter_map(|record| Some(record::begin(record)?.1));
            times.min().filter(|_| copied.has_evicted)
        };
        self.shards.iter().filter_map(oldest).max().unwrap_or_default()
    }
}

/// A decision that is there, not read yet.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'s> {
    pub at: Timestamp,
    pub id: u64,
    /// Where it was written: what stands in one is in the order of its decisions.
    pub shard: u64,
    record: &'s [u8],
}

impl<'s> RecordRef<'s> {
    pub fn read(&self) -> Option<DecisionRecord<'s>> {
        record::read(self.record)
    }
}
