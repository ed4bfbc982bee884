//! Minimum data rate of request bodies. Without it, one byte per minute would occupy an upstream connection for as
//! long as the client wants.

use super::grpc_messages::GrpcMessages;
use hivemind_core::Timestamp;
use std::time::Duration;

/// The minimum rate in bytes per second, after the grace time.
const LEAST_RATE: u64 = 256;
/// The minimum grace time, for example for a phone in a tunnel.
const LEAST_GRACE: Duration = Duration::from_secs(10);

/// The data rate of a body. Only the time spent waiting for the client counts: a slow upstream is not the client's
/// fault. Invariant: early bytes are not credited for later.
pub(super) struct BodyPace {
    grace: Duration,
    behind: Duration,
    waits_since: Option<Timestamp>,
    /// Message boundaries of a gRPC body: pauses between messages do not count.
    messages: Option<GrpcMessages>,
}

impl BodyPace {
    /// A body with this grace time.
    pub(super) fn new(grace: Duration) -> Self {
        Self { grace: grace.max(LEAST_GRACE), behind: Duration::ZERO, waits_since: None, messages: None }
    }

    /// A body that must keep the rate only within each message.
    pub(super) fn of_messages(grace: Duration) -> Self {
        Self { messages: Some(GrpcMessages::default()), ..Self::new(grace) }
    }

    /// Whether it has message boundaries.
    pub(super) const fn is_of_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// Records that the body was polled and had no data.
    pub(super) fn record_wait(&mut self, now: Timestamp) {
        if !self.messages.is_some_and(GrpcMessages::is_between) {
            self.waits_since.get_or_insert(now);
        }
    }

    /// Records received bytes; returns whether the body is too slow.
    pub(super) fn record_bytes(&mut self, bytes: &[u8], now: Timestamp) -> bool {
        if let Some(messages) = &mut self.messages {
            messages.take(bytes);
        }
        self.record_progress(bytes.len() as u64, now)
    }

    fn record_progress(&mut self, bytes: u64, now: Timestamp) -> bool {
        let Some(since) = self.waits_since.take() else { return false };
        let worth = Duration::from_millis(bytes.saturating_mul(1_000) / LEAST_RATE);
        self.behind = self.behind.saturating_add(now.since(since)).saturating_sub(worth);
        self.behind > self.grace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(60);

    /// The second within an hour at which a body with this rate is too slow.
    fn gives_up(bytes: u64, every: u64) -> Option<u64> {
        let mut pace = BodyPace::new(GRACE);
        let at = |second: u64| Timestamp::from_millis(second * 1_000);
        (1..=3_600 / every).map(|turn| turn * every).find(|&second| {
            pace.record_wait(at(second - every));
            pace.record_progress(bytes, at(second))
        })
    }

    #[test]
    fn stalled_body_is_aborted_and_slow_body_is_not() {
        assert_eq!(gives_up(1, 59), Some(118));
        assert_eq!(gives_up(100, 1), Some(99));
        assert_eq!(gives_up(256, 1), None);
        assert_eq!(gives_up(256 * 50, 50), None);
    }

    #[test]
    fn early_bytes_and_unpolled_time_do_not_count() {
        let at = |second: u64| Timestamp::from_millis(second * 1_000);
        let mut pace = BodyPace::new(GRACE);
        pace.record_wait(at(0));
        assert!(!pace.record_progress(1 << 30, at(1)));
        assert!(!pace.record_progress(1, at(1_000)), "the body was not polled");
        pace.record_wait(at(1_000));
        assert!(pace.record_progress(1, at(1_061)));
    }

    // Fails without a minimum rate for gRPC, or when pauses between messages count.
    #[test]
    fn grpc_body_may_pause_only_between_messages() {
        let at = |second: u64| Timestamp::from_millis(second * 1_000);
        let mut pace = BodyPace::of_messages(GRACE);
        // One small message per hour is a valid conversation.
        for hour in 0..24 {
            pace.record_wait(at(hour * 3_600));
            assert!(!pace.record_bytes(&[0, 0, 0, 0, 2, 7, 7], at(hour * 3_600 + 3_599)));
        }
        // One byte per minute of a message that was announced as large is not.
        pace.record_wait(at(100_000));
        assert!(!pace.record_bytes(&[0, 1, 0, 0, 0], at(100_001)));
        let gives_up = (1..100).find(|minute| {
            let now = 100_001 + minute * 60;
            pace.record_wait(at(now - 60));
            pace.record_bytes(&[7], at(now))
        });
        assert_eq!(gives_up, Some(2));
    }
}
