//! Rate limit of pings and pongs: they are free of the message limit, and each costs both sides a frame.

use hivemind_core::Timestamp;
use std::num::NonZeroU32;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(1);

/// The pings and pongs of one connection. Small, because each open connection has one.
pub(crate) struct PingLimit {
    per_second: NonZeroU32,
    /// Those since the start of the window.
    count: u32,
    window: Timestamp,
}

impl PingLimit {
    pub(crate) const fn new(per_second: NonZeroU32) -> Self {
        Self { per_second, count: 0, window: Timestamp::EPOCH }
    }

    /// Charges one frame; returns whether it is within the limit.
    pub(super) fn charge(&mut self, now: Timestamp) -> bool {
        if now.since(self.window) >= WINDOW {
            (self.window, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= self.per_second.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_are_limited_in_each_second() {
        let mut pings = PingLimit::new(NonZeroU32::new(3).unwrap());
        let mut at = |millis: u64| pings.charge(Timestamp::from_millis(10_000 + millis));
        assert_eq!([at(0), at(0), at(10), at(20), at(999)], [true, true, true, false, false]);
        assert!(at(1_000), "another second");
    }
}
