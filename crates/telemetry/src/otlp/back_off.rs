//! Backoff after failures of a receiver: it doubles each time, up to a minute, with jitter, so that nodes do not all
//! retry at the same time.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Longest wait that a receiver can request.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// Consecutive failures.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    failures: u32,
    /// The wait that the receiver requested last.
    asked: Option<Duration>,
}

impl BackOff {
    /// Returns whether it had failed before.
    pub(super) fn record_success(&mut self) -> bool {
        std::mem::take(self).failures > 0
    }

    /// Returns whether it is the first consecutive failure.
    pub(super) fn record_failure(&mut self, asked: Option<Duration>) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.asked = asked.map(|asked| asked.min(LONGEST_ASKED));
        self.failures == 1
    }

    /// The wait before the next attempt; zero after a success.
    pub(super) fn pause(&self) -> Duration {
        self.pause_by(RandomState::new().build_hasher().finish())
    }

    fn pause_by(&self, chance: u64) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else { return Duration::ZERO };
        let longest = FIRST.saturating_mul(1 << doublings.min(6)).min(LONGEST);
        // Random within the upper half.
        let part = u32::try_from(chance % 1_001).unwrap_or(0);
        let spread = longest / 2 + longest / 2 * part / 1_000;
        spread.max(self.asked.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::{BackOff, LONGEST, LONGEST_ASKED};
    use std::time::Duration;

    // Fails when the pause is not bounded, or has no jitter.
    #[test]
    fn backoff_doubles_up_to_a_minute_and_success_resets_it() {
        let mut back_off = BackOff::default();
        assert_eq!(back_off.pause(), Duration::ZERO);
        assert!(!back_off.record_success());
        for (failure, seconds) in [1, 2, 4, 8, 16, 32, 60, 60, 60].into_iter().enumerate() {
            assert_eq!(back_off.record_failure(None), failure == 0);
            let longest = Duration::from_secs(seconds);
            assert_eq!(back_off.pause_by(0), longest / 2);
            assert_eq!(back_off.pause_by(1_000), longest);
        }
        assert!(back_off.pause_by(7) != back_off.pause_by(8), "two nodes come at two times");
        assert!(back_off.record_success());
        assert_eq!(back_off.pause(), Duration::ZERO);
        for _ in 0..100 {
            back_off.record_failure(None);
        }
        assert_eq!(back_off.pause_by(1_000), LONGEST);
    }

    #[test]
    fn backoff_honors_requested_wait_up_to_maximum() {
        let mut back_off = BackOff::default();
        back_off.record_failure(Some(Duration::from_secs(20)));
        assert_eq!(back_off.pause(), Duration::from_secs(20));
        back_off.record_failure(Some(Duration::from_secs(1 << 40)));
        assert_eq!(back_off.pause(), LONGEST_ASKED);
    }
}
