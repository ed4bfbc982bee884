//! Interners: short numbers for counters in frames. A key and its limit take 20 bytes and more, a number takes
//! one to three. Each direction between two generations has its own interner. An entry is written in full until
//! the other side acknowledges it, so frames may be lost or reordered. An interner has a number, and every
//! frame carries the number it was written with and how much of the other side's its sender has. So either side
//! may start a new one: because its interner is worn out, or because the other side has forgotten it.

use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use counter_ref::Bits;
use hashbrown::HashTable;
use hivemind_core::Limit;
use std::num::NonZeroU32;

mod counter_ref;

pub use counter_ref::CounterRef;

/// The most entries of an interner; further counters are written in full each time.
pub(crate) const MOST_ENTRIES: u32 = 65_536;

/// The most missing entries between two that have arrived, since frames may be reordered.
const MOST_GAP: usize = 4_096;

/// How many recent limits are searched for an equal one.
const RECENT_LIMITS: usize = 16;

/// There are two interners for each peer, so they grow by an eighth and do not double.
fn push_sparingly<T>(entries: &mut Vec<T>, entry: T) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact(16 + entries.len() / 8);
    }
    entries.push(entry);
}

/// The sender's side of an interner: what this node assigned for one peer.
#[derive(Clone, Debug)]
pub struct SendInterner {
    /// Its number: a generation numbers all interners that it creates, for all peers.
    number: u64,
    /// Ordered by their numbers.
    entries: Vec<InternedCounter>,
    /// The index of an entry by its hash.
    places: HashTable<u32>,
    /// The maximum number of entries.
    most: u32,
    /// The peer has acknowledged all entries below this one.
    known: u32,
    /// How many counters were written in full because there was no room for another entry.
    missed: u32,
}

/// A key, with a hash of the limit that its entry was created with: another limit is another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InternedCounter {
    key: Bits,
    limit: u32,
}

impl InternedCounter {
    /// A key's low half is a hash already (docs/decisions/006); the limit's hash moves it elsewhere.
    fn hash(&self) -> u64 {
        self.key.key().bits().1 ^ u64::from(self.limit)
    }
}

impl Default for SendInterner {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            places: HashTable::new(),
            most: MOST_ENTRIES,
            number: 0,
            known: 0,
            missed: 0,
        }
    }
}

impl SendInterner {
    /// A full interner, so that everything is written in full.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn full() -> Self {
        Self { most: 0, ..Self::default() }
    }

    /// The entry of a counter, created if it does not exist and there is room.
    fn entry(&mut self, counter: &CounterRef) -> Option<u32> {
        let Self { entries, places, most, .. } = self;
        let new = InternedCounter { key: Bits::of(counter.key), limit: counter.limit_hash() };
        let named = |entry: u32| usize::try_from(entry).ok().and_then(|place| entries.get(place));
        let known = places.find(new.hash(), |entry| named(*entry) == Some(&new));
        if let Some(entry) = known {
            return Some(*entry);
        }
        let entry = u32::try_from(entries.len()).ok().filter(|entry| entry < most)?;
        places.insert_unique(new.hash(), entry, |entry| named(*entry).map_or(0, InternedCounter::hash));
        push_sparingly(entries, new);
        Some(entry)
    }

    /// A worn-out interner.
    #[cfg(test)]
    pub(crate) fn wear_out(&mut self) {
        (self.most, self.missed) = (0, MOST_ENTRIES);
    }

    pub(crate) fn numbered(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether a new one would soon be shorter: keys come and go, and as many were written in full as it has
    /// entries.
    pub(crate) fn is_worn_out(&self) -> bool {
        self.missed >= MOST_ENTRIES
    }

    /// The peer acknowledges all entries below `known` of the interner `number`. Returns false if its newest
    /// frame acknowledges fewer than before: it has forgotten this one.
    pub(crate) fn acknowledge(&mut self, number: u64, known: u32, is_newest: bool) -> bool {
        let made = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let known = if number == self.number { known.min(made) } else { 0 };
        let is_kept = known >= self.known;
        self.known = self.known.max(known);
        is_kept || !is_newest
    }

    pub(crate) fn write(&mut self, counter: &CounterRef, writer: &mut WireWriter) {
        let Some(entry) = self.entry(counter) else {
            self.missed = self.missed.saturating_add(1);
            writer.number(0);
            return counter.write(writer);
        };
        let spelt_out = entry >= self.known;
        writer.number((u64::from(entry) << 1 | u64::from(spelt_out)) + 1);
        if spelt_out {
            counter.write(writer);
        }
    }
}

/// The receiver's side of an interner: what one peer assigned.
#[derive(Clone, Debug, Default)]
pub struct ReceiveInterner {
    /// Ordered by their numbers; missing entries have not arrived.
    entries: Vec<Option<InternedEntry>>,
    /// The limits of the entries. Mostly few; one may occur several times.
    limits: Vec<Limit>,
    known: u32,
    number: u64,
}

/// A counter whose limit is an index.
#[derive(Clone, Copy, Debug)]
struct InternedEntry {
    key: Bits,
    limit: NonZeroU32,
}

impl ReceiveInterner {
    /// Switches to the interner that a frame was written with. Returns false if it has switched to a later one
    /// before.
    pub(crate) fn turn_to(&mut self, number: u64) -> bool {
        if number > self.number {
            *self = Self { number, ..Self::default() };
        }
        number == self.number
    }

    /// The number of the peer's interner.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// All entries below this one have arrived.
    pub(crate) fn known(&self) -> u32 {
        self.known
    }

    fn counter(&self, place: usize) -> Option<CounterRef> {
        let InternedEntry { key, limit } = self.entries.get(place).copied().flatten()?;
        let limit = self.limits.get(usize::try_from(limit.get()).ok()? - 1)?;
        Some(CounterRef { key: key.key(), limit: *limit })
    }

    /// The index of a limit, starting at 1. Only the last ones are searched: a peer that invents a limit for
    /// each key pays with its own room.
    fn limit(&mut self, limit: &Limit) -> Option<NonZeroU32> {
        let recent = self.limits.len().saturating_sub(RECENT_LIMITS);
        let found = self.limits.iter().skip(recent).position(|known| known == limit);
        let place = found.map_or(self.limits.len(), |found| recent + found);
        if found.is_none() {
            self.limits.push(*limit);
        }
        NonZeroU32::new(u32::try_from(place).ok()?.checked_add(1)?)
    }

    pub(crate) fn read(&mut self, reader: &mut WireReader<'_>) -> Result<CounterRef, Unreadable> {
        let Some(name) = reader.number()?.checked_sub(1) else { return CounterRef::read(reader) };
        let entry = u32::try_from(name >> 1).map_err(|_| Unreadable)?;
        let place = usize::try_from(entry).map_err(|_| Unreadable)?;
        if name & 1 == 0 {
            return self.counter(place).ok_or(Unreadable);
        }
        let counter = CounterRef::read(reader)?;
        if entry >= MOST_ENTRIES {
            return Err(Unreadable);
        }
        // The first assignment counts: a peer that gives one number to two counters is rejected the second
        // time.
        if place > self.entries.len() + MOST_GAP {
            return Ok(counter); // Written in full, so it is understood; it is not worth the room between.
        }
        while self.entries.len() <= place {
            push_sparingly(&mut self.entries, None);
        }
        match self.counter(place) {
            Some(known) if known != counter => return Err(Unreadable),
            Some(_) => {}
            None => {
                let limit = self.limit(&counter.limit).ok_or(Unreadable)?;
                let entry = self.entries.get_mut(place).ok_or(Unreadable)?;
                *entry = Some(InternedEntry { key: Bits::of(counter.key), limit });
            }
        }
        while usize::try_from(self.known)
            .ok()
            .and_then(|next| self.entries.get(next))
            .is_some_and(Option::is_some)
        {
            self.known += 1;
        }
        Ok(counter)
    }
}
