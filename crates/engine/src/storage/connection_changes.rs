//! Log throttle for connection changes: a flapping shared store must not fill the log.
//!
//! Invariant: at most one "lost" message in ten seconds, "reconnected" only after it, and the number of
//! suppressed changes as soon as the interval has passed, so that the log ends with the current state.

use hivemind_core::Timestamp;
use std::time::Duration;

const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A change to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The store is lost, after `flapped` unlogged losses.
    Lost { flapped: u64 },
    /// The store reconnected after a logged loss.
    Back,
    /// The store is connected; it was lost this many times since the last message.
    Flapped { times: u64 },
}

/// State of a store that was connected once, and the state last logged.
#[derive(Debug, Default)]
pub(super) struct ConnectionChanges {
    is_lost: bool,
    is_loss_logged: bool,
    logged_at: Option<Timestamp>,
    /// Number of losses and reconnects that were not logged.
    flapped: u64,
}

impl ConnectionChanges {
    pub(super) fn lost(&mut self) {
        self.is_lost = true;
    }

    pub(super) fn back(&mut self) {
        self.flapped += u64::from(self.is_lost && !self.is_loss_logged);
        self.is_lost = false;
    }

    /// The change to log now, if any.
    pub(super) fn take_change(&mut self, now: Timestamp) -> Option<Change> {
        if self.is_loss_logged {
            self.is_loss_logged = self.is_lost;
            return (!self.is_lost).then_some(Change::Back);
        }
        if !self.wait(now)?.is_zero() {
            return None;
        }
        self.logged_at = Some(now);
        self.is_loss_logged = self.is_lost;
        let flapped = std::mem::take(&mut self.flapped);
        Some(if self.is_lost { Change::Lost { flapped } } else { Change::Flapped { times: flapped } })
    }

    /// Time until the next message may be logged; none if nothing is unlogged.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        let is_unlogged = !self.is_loss_logged && (self.is_lost || self.flapped > 0);
        // Absolute difference: after the clock was set back, logging must not pause until it has caught up.
        let apart =
            |logged_at: Timestamp| Duration::from_nanos(now.as_nanos().abs_diff(logged_at.as_nanos()));
        let left = |logged_at| LOG_INTERVAL.saturating_sub(apart(logged_at));
        is_unlogged.then(|| self.logged_at.map_or(Duration::ZERO, left))
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, ConnectionChanges};
    use hivemind_core::Timestamp;
    use std::time::Duration;

    #[test]
    fn flapping_store_is_logged_every_ten_seconds_with_count() {
        let mut changes = ConnectionChanges::default();
        for (at_s, is_lost, expected) in [
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
            assert_eq!(changes.take_change(now), expected, "at {at_s} s");
        }
    }

    #[test]
    fn unlogged_change_waits_for_the_interval() {
        let mut changes = ConnectionChanges::default();
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
        assert_eq!(changes.wait(at(100)), None);
        changes.lost();
        assert_eq!(changes.wait(at(100)), Some(Duration::ZERO));
        changes.take_change(at(100));
        assert_eq!(changes.wait(at(101)), None, "it is logged");
        changes.back();
        changes.take_change(at(101));
        changes.lost();
        assert_eq!(changes.wait(at(103)), Some(Duration::from_secs(7)));
    }
}
