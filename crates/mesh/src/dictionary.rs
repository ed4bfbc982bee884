//! Short names for what frames speak of: a key and its limit are 20 bytes and more, a number
//! in a dictionary is one to three. Each direction between two runs has a dictionary of its
//! own. An entry is spelt out until the other side says that it has it, so frames may be lost
//! and overtake each other. A dictionary has a number, and every frame says with which one it
//! was written and how much of the other side's its sender has. So either side may begin anew:
//! because its dictionary is worn out, or because the other one has forgotten it.

use crate::wire::{Reader, Unreadable, Writer};
use hashbrown::HashTable;
use hivemind_core::Limit;
use std::num::NonZeroU32;
use subject::Bits;

mod subject;

pub use subject::Subject;

/// The most entries of a dictionary; what comes after them is spelt out each time.
pub(crate) const MOST_ENTRIES: u32 = 65_536;

/// So many entries may be missing between two that have come, since frames overtake each other.
const MOST_GAP: usize = 4_096;

/// So many limits are looked at for one that is there already.
const RECENT_LIMITS: usize = 16;

/// There are two dictionaries for each peer, so they grow by an eighth and not by their double.
fn push_sparingly<T>(entries: &mut Vec<T>, entry: T) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact(16 + entries.len() / 8);
    }
    entries.push(entry);
}

/// What this node calls things towards one peer.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// Its number: a run numbers all that it begins, for whomever they are.
    number: u64,
    /// In the order of their numbers.
    entries: Vec<Named>,
    /// Where to find which of them.
    places: HashTable<u32>,
    /// No more are made from here on.
    most: u32,
    /// All entries below this one are known to the peer.
    known: u32,
    /// How much was spelt out because there was no room for another entry.
    missed: u32,
}

/// A key, with a hash of the limit that its entry was made with: another limit is another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    key: Bits,
    limit: u32,
}

impl Named {
    /// A key's low half is a hash already (docs/decisions/006); a limit's moves it elsewhere.
    fn hash(&self) -> u64 {
        self.key.key().bits().1 ^ u64::from(self.limit)
    }
}

impl Default for Spoken {
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

impl Spoken {
    /// One that is full, so that everything is spelt out.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn full() -> Self {
        Self { most: 0, ..Self::default() }
    }

    /// The entry of a subject, which is made if there is none and there may be one more.
    fn entry(&mut self, subject: &Subject) -> Option<u32> {
        let Self { entries, places, most, .. } = self;
        let new = Named { key: Bits::of(subject.key), limit: subject.limit_hash() };
        let named = |entry: u32| usize::try_from(entry).ok().and_then(|place| entries.get(place));
        let known = places.find(new.hash(), |entry| named(*entry) == Some(&new));
        if let Some(entry) = known {
            return Some(*entry);
        }
        let entry = u32::try_from(entries.len()).ok().filter(|entry| entry < most)?;
        places.insert_unique(new.hash(), entry, |entry| named(*entry).map_or(0, Named::hash));
        push_sparingly(entries, new);
        Some(entry)
    }

    /// One that everything was written into already.
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

    /// Whether another one would soon be shorter: keys come and go, and as much was spelt out as it has entries.
    pub(crate) fn is_worn_out(&self) -> bool {
        self.missed >= MOST_ENTRIES
    }

    /// The peer says that it has all entries below `known` of the dictionary of this number. Says no if its newest
    /// frame says that it has fewer than it had: it has forgotten this one.
    pub(crate) fn acknowledge(&mut self, number: u64, known: u32, is_newest: bool) -> bool {
        let made = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let known = if number == self.number { known.min(made) } else { 0 };
        let is_kept = known >= self.known;
        self.known = self.known.max(known);
        is_kept || !is_newest
    }

    pub(crate) fn write(&mut self, subject: &Subject, writer: &mut Writer) {
        let Some(entry) = self.entry(subject) else {
            self.missed = self.missed.saturating_add(1);
            writer.number(0);
            return subject.write(writer);
        };
        let spelt_out = entry >= self.known;
        writer.number((u64::from(entry) << 1 | u64::from(spelt_out)) + 1);
        if spelt_out {
            subject.write(writer);
        }
    }
}

/// What one peer calls things.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// In the order of their numbers; those that have not come are not there.
    entries: Vec<Option<Entry>>,
    /// The limits that entries have. Few, mostly; one may be there several times.
    limits: Vec<Limit>,
    known: u32,
    number: u64,
}

/// A subject whose limit is named by its place.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Bits,
    limit: NonZeroU32,
}

impl Heard {
    /// Turns to the dictionary that a frame was written with. Says no if it has turned to a later one before.
    pub(crate) fn turn_to(&mut self, number: u64) -> bool {
        if number > self.number {
            *self = Self { number, ..Self::default() };
        }
        number == self.number
    }

    /// The number of the peer's dictionary that this is.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// All entries below this one have come.
    pub(crate) fn known(&self) -> u32 {
        self.known
    }

    fn subject(&self, place: usize) -> Option<Subject> {
        let Entry { key, limit } = self.entries.get(place).copied().flatten()?;
        let limit = self.limits.get(usize::try_from(limit.get()).ok()? - 1)?;
        Some(Subject { key: key.key(), limit: *limit })
    }

    /// The place of a limit, from 1 on. It is looked for among the last ones only: a peer that makes up
    /// a limit for each key pays with its own room.
    fn limit(&mut self, limit: &Limit) -> Option<NonZeroU32> {
        let recent = self.limits.len().saturating_sub(RECENT_LIMITS);
        let found = self.limits.iter().skip(recent).position(|known| known == limit);
        let place = found.map_or(self.limits.len(), |found| recent + found);
        if found.is_none() {
            self.limits.push(*limit);
        }
        NonZeroU32::new(u32::try_from(place).ok()?.checked_add(1)?)
    }

    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Result<Subject, Unreadable> {
        let Some(name) = reader.number()?.checked_sub(1) else { return Subject::read(reader) };
        let entry = u32::try_from(name >> 1).map_err(|_| Unreadable)?;
        let place = usize::try_from(entry).map_err(|_| Unreadable)?;
        if name & 1 == 0 {
            return self.subject(place).ok_or(Unreadable);
        }
        let subject = Subject::read(reader)?;
        if entry >= MOST_ENTRIES {
            return Err(Unreadable);
        }
        // The first word stands: a peer that gives one name to two things is not believed the second time.
        if place > self.entries.len() + MOST_GAP {
            return Ok(subject); // Spelt out, so it is understood; it is not worth the room between.
        }
        while self.entries.len() <= place {
            push_sparingly(&mut self.entries, None);
        }
        match self.subject(place) {
            Some(known) if known != subject => return Err(Unreadable),
            Some(_) => {}
            None => {
                let limit = self.limit(&subject.limit).ok_or(Unreadable)?;
                let entry = self.entries.get_mut(place).ok_or(Unreadable)?;
                *entry = Some(Entry { key: Bits::of(subject.key), limit });
            }
        }
        while usize::try_from(self.known)
            .ok()
            .and_then(|next| self.entries.get(next))
            .is_some_and(Option::is_some)
        {
            self.known += 1;
        }
        Ok(subject)
    }
}
