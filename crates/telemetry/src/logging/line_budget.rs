//! Line budget: the maximum of lines per second, so that a flood of decisions does not fill the disk.

use hivemind_core::Timestamp;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// If a clock was set back by more seconds than this, the budget restarts; smaller differences between threads are
/// ignored.
const SET_BACK: u64 = 60;

/// The number of lines of this second, and of omitted lines.
#[derive(Debug, Default)]
pub struct LineBudget {
    /// The second and its number of lines in one atomic word, so both change together.
    now: AtomicU64,
    omitted: AtomicU64,
}

impl LineBudget {
    /// Takes one line from the budget, or counts an omitted line.
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

    /// Takes the number of lines omitted since the last call.
    pub fn take_omitted(&self) -> u64 {
        self.omitted.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_limits_lines_per_second_and_refills() {
        let (room, most) = (LineBudget::default(), NonZeroU32::new(2).unwrap());
        for (ms, has_room) in [
            (100_000, true),
            (100_500, true),
            (100_999, false),
            // A thread whose clock is slightly behind counts in the same second.
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
