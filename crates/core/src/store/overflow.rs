//! Shared overflow buckets for keys that arrive while the table is full of limited
//! clients. A new client shares one of them with a few others, by hash: it may be refused
//! slightly early, no client is admitted too often, and no limited client is evicted.

use crate::algorithm::{Action, State, Step, step, stricter};
use crate::key::Key;
use crate::limit::Limit;
use crate::time::Timestamp;
use crate::verdict::Cost;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Slots probed before the overflow counts as full.
const PROBES: usize = 16;

#[derive(Clone, Copy)]
struct Slot {
    shape: u64,
    state: State,
    blank_at: Timestamp,
}

/// The shared buckets of one shard.
pub(super) struct Overflow(Box<[Option<Slot>]>);

impl Overflow {
    pub(super) fn new(slots: usize) -> Self {
        Self(vec![None; slots.max(1)].into_boxed_slice())
    }

    /// The state that `key` continues from: the strictest of all buckets of its shape in
    /// reach. Its own bucket may be any of them, because slots before it become vacant and
    /// are reused.
    pub(super) fn read(&self, key: Key, limit: &Limit, now: Timestamp) -> Option<State> {
        let alike = self.alike(key, limit, now).map(|(_, slot)| slot.state);
        alike.reduce(|one, other| stricter(limit, one, other, now)).or_else(|| {
            let full = self.vacant(key, limit, now).is_none();
            full.then(|| exhausted(limit, now))
        })
    }

    /// Records the step of `key` on the state it read. Costs recorded meanwhile are kept:
    /// those of another key in the same batch, or those before a refund.
    pub(super) fn write(&mut self, key: Key, limit: &Limit, made: &Step, now: Timestamp) {
        let (index, state) = match self.alike(key, limit, now).next() {
            Some((index, slot)) => (Some(index), stricter(limit, slot.state, made.state, now)),
            None => (self.vacant(key, limit, now), made.state),
        };
        let blank_at = step(limit, Some(state), Action::Peek, Cost::ZERO, now).blank_at;
        if let Some(slot) = index.and_then(|index| self.0.get_mut(index)) {
            *slot = Some(Slot { shape: shape(limit), state, blank_at });
        }
    }

    fn alike(&self, key: Key, limit: &Limit, now: Timestamp) -> impl Iterator<Item = (usize, &Slot)> {
        let shape = shape(limit);
        let live = self.reach(key, shape).filter_map(move |index| Some((index, self.live(index, now)?)));
        live.filter(move |(_, slot)| slot.shape == shape)
    }

    fn vacant(&self, key: Key, limit: &Limit, now: Timestamp) -> Option<usize> {
        self.reach(key, shape(limit)).find(|index| self.live(*index, now).is_none())
    }

    fn reach(&self, key: Key, shape: u64) -> impl Iterator<Item = usize> + use<> {
        let slots = self.0.len();
        let home = usize::try_from((key.bits().1 ^ shape) % slots as u64).unwrap_or(0);
        (0..PROBES.min(slots)).map(move |step| (home + step) % slots)
    }

    fn live(&self, index: usize, now: Timestamp) -> Option<&Slot> {
        self.0.get(index).and_then(Option::as_ref).filter(|slot| slot.blank_at > now)
    }
}

/// Identifies limits that may share a state: windows of one algorithm and period, or
/// buckets of one rate and burst.
fn shape(limit: &Limit) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(limit).hash(&mut hasher);
    limit.period().hash(&mut hasher);
    if let Limit::TokenBucket(bucket) = limit {
        bucket.hash(&mut hasher);
    }
    hasher.finish()
}

/// The state of a counter whose whole budget is spent: without room even here, a new key
/// waits rather than being admitted uncounted.
fn exhausted(limit: &Limit, now: Timestamp) -> State {
    step(limit, None, Action::Debit, Cost::new(u64::from(limit.burst())), now).state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Period;

    fn spend(overflow: &mut Overflow, key: Key, limit: &Limit, at_ms: u64) -> bool {
        let now = Timestamp::from_millis(at_ms);
        let cost = Cost::new(u64::from(limit.burst()));
        let made =
            step(limit, overflow.read(key, limit, now), Action::Spend { count_refusal: false }, cost, now);
        overflow.write(key, limit, &made, now);
        made.verdict.is_admitted()
    }

    // Fails when the search for a shared bucket ends at a vacant slot.
    #[test]
    fn overflow_finds_bucket_behind_vacant_slot() {
        let (short, long) = (Limit::fixed_window(5, Period::SECOND), Limit::fixed_window(5, Period::DAY));
        for low in 0..4 {
            let mut overflow = Overflow::new(2);
            let (first, second) = (Key::from_bits(0, low), Key::from_bits(1, low));
            assert!(spend(&mut overflow, first, &short, 0) && spend(&mut overflow, second, &long, 0));
            // The short window has ended, the long one has not.
            for key in [second, Key::from_bits(2, low ^ 1), second] {
                assert!(!spend(&mut overflow, key, &long, 1_000), "{key:?} shares a spent bucket");
            }
        }
    }

    // Fails when a key without a slot in reach is decided as a new one.
    #[test]
    fn overflow_without_free_slot_refuses_new_key() {
        let mut overflow = Overflow::new(1);
        let key = Key::from_bits(0, 0);
        assert!(spend(&mut overflow, key, &Limit::fixed_window(5, Period::DAY), 0));
        assert!(!spend(&mut overflow, key, &Limit::fixed_window(5, Period::HOUR), 0));
    }
}
