//! Random identifiers. They need not be unpredictable, but must be unique across a fleet: each thread has a random seed
//! of 128 bits.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

thread_local! {
    static STATE: (Cell<u64>, Cell<u64>) = (begins(), begins());
}

fn begins() -> Cell<u64> {
    Cell::new(RandomState::new().hash_one(0_u8))
}

/// Steele, Lea and Flood's `SplitMix64`.
fn step(state: &Cell<u64>) -> u64 {
    let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    state.set(next);
    let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

pub(super) fn bits_64() -> u64 {
    STATE.with(|(state, _)| step(state))
}

pub(super) fn bits_128() -> u128 {
    STATE.with(|(high, low)| u128::from(step(high)) << 64 | u128::from(step(low)))
}
