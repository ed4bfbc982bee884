//! Short names for what frames speak of: a key and its limit are 20 bytes and more, a number
//! in a dictionary is one to three. Each direction between two runs has a dictionary of its
//! own. An entry is spelt out until the other side says that it has it, so frames may be lost
//! and overtake each other.

use crate::shelf::KeyMap;
use crate::wire::{Reader, Unreadable, Writer};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::time::Duration;

/// The most entries of a dictionary; what comes after them is spelt out each time.
pub(crate) const MOST_ENTRIES: u32 = 65_536;

/// So many entries may be missing between two that have come, since frames overtake each other.
const MOST_GAP: usize = 4_096;

/// So many limits are looked at for one that is there already.
const RECENT_LIMITS: usize = 16;

/// What a frame speaks of: a counter and what it may admit, as the sender has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) key: Key,
    pub(crate) limit: Limit,
}

impl Subject {
    fn limit_hash(&self) -> u32 {
        let mut hasher = SipHasher13::new();
        self.limit.hash(&mut hasher);
        let hash = hasher.finish();
        u32::try_from(hash >> 32).unwrap_or(0)
    }

    fn write(&self, writer: &mut Writer) {
        let (high, low) = self.key.bits();
        writer.fixed(high);
        writer.fixed(low);
        let nanos = u64::try_from(self.limit.period().length().as_nanos()).unwrap_or(u64::MAX);
        let whole = nanos.is_multiple_of(1_000_000_000);
        let kind = match self.limit {
            Limit::TokenBucket(_) => 0,
            Limit::SlidingWindow(_) => 2,
            _ => 1,
        };
        writer.byte(kind << 1 | u8::from(whole));
        writer.number(u64::from(self.limit.requests()));
        writer.number(if whole { nanos / 1_000_000_000 } else { nanos });
        if kind == 0 {
            writer.number(u64::from(self.limit.burst()));
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Unreadable> {
        let key = Key::from_bits(reader.fixed()?, reader.fixed()?);
        let kind = reader.byte()?;
        let requests = u32::try_from(reader.number()?).map_err(|_| Unreadable)?;
        let unit = if kind & 1 == 1 { 1_000_000_000 } else { 1 };
        let nanos = reader.number()?.checked_mul(unit).ok_or(Unreadable)?;
        let period = Period::new(Duration::from_nanos(nanos)).map_err(|_| Unreadable)?;
        let limit = match kind >> 1 {
            0 => {
                let burst = u32::try_from(reader.number()?).map_err(|_| Unreadable)?;
                let rate = Rate::new(requests, period).map_err(|_| Unreadable)?;
                Limit::token_bucket(rate, burst).map_err(|_| Unreadable)?
            }
            1 => Limit::fixed_window(requests, period),
            2 => Limit::sliding_window(requests, period),
            _ => return Err(Unreadable),
        };
        Ok(Self { key, limit })
    }
}

/// What this node calls things towards one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spoken {
    /// The entry of a key, and a hash of the limit that it was made with: another limit is another entry.
    entries: KeyMap<(u32, u32)>,
    next: u32,
    /// All entries below this one are known to the peer.
    known: u32,
}

impl Spoken {
    /// One that is full, so that everything is spelt out.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn full() -> Self {
        Self { next: MOST_ENTRIES, ..Self::default() }
    }

    /// The peer says that it has all entries below `known`.
    pub(crate) fn acknowledge(&mut self, known: u32) {
        self.known = self.known.max(known.min(self.next));
    }

    pub(crate) fn write(&mut self, subject: &Subject, writer: &mut Writer) {
        let limit = subject.limit_hash();
        let known = self.entries.get(&subject.key).filter(|(_, made_with)| *made_with == limit);
        let entry = match known {
            Some((entry, _)) => *entry,
            None if self.next < MOST_ENTRIES => {
                self.entries.insert(subject.key, (self.next, limit));
                self.next += 1;
                self.next - 1
            }
            None => {
                writer.number(0);
                return subject.write(writer);
            }
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
pub(crate) struct Heard {
    /// In the order of their numbers; those that have not come are not there.
    entries: Vec<Option<Entry>>,
    /// The limits that entries have. Few, mostly; one may be there several times.
    limits: Vec<Limit>,
    known: u32,
}

/// A subject whose limit is named by its place.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    limit: NonZeroU32,
}

impl Heard {
    /// All entries below this one have come.
    pub(crate) fn known(&self) -> u32 {
        self.known
    }

    fn subject(&self, place: usize) -> Option<Subject> {
        let Entry { key, limit } = self.entries.get(place).copied().flatten()?;
        let limit = self.limits.get(usize::try_from(limit.get()).ok()? - 1)?;
        Some(Subject { key, limit: *limit })
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
        if self.entries.len() <= place {
            self.entries.resize(place + 1, None);
        }
        match self.subject(place) {
            Some(known) if known != subject => return Err(Unreadable),
            Some(_) => {}
            None => {
                let limit = self.limit(&subject.limit).ok_or(Unreadable)?;
                let entry = self.entries.get_mut(place).ok_or(Unreadable)?;
                *entry = Some(Entry { key: subject.key, limit });
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
