//! Minimum data rate of request bodies. Without it, one byte per minute would occupy an upstream connection for as
//! long as the client wants.

use super::messages::Messages;
use hivemind_core::Timestamp;
use std::time::Duration;

/// The minimum rate in bytes per second, after the grace time.
const LEAST_RATE: u64 = 256;
/// The minimum grace time, for example for a phone in a tunnel.
const LEAST_GRACE: Duration = Duration::from_secs(10);

/// The data rate of a body. Only the time spent waiting for the client counts: a slow upstream is not the client's
/// fault. Invariant: early bytes are not credited for later.
pub(super) struct Pace {
    grace: Duration,
    behind: Duration,
    waits_since: Option<Timestamp>,
    /// Message boundaries of a gRPC body: pauses between messages do not count.
    messages: Option<Messages>,
}

impl Pace {
    /// A body with this grace time.
    pub(super) fn new(grace: Duration) -> Self {
        Self { grace: grace.max(LEAST_GRACE), behind: Duration::ZERO, waits_since: None, messages: None }
    }

    /// A body that must keep the rate only within each message.
    pub(super) fn of_messages(grace: Duration) -> Self {
        Self { messages: Some(Messages::default()), ..Self::new(grace) }
    }

    /// Whether it has message boundaries.
    pub(super) const fn is_of_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// Records that the body was polled and had no data.
    pub(super) fn waits(&mut self, now: Timestamp) {
        if !self.messages.is_some_and(Messages::is_between) {
            self.waits_since.get_or_insert(now);
        }
    }

    /// Records received bytes; returns whether the body is too slow.
    pub(super) fn comes(&mut self, bytes: &[u8], now: Timestamp) -> bool {
        if let Some(messages) = &mut self.messages {
            messages.take(bytes);
        }
        self.is_too_slow(bytes.len() as u64, now)
    }

    fn is_too_slow(&mut self, bytes: u64, now: Timestamp) -> bool {
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
        let mut pace = Pace::new(GRACE);
        let at = |second: u64| Timestamp::from_millis(second * 1_000);
        (1..=3_600 / every).map(|turn| turn * every).find(|&second| {
            pace.waits(at(second - every));
            pace.is_too_slow(bytes, at(second))
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
        let mut pace = Pace::new(GRACE);
        pace.waits(at(0));
        assert!(!pace.is_too_slow(1 << 30, at(1)));
        assert!(!pace.is_too_slow(1, at(1_000)), "the body was not polled");
        pace.waits(at(1_000));
        assert!(pace.is_too_slow(1, at(1_061)));
    }

    // Fails without a minimum rate for gRPC, or when pauses between messages count.
    #[test]
    fn grpc_body_may_pause_only_between_messages() {
        let at = |second: u64| Timestamp::from_millis(second * 1_000);
        let mut pace = Pace::of_messages(GRACE);
        // One small message per hour is a valid conversation.
        for hour in 0..24 {
            pace.waits(at(hour * 3_600));
            assert!(!pace.comes(&[0, 0, 0, 0, 2, 7, 7], at(hour * 3_600 + 3_599)));
        }
        // One byte per minute of a message that was announced as large is not.
        pace.waits(at(100_000));
        assert!(!pace.comes(&[0, 1, 0, 0, 0], at(100_001)));
        let gives_up = (1..100).find(|minute| {
            let now = 100_001 + minute * 60;
            pace.waits(at(now - 60));
            pace.comes(&[7], at(now))
        });
        assert_eq!(gives_up, Some(2));
    }
}
