//! Shared buckets for the keys that found the table full of limited clients. A new
//! client shares one of them with a few strangers, by hash: it may be refused a
//! little early, nobody is admitted too often, and no limited client is forgotten.

use crate::algorithm::{Action, State, Step, step};
use crate::key::Key;
use crate::limit::Limit;
use crate::time::Timestamp;
use crate::verdict::Cost;
use std::hash::{Hash, Hasher};

/// Slots looked at before the overflow counts as full.
const PROBES: usize = 16;

#[derive(Clone, Copy)]
struct Slot {
    shape: u64,
    state: State,
    blank_at: Timestamp,
}

/// The shared buckets of one shard.
pub(super) struct Overflow(Box<[Option<Slot>]>);

enum Place {
    Shared(usize),
    Vacant(usize),
    /// Every slot in reach belongs to limits of another kind.
    Full,
}

impl Overflow {
    pub(super) fn new(slots: usize) -> Self {
        Self(vec![None; slots.max(1)].into_boxed_slice())
    }

    /// What `key` has to build on here.
    pub(super) fn read(&self, key: Key, limit: &Limit, now: Timestamp) -> Option<State> {
        match self.place(key, limit, now) {
            Place::Shared(index) => self.slot(index).map(|slot| slot.state),
            Place::Vacant(_) => None,
            Place::Full => Some(exhausted(limit, now)),
        }
    }

    pub(super) fn write(&mut self, key: Key, limit: &Limit, made: &Step, now: Timestamp) {
        if let Place::Shared(index) | Place::Vacant(index) = self.place(key, limit, now)
            && let Some(slot) = self.0.get_mut(index)
        {
            *slot = Some(Slot { shape: shape(limit), state: made.state, blank_at: made.blank_at });
        }
    }

    fn place(&self, key: Key, limit: &Limit, now: Timestamp) -> Place {
        let shape = shape(limit);
        let home = usize::try_from((key.bits().1 ^ shape) % self.0.len() as u64).unwrap_or(0);
        let near = (0..PROBES.min(self.0.len())).map(|step| (home + step) % self.0.len());
        let is_live = |index| self.slot(index).is_some_and(|slot| slot.blank_at > now);
        if let Some(shared) = near
            .clone()
            .take_while(|index| is_live(*index))
            .find(|index| self.slot(*index).is_some_and(|slot| slot.shape == shape))
        {
            return Place::Shared(shared);
        }
        near.into_iter().find(|index| !is_live(*index)).map_or(Place::Full, Place::Vacant)
    }

    fn slot(&self, index: usize) -> Option<&Slot> {
        self.0.get(index).and_then(Option::as_ref)
    }
}

/// States may be shared only by limits that read them alike: windows of one
/// algorithm and period, buckets of one rate and burst.
fn shape(limit: &Limit) -> u64 {
    let mut hasher = siphasher::sip::SipHasher13::new();
    std::mem::discriminant(limit).hash(&mut hasher);
    limit.period().hash(&mut hasher);
    if let Limit::TokenBucket(bucket) = limit {
        bucket.hash(&mut hasher);
    }
    hasher.finish()
}

/// The state of a counter whose whole budget is spent: with no room left even
/// here, a new key waits rather than being admitted unseen.
fn exhausted(limit: &Limit, now: Timestamp) -> State {
    step(limit, None, Action::Debit, Cost::new(u64::from(limit.burst())), now).state
}
