//! Which comings and goings of the shared store are told: one that flaps must not fill the log.
//!
//! Invariant: at most one "lost" in ten seconds, a "back" only after it, and what was kept
//! silent is told by its number as soon as it is time to, so that the log ends with the truth.

use hivemind_core::Timestamp;
use std::time::Duration;

const TELLING_INTERVAL: Duration = Duration::from_secs(10);

/// What to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is lost. So often was it lost and back, untold, before.
    Lost { flapped: u64 },
    /// It is back from what was told.
    Back,
    /// It is there, and was lost and back so often since a change was told.
    Flapped { times: u64 },
}

/// A store that was there once, and what was told of it since.
#[derive(Debug, Default)]
pub(super) struct Changes {
    is_lost: bool,
    is_told_lost: bool,
    told_at: Option<Timestamp>,
    /// Times that it was lost and back, untold.
    flapped: u64,
}

impl Changes {
    pub(super) fn lost(&mut self) {
        self.is_lost = true;
    }

    pub(super) fn back(&mut self) {
        self.flapped += u64::from(self.is_lost && !self.is_told_lost);
        self.is_lost = false;
    }

    /// What to tell now.
    pub(super) fn tell(&mut self, now: Timestamp) -> Option<Change> {
        if self.is_told_lost {
            self.is_told_lost = self.is_lost;
            return (!self.is_lost).then_some(Change::Back);
        }
        if !self.wait(now)?.is_zero() {
            return None;
        }
        self.told_at = Some(now);
        self.is_told_lost = self.is_lost;
        let flapped = std::mem::take(&mut self.flapped);
        Some(if self.is_lost { Change::Lost { flapped } } else { Change::Flapped { times: flapped } })
    }

    /// How long until something may be told, if anything is untold.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        let is_untold = !self.is_told_lost && (self.is_lost || self.flapped > 0);
        // Apart either way: a clock that was set back must not keep it silent until it has caught up.
        let apart = |told_at: Timestamp| Duration::from_nanos(now.as_nanos().abs_diff(told_at.as_nanos()));
        let left = |told_at| TELLING_INTERVAL.saturating_sub(apart(told_at));
        is_untold.then(|| self.told_at.map_or(Duration::ZERO, left))
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Changes};
    use hivemind_core::Timestamp;
    use std::time::Duration;

    #[test]
    fn a_store_that_flaps_is_told_of_once_in_ten_seconds_with_how_often_it_did() {
        let mut changes = Changes::default();
        for (at_s, is_lost, told) in [
            (100, true, Some(Change::Lost { flapped: 0 })),
            (101, false, Some(Change::Back)),
            (102, true, None),
            (103, false, None),
            (104, true, None),
            (105, false, None),
            (106, true, None),
            (109, true, None),
            (110, true, Some(Change::Lost { flapped: 2 })),
            (110, true, None),
            (150, true, None),
            (151, false, Some(Change::Back)),
            (152, true, Some(Change::Lost { flapped: 0 })),
            (153, false, Some(Change::Back)),
            (154, true, None),
            (155, false, None),
            (162, false, Some(Change::Flapped { times: 1 })),
            (163, true, None),
            (50, true, Some(Change::Lost { flapped: 0 })),
        ] {
            if is_lost {
                changes.lost();
            } else {
                changes.back();
            }
            let now = Timestamp::from_millis(at_s * 1_000);
            assert_eq!(changes.tell(now), told, "at {at_s} s");
        }
    }

    #[test]
    fn what_is_untold_is_looked_at_again_when_it_is_time() {
        let mut changes = Changes::default();
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
        assert_eq!(changes.wait(at(100)), None);
        changes.lost();
        assert_eq!(changes.wait(at(100)), Some(Duration::ZERO));
        changes.tell(at(100));
        assert_eq!(changes.wait(at(101)), None, "it is told");
        changes.back();
        changes.tell(at(101));
        changes.lost();
        assert_eq!(changes.wait(at(103)), Some(Duration::from_secs(7)));
    }
}
