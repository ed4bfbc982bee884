//! Line rate: the bound on lines per second of all clients together. A flood from many addresses would
//! otherwise fill the disk despite the sampling per client.

use hivemind_core::Timestamp;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds. A clock that steps back further starts a new second; a smaller difference is one between threads.
const MAX_CLOCK_SKEW: u64 = 60;

pub(super) struct LineRate {
    max: u64,
    /// The second and its number of lines in the two halves of one word, so that both change atomically.
    now: AtomicU64,
    left_out: AtomicU64,
}

/// Whether a line may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinePermit {
    pub(super) is_granted: bool,
    /// Lines left out before, to be reported with this line.
    pub(super) left_out: Option<(u64, Timestamp)>,
}

impl LineRate {
    pub(super) fn new(max: NonZeroU32) -> Self {
        Self { max: max.get().into(), now: AtomicU64::new(0), left_out: AtomicU64::new(0) }
    }

    /// Grants a line, or counts it as left out.
    pub(super) fn acquire(&self, now: Timestamp) -> LinePermit {
        let second = (now.as_nanos() / 1_000_000_000) & u64::from(u32::MAX);
        let mut held = self.now.load(Ordering::Relaxed);
        loop {
            let (of, lines) = (held >> 32, held & u64::from(u32::MAX));
            let is_new = second > of || of - second > MAX_CLOCK_SKEW;
            let next = match is_new {
                true => second << 32 | 1,
                false if lines < self.max => held + 1,
                false => {
                    self.left_out.fetch_add(1, Ordering::Relaxed);
                    return LinePermit { is_granted: false, left_out: None };
                }
            };
            match self.now.compare_exchange_weak(held, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if is_new => {
                    let since = Timestamp::from_millis(of * 1_000);
                    return LinePermit {
                        is_granted: true,
                        left_out: self.drain().map(|lines| (lines, since)),
                    };
                }
                Ok(_) => return LinePermit { is_granted: true, left_out: None },
                Err(other) => held = other,
            }
        }
    }

    /// Takes the number of lines that were left out and not reported yet.
    pub(super) fn drain(&self) -> Option<u64> {
        Some(self.left_out.swap(0, Ordering::Relaxed)).filter(|lines| *lines > 0)
    }

    /// The current second.
    pub(super) fn since(&self) -> Timestamp {
        Timestamp::from_millis((self.now.load(Ordering::Relaxed) >> 32) * 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when an earlier second restarts the count.
    #[test]
    fn line_rate_bounds_each_second_and_reports_left_out_lines() {
        let rate = LineRate::new(NonZeroU32::new(2).unwrap());
        for (millis, is_granted, left_out) in [
            (100_000, true, None),
            (100_999, true, None),
            (100_999, false, None),
            (99_999, false, None), // The clock of another thread, read earlier.
            (101_000, true, Some((2, 100_000))),
            (101_001, true, None),
            (101_002, false, None),
            (20_000, true, Some((1, 101_000))), // The clock was set back.
        ] {
            let permit = rate.acquire(Timestamp::from_millis(millis));
            let left_out = left_out.map(|(lines, since)| (lines, Timestamp::from_millis(since)));
            assert_eq!(permit, LinePermit { is_granted, left_out }, "at {millis} ms");
        }
        assert_eq!(rate.drain(), None);
    }
}
