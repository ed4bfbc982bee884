//! Schedule of a connection: when its timeouts are checked, and what each check decides. One timer serves all of them,
//! because a timer takes more memory than the rest of an idle connection's timeouts.

use super::workers::GrpcTimeouts;
use hivemind_core::Timestamp;
use std::time::Duration;

/// The client preface and the header of its first frame.
pub(super) const PREFACE_LENGTH: usize = 24 + 9;

/// What a connection has done so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionProgress {
    pub(super) received: usize,
    pub(super) call_count: u64,
    pub(super) is_busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckOutcome {
    CheckAfter(Duration),
    /// Send GOAWAY, and close when all calls are answered.
    Drain,
}

/// The pending checks of a connection.
#[derive(Debug)]
pub(super) struct ConnectionSchedule {
    timeouts: GrpcTimeouts,
    opened: Timestamp,
    idle_check: Timestamp,
    /// The number of calls at the last idle check.
    call_count: u64,
}

impl ConnectionSchedule {
    pub(super) fn new(timeouts: GrpcTimeouts, now: Timestamp) -> Self {
        Self { timeouts, opened: now, idle_check: now.saturating_add(timeouts.idle), call_count: 0 }
    }

    pub(super) fn first_check(&self) -> Duration {
        let GrpcTimeouts { handshake, first_call, idle, age, .. } = self.timeouts;
        handshake.min(first_call).min(idle).min(age)
    }

    /// Decides whether the connection may stay open.
    pub(super) fn check(&mut self, now: Timestamp, progress: ConnectionProgress) -> CheckOutcome {
        let ConnectionProgress { received, call_count, is_busy } = progress;
        let after_opening = |timeout| self.opened.saturating_add(timeout);
        let mut next = self.idle_check;
        // A due check ends the connection, and a pending one is scheduled.
        let mut is_over = |at: Timestamp| {
            next = next.min(at);
            at <= now
        };
        let is_silent = received < PREFACE_LENGTH && is_over(after_opening(self.timeouts.handshake));
        let has_no_call = call_count == 0 && !is_busy && is_over(after_opening(self.timeouts.first_call));
        if is_silent || has_no_call || is_over(after_opening(self.timeouts.age)) {
            return CheckOutcome::Drain;
        }
        if self.idle_check <= now {
            // Idle: no call started since the last check, and none is in progress.
            let before = std::mem::replace(&mut self.call_count, call_count);
            if call_count == before && !is_busy {
                return CheckOutcome::Drain;
            }
            self.idle_check = now.saturating_add(self.timeouts.idle);
            return self.check(now, progress);
        }
        CheckOutcome::CheckAfter(next.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::CheckOutcome::{CheckAfter, Drain};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const TIMEOUTS: GrpcTimeouts = GrpcTimeouts {
        handshake: SECOND,
        first_call: Duration::from_secs(3),
        call: SECOND,
        idle: Duration::from_secs(10),
        age: Duration::from_secs(25),
        ping: SECOND,
        pong: SECOND,
    };

    /// Milliseconds after the opening, bytes received, calls, whether one is in progress.
    type Check = (u64, usize, u64, bool);

    // Fails when a timeout is skipped, checked too early, or checked again after it has passed.
    #[test]
    fn connection_timeouts_are_checked_in_order() {
        let start = Timestamp::from_millis(1);
        let table: [(&[Check], &[CheckOutcome]); 7] = [
            (&[(1_000, 32, 0, false)], &[Drain]),
            (&[(1_000, 33, 0, false), (3_000, 33, 0, false)], &[CheckAfter(2 * SECOND), Drain]),
            (
                &[(1_000, 33, 1, false), (10_000, 40, 1, false)],
                &[CheckAfter(9 * SECOND), CheckAfter(10 * SECOND)],
            ),
            (
                &[(1_000, 33, 0, true), (2_000, 33, 1, true)],
                &[CheckAfter(9 * SECOND), CheckAfter(8 * SECOND)],
            ),
            (&[(10_000, 40, 1, false), (20_000, 40, 1, false)], &[CheckAfter(10 * SECOND), Drain]),
            (
                &[(10_000, 40, 1, true), (20_000, 40, 1, true)],
                &[CheckAfter(10 * SECOND), CheckAfter(5 * SECOND)],
            ),
            (&[(25_000, 40, 9, true)], &[Drain]),
        ];
        for (checks, outcomes) in table {
            let mut schedule = ConnectionSchedule::new(TIMEOUTS, start);
            assert_eq!(schedule.first_check(), SECOND);
            for ((at, received, call_count, is_busy), outcome) in checks.iter().copied().zip(outcomes) {
                let progress = ConnectionProgress { received, call_count, is_busy };
                let now = start.saturating_add(Duration::from_millis(at));
                assert_eq!(schedule.check(now, progress), *outcome, "{checks:?} at {at}");
            }
        }
    }
}
