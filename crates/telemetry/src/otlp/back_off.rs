//! How long to leave a receiver alone that has failed: twice as long each time, up to a minute, and never the same
//! for two nodes, so that a receiver that comes back is not met by all at once.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// The most that a receiver may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// The failures in a row.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    failures: u32,
    /// What the receiver asked for the last time.
    asked: Option<Duration>,
}

impl BackOff {
    /// Says whether it had failed before.
    pub(super) fn record_success(&mut self) -> bool {
        std::mem::take(self).failures > 0
    }

    /// Says whether it is the first time in a row.
    pub(super) fn record_failure(&mut self, asked: Option<Duration>) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.asked = asked.map(|asked| asked.min(LONGEST_ASKED));
        self.failures == 1
    }

    /// How long to wait before the next time; zero unless it has failed.
    pub(super) fn pause(&self) -> Duration {
        self.pause_by(RandomState::new().build_hasher().finish())
    }

    fn pause_by(&self, chance: u64) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else { return Duration::ZERO };
        let longest = FIRST.saturating_mul(1 << doublings.min(6)).min(LONGEST);
        // Anywhere in the upper half: at least half as long as the last time, and spread out.
        let part = u32::try_from(chance % 1_001).unwrap_or(0);
        let spread = longest / 2 + longest / 2 * part / 1_000;
        spread.max(self.asked.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::{BackOff, LONGEST, LONGEST_ASKED};
    use std::time::Duration;

    // Seen failing on: a pause that is not bounded, and one without chance.
    #[test]
    fn each_failure_doubles_the_pause_up_to_a_minute_and_a_success_ends_it() {
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
    fn a_receiver_is_left_alone_for_as_long_as_it_asks_but_not_for_ever() {
        let mut back_off = BackOff::default();
        back_off.record_failure(Some(Duration::from_secs(20)));
        assert_eq!(back_off.pause(), Duration::from_secs(20));
        back_off.record_failure(Some(Duration::from_secs(1 << 40)));
        assert_eq!(back_off.pause(), LONGEST_ASKED);
    }
}
