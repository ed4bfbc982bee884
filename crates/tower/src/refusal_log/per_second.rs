//! How many lines all clients together are told in: a flood from as many addresses as there are lines
//! per client would else fill the disk that sampling spares.

use hivemind_core::Timestamp;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that is set back by more seconds than this begins anew; one that differs between two
/// threads by less does not.
const SET_BACK: u64 = 60;

pub(super) struct PerSecond {
    most: u64,
    /// The second and how many lines it has, as two halves of one word: both change in one step.
    now: AtomicU64,
    left_out: AtomicU64,
}

/// Whether there is room for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) is_there: bool,
    /// What was left out before, to be told with this line.
    pub(super) left_out: Option<(u64, Timestamp)>,
}

impl PerSecond {
    pub(super) fn new(most: NonZeroU32) -> Self {
        Self { most: most.get().into(), now: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Takes the room for a line, or counts that there was none.
    pub(super) fn take(&self, now: Timestamp) -> Room {
        let second = (now.as_nanos() / 1_000_000_000) & u64::from(u32::MAX);
        let mut held = self.now.load(Ordering::Relaxed);
        loop {
            let (of, lines) = (held >> 32, held & u64::from(u32::MAX));
            let is_new = second > of || of - second > SET_BACK;
            let next = match is_new {
                true => second << 32 | 1,
                false if lines < self.most => held + 1,
                false => {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                    return Room { is_there: false, left_out: None };
                }
            };
            match self.now.compare_exchange_weak(held, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if is_new => {
                    let since = Timestamp::from_millis(of * 1_000);
                    return Room { is_there: true, left_out: self.finish().map(|lines| (lines, since)) };
                }
                Ok(_) => return Room { is_there: true, left_out: None },
                Err(other) => held = other,
            }
        }
    }

    /// What was left out and is not told yet.
    pub(super) fn finish(&self) -> Option<u64> {
        Some(self.left_out.swap(0, Ordering::Relaxed)).filter(|lines| *lines > 0)
    }

    /// The second that lines are counted in.
    pub(super) fn since(&self) -> Timestamp {
        Timestamp::from_millis((self.now.load(Ordering::Relaxed) >> 32) * 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails with a second of before that begins anew.
    #[test]
    fn line_rate_bounds_each_second_and_reports_left_out_lines() {
        let rate = PerSecond::new(NonZeroU32::new(2).unwrap());
        for (millis, is_there, told) in [
            (100_000, true, None),
            (100_999, true, None),
            (100_999, false, None),
            (99_999, false, None), // Another thread's clock, read before.
            (101_000, true, Some((2, 100_000))),
            (101_001, true, None),
            (101_002, false, None),
            (20_000, true, Some((1, 101_000))), // The clock was set back.
        ] {
            let room = rate.take(Timestamp::from_millis(millis));
            let told = told.map(|(lines, since)| (lines, Timestamp::from_millis(since)));
            assert_eq!(room, Room { is_there, left_out: told }, "at {millis} ms");
        }
        assert_eq!(rate.finish(), None);
    }
}
