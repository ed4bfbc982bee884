//! Arena: records of variable length in a fixed number of bytes. New records replace the oldest; no record is split.

use std::collections::VecDeque;
use std::ops::Range;

#[derive(Debug)]
pub(super) struct Arena {
    bytes: Box<[u8]>,
    /// Offsets of the records, oldest first; they wrap around up to `head`.
    slots: VecDeque<Range<usize>>,
    most: usize,
    head: usize,
    /// Whether a record has been dropped so far.
    has_evicted: bool,
}

impl Arena {
    pub(super) fn new(most: usize, bytes: usize) -> Self {
        let (bytes, slots) = (vec![0; bytes].into(), VecDeque::with_capacity(most));
        Self { bytes, slots, most, head: 0, has_evicted: false }
    }

    /// Stores a record, unless it is longer than the arena.
    pub(super) fn push(&mut self, record: &[u8]) {
        if record.is_empty() || record.len() > self.bytes.len() || self.most == 0 {
            self.has_evicted = true;
            return;
        }
        let is_at_end = record.len() > self.bytes.len() - self.head;
        let start = if is_at_end { 0 } else { self.head };
        let place = start..start + record.len();
        while let Some(oldest) = self.slots.front() {
            let is_in_the_way = oldest.start < place.end && place.start < oldest.end;
            // Records in the skipped end are older than those at the beginning.
            let is_passed_over = is_at_end && oldest.start >= self.head;
            if !is_in_the_way && !is_passed_over && self.slots.len() < self.most {
                break;
            }
            self.slots.pop_front();
            self.has_evicted = true;
        }
        if let Some(room) = self.bytes.get_mut(place.clone()) {
            room.copy_from_slice(record);
            self.head = place.end;
            self.slots.push_back(place);
        }
    }

    /// All records, oldest first.
    pub(super) fn snapshot(&self) -> ArenaCopy {
        let mut bytes = Vec::with_capacity(self.slots.iter().map(ExactSizeIterator::len).sum());
        let mut ends = Vec::with_capacity(self.slots.len());
        for record in self.slots.iter().filter_map(|slot| self.bytes.get(slot.clone())) {
            bytes.extend_from_slice(record);
            ends.push(bytes.len());
        }
        ArenaCopy { bytes, ends, has_evicted: self.has_evicted }
    }
}

/// A snapshot of an arena.
#[derive(Debug)]
pub(super) struct ArenaCopy {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    pub(super) has_evicted: bool,
}

impl ArenaCopy {
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }
}
