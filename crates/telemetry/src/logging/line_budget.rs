//! The most lines in a second: a flood of decisions must not fill the disk.

use hivemind_core::Timestamp;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that is set back by more seconds than this begins anew; one that differs between two
/// threads by less does not.
const SET_BACK: u64 = 60;

/// How many lines this second has, and how many were left out.
#[derive(Debug, Default)]
pub struct LineBudget {
    /// The second and how many lines it has, as two halves of one word: both change in one step.
    now: AtomicU64,
    omitted: AtomicU64,
}

impl LineBudget {
    /// Takes the room for a line, or counts that there was none.
    pub fn take(&self, most: NonZeroU32, now: Timestamp) -> bool {
        let second = (now.as_nanos() / 1_000_000_000) & u64::from(u32::MAX);
        let mut held = self.now.load(Ordering::Relaxed);
        loop {
            let (of, lines) = (held >> 32, held & u64::from(u32::MAX));
            let next = if second > of || of - second > SET_BACK {
                second << 32 | 1
            } else if lines < u64::from(most.get()) {
                held + 1
            } else {
                self.omitted.fetch_add(1, Ordering::Relaxed);
                return false;
            };
            match self.now.compare_exchange_weak(held, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => held = other,
            }
        }
    }

    /// How many were left out since this was last asked.
    pub fn take_omitted(&self) -> u64 {
        self.omitted.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_lines_and_the_next_one_as_many_again() {
        let (room, most) = (LineBudget::default(), NonZeroU32::new(2).unwrap());
        for (ms, has_room) in [
            (100_000, true),
            (100_500, true),
            (100_999, false),
            // A thread whose clock is a little behind belongs to the same second.
            (99_900, false),
            (101_000, true),
            (101_001, true),
            (101_002, false),
            (1_000, true),
        ] {
            assert_eq!(room.take(most, Timestamp::from_millis(ms)), has_room, "at {ms} ms");
        }
        assert_eq!((room.take_omitted(), room.take_omitted()), (3, 0));
    }
}
