//! Encoding of a counter's state in Redis: 17 bytes, in limbs of 21 bits with which the script can compute
//! exactly. A window is stored by its start and not by its number, so the script usually needs no division.

use hivemind_core::algorithm::State;
use hivemind_core::{Limit, Timestamp};

/// Bytes of a state.
pub(crate) const STATE_BYTES: usize = 17;
/// Bytes of a time.
pub(crate) const TIME_BYTES: usize = 9;

const LIMB_BITS: u32 = 21;
const LIMB: u64 = (1 << LIMB_BITS) - 1;

/// A time in 63 bits, which reaches until the year 2262; later times are clamped.
pub(crate) fn limbs(nanos: u64) -> [u8; TIME_BYTES] {
    let nanos = nanos.min(u64::MAX >> 1);
    let parted = (nanos >> (2 * LIMB_BITS) & LIMB) << 48 | (nanos >> LIMB_BITS & LIMB) << 24 | nanos & LIMB;
    let mut limbs = [0; TIME_BYTES];
    // The highest byte of all is 0: the highest limb has 21 bits, of which 16 are in these 8 bytes.
    let [first, rest @ ..] = &mut limbs;
    *first = u8::try_from(nanos >> 58).unwrap_or(0);
    *rest = parted.to_be_bytes();
    limbs
}

pub(crate) fn from_limbs([first, rest @ ..]: [u8; TIME_BYTES]) -> u64 {
    let parted = u64::from_be_bytes(rest);
    let highest = u64::from(first) << 16 | parted >> 48;
    (highest & LIMB) << (2 * LIMB_BITS) | (parted >> 24 & LIMB) << LIMB_BITS | parted & LIMB
}

/// Decodes a state under `limit`.
pub(crate) fn from_bytes(limit: &Limit, bytes: [u8; STATE_BYTES]) -> State {
    let (time, count) = bytes.split_at(TIME_BYTES);
    let since = from_limbs(time.try_into().unwrap_or_default());
    let count = count.try_into().unwrap_or_default();
    let since = match limit {
        Limit::TokenBucket(_) => since,
        _ => since / period_nanos(limit),
    };
    State::from_bits(since, u64::from_be_bytes(count))
}

/// The start of a state's window as limbs; for a bucket, the time of its last refill.
pub(crate) fn beginning(limit: &Limit, state: State) -> [u8; TIME_BYTES] {
    let (since, _) = state.bits();
    limbs(match limit {
        Limit::TokenBucket(_) => since,
        _ => since.saturating_mul(period_nanos(limit)),
    })
}

/// A window's state without `units` that were taken from the window with this start; the script does the same.
pub(crate) fn undone(limit: &Limit, state: State, units: u64, began: [u8; TIME_BYTES]) -> State {
    let (window, count) = state.bits();
    let taken_from = from_limbs(began) / period_nanos(limit);
    match limit {
        Limit::FixedWindow(_) if window == taken_from => {
            State::from_bits(window, count.saturating_sub(units))
        }
        Limit::SlidingWindow(_) if window == taken_from => {
            let (last, current) = (count >> 32, count & u64::from(u32::MAX));
            State::from_bits(window, last << 32 | current.saturating_sub(units))
        }
        Limit::SlidingWindow(_) if window == taken_from.saturating_add(1) => {
            let (last, current) = (count >> 32, count & u64::from(u32::MAX));
            State::from_bits(window, last.saturating_sub(units) << 32 | current)
        }
        _ => state,
    }
}

/// The period of a window in nanoseconds, which is never 0.
pub(crate) fn period_nanos(limit: &Limit) -> u64 {
    u64::try_from(limit.period().length().as_nanos()).unwrap_or(u64::MAX)
}

/// The time at which the script decided.
pub(crate) fn moment(bytes: [u8; TIME_BYTES]) -> Timestamp {
    Timestamp::from_nanos(from_limbs(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn timestamp_limbs_round_trip(nanos in 0..=u64::MAX >> 1) {
            prop_assert_eq!(from_limbs(limbs(nanos)), nanos);
        }
    }

    #[test]
    fn limbs_have_21_bits_highest_first() {
        assert_eq!(limbs(1), [0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(limbs(1 << 21), [0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(limbs(u64::MAX), [0x1f, 0xff, 0xff, 0x1f, 0xff, 0xff, 0x1f, 0xff, 0xff]);
    }
}
