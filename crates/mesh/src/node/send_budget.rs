//! Bandwidth limit: bytes per second to all peers together. Requests, votes and heartbeats are always sent and
//! use it up; changed totals wait when nothing is left. This lengthens the interval for counters far from their
//! limit; those near it go first. A part is reserved for those that wait longest, so no counter waits forever.

use super::Node;
use crate::counter::counter_window::{CounterWindow, Side};
use crate::window::tag_at;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::VecDeque;
use std::time::Duration;

/// The approximate size of an update on the wire.
const OF_ITEM: u64 = 14;
/// The approximate overhead of the layers below per frame.
const OF_FRAME: u64 = 60;
/// The most that is saved up, as a time.
const SAVED: Duration = Duration::from_millis(250);
/// The inverse of the part for those that wait longest.
const FOR_OLDEST: u64 = 4;

/// The remaining bytes.
#[derive(Clone, Debug)]
pub(super) struct SendBudget {
    limit: Option<u64>,
    left: i64,
    filled: Timestamp,
    /// Counters that had to wait, the longest first.
    waiting: VecDeque<Key>,
}

impl SendBudget {
    /// A budget of `limit` bytes per second; unlimited without one.
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { limit, left: 0, filled: Timestamp::EPOCH, waiting: VecDeque::new() }
    }

    /// Whether an update that can wait may be sent now.
    pub(super) fn has_room(&self) -> bool {
        self.limit.is_none() || self.left >= 0
    }

    pub(super) fn nothing_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    fn refill(&mut self, now: Timestamp) {
        let Some(limit) = self.limit else { return };
        let most = worth(limit, SAVED);
        let earned = worth(limit, now.since(self.filled).min(SAVED));
        self.left = self.left.saturating_add(earned).min(most);
        self.filled = now;
    }

    /// A frame of `bytes` was sent.
    pub(super) fn spend(&mut self, bytes: usize) {
        if let Some(limit) = self.limit {
            let bytes = i64::try_from(bytes as u64 + OF_FRAME).unwrap_or(i64::MAX);
            // Urgent frames may use up one second in advance, at most: more would block everything else for
            // long.
            self.left = self.left.saturating_sub(bytes).max(-worth(limit, Duration::from_secs(1)));
        }
    }

    pub(super) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        earlier(&mut self.filled);
    }
}

fn worth(limit: u64, span: Duration) -> i64 {
    let bytes = u128::from(limit).saturating_mul(span.as_nanos()) / 1_000_000_000;
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Node {
    /// The counters whose changes are sent now; the others wait.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Key> {
        let queued = self.table.counters.take_queued();
        if self.budget.limit.is_none() {
            return queued;
        }
        self.budget.refill(now);
        self.budget.waiting.extend(queued);
        let items = u64::try_from(self.budget.left).unwrap_or(0) / OF_ITEM;
        if self.budget.waiting.len() as u64 <= items {
            return self.budget.waiting.drain(..).collect();
        }
        let count = |items: u64| usize::try_from(items).unwrap_or(usize::MAX);
        let oldest = count(items.div_ceil(FOR_OLDEST)).min(self.budget.waiting.len());
        let mut due: Vec<Key> = self.budget.waiting.drain(..oldest).collect();
        let nearest = count(items).saturating_sub(oldest);
        if nearest > 0 {
            let waiting = std::mem::take(&mut self.budget.waiting);
            let mut order: Vec<(u64, usize)> =
                waiting.iter().enumerate().map(|(place, key)| (self.room(key, now), place)).collect();
            if nearest < order.len() {
                order.select_nth_unstable(nearest);
                order.truncate(nearest);
            }
            let mut chosen: Vec<usize> = order.into_iter().map(|(_, place)| place).collect();
            chosen.sort_unstable();
            for (place, key) in waiting.into_iter().enumerate() {
                if chosen.binary_search(&place).is_ok() {
                    due.push(key);
                } else {
                    self.budget.waiting.push_back(key);
                }
            }
        }
        due
    }

    /// How far a counter is from its limit, in thousandths of it, as far as is known here.
    fn room(&self, key: &Key, now: Timestamp) -> u64 {
        let room = self.table.counters.look_at_entry(key, |entry| {
            let counter = &entry.counter;
            let limit = counter.limit();
            let tag = tag_at(&limit, now);
            let window = counter.windows.iter().find(|window| window.tag == tag)?;
            let left = match &window.side {
                Side::Ledger(ledger) => ledger.left(&limit, CounterWindow::moment(tag, &limit, now)),
                // Its holding, and what its owner reported as left.
                Side::Lease(lease) => {
                    let left = lease.unspent().max(0).saturating_add(lease.left.max(0));
                    u64::try_from(left).unwrap_or(0)
                }
            };
            let left = left.saturating_sub(entry.unflushed());
            Some(left.saturating_mul(1_000) / u64::from(limit.burst()).max(1))
        });
        // Expired counters go last.
        room.flatten().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    // Fails when bytes are saved up for longer, or advance spending is never repaid.
    #[test]
    fn sent_bytes_stay_within_the_limit_and_savings() {
        let mut budget = SendBudget::new(Some(10_000));
        let mut sent = 0;
        for step in 0..=200 {
            budget.refill(at(step * 5));
            if budget.left >= 1_000 {
                budget.spend(1_000 - usize::try_from(OF_FRAME).unwrap());
                sent += 1_000;
            }
        }
        assert!((9_000..=12_500).contains(&sent), "{sent}");
        // A request of 5,000 bytes goes immediately, and is repaid before any update.
        budget.spend(5_000);
        budget.refill(at(1_250));
        assert!(budget.left < 0);
        budget.refill(at(1_500));
        budget.refill(at(1_750));
        assert!(budget.left > 0);
    }
}
