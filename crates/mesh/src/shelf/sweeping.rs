//! Sweeping: expired counters are removed a shard at a time. A sweep of all counters at once would delay
//! requests, and take a quarter of the time with a million counters. Invariant: each shard is swept once a
//! second while there are few counters or hardly any room, and at least every half minute with any number of
//! counters.

use super::opening::start_of;
use super::{IDLE, Shelf};
use crate::options::MeshOptions;
use crate::page::{Page, Side};
use crate::parts::PARTS;
use crate::slip::Slip;
use crate::window::tag_at;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::time::Duration;

/// The shortest time for all shards.
const ROUND: Duration = Duration::from_secs(1);
/// The approximate number of counters per round.
const IN_A_ROUND: usize = 100_000;
/// The longest time as a multiple: leases have to be gone before their ledgers are.
const MOST_ROUNDS: usize = 30;
/// How far the sweep time advances at once, initially: it advances once a second.
const STRIDE: Duration = Duration::from_secs(1);

/// The progress of the sweep.
#[derive(Clone, Debug)]
pub(super) struct Sweeping {
    /// The time by which windows are swept, and how far it advances at once. A clock that leaps for a moment
    /// must not remove windows that continue when it is back.
    calm: Timestamp,
    stride: Duration,
    /// The next shard, and when the last one was due.
    next: usize,
    at: Timestamp,
}

impl Default for Sweeping {
    fn default() -> Self {
        Self { calm: Timestamp::EPOCH, stride: STRIDE, next: 0, at: Timestamp::EPOCH }
    }
}

impl Shelf {
    /// Another second has passed. Windows are swept by the latest time; after a leap once it has lasted for
    /// some seconds.
    pub(crate) fn go_on_calmly(&mut self, now: Timestamp) {
        self.see(now);
        let Self { sweeping, latest, .. } = self;
        let next = sweeping.calm.saturating_add(sweeping.stride);
        let lags = sweeping.calm > Timestamp::EPOCH && next < *latest;
        sweeping.stride = if lags { sweeping.stride.saturating_mul(2) } else { STRIDE };
        sweeping.calm = if lags { next } else { *latest };
    }

    /// How many shards are due.
    fn due(&mut self, max_keys: usize, now: Timestamp) -> usize {
        let is_crowded = self.books.len() > max_keys / 8 * 7;
        let rounds = if is_crowded { 1 } else { self.books.len().div_ceil(IN_A_ROUND).clamp(1, MOST_ROUNDS) };
        let each =
            (ROUND * u32::try_from(rounds).unwrap_or(1) / u32::try_from(PARTS).unwrap_or(1)).as_nanos();
        let at = self.sweeping.at.min(now); // The clock may have been set back.
        let due = usize::try_from(now.since(at).as_nanos() / each).unwrap_or(PARTS);
        let gone_by = u64::try_from(each * due as u128).unwrap_or(u64::MAX);
        self.sweeping.at = if due >= PARTS { now } else { at.saturating_add(Duration::from_nanos(gone_by)) };
        due.min(PARTS)
    }

    /// Drops expired windows, and buckets that were unused until they were full again, in the due shards.
    /// Returns the unused buckets with granted tokens, which should be recalled.
    pub(crate) fn sweep(&mut self, options: &MeshOptions, now: Timestamp) -> Vec<Key> {
        self.see(now);
        // A clock that was set back is followed immediately: by the previous time, all windows would have
        // expired.
        self.sweeping.calm = self.sweeping.calm.min(self.latest);
        let mut lent = Vec::new();
        for _ in 0..self.due(options.max_keys, now) {
            self.sweep_part(self.sweeping.next, options, &mut lent);
            self.sweeping.next = (self.sweeping.next + 1) % PARTS;
        }
        lent
    }

    fn sweep_part(&mut self, index: usize, options: &MeshOptions, lent: &mut Vec<Key>) {
        let latest = self.sweeping.calm;
        let mut beyond = 0_u64;
        self.books.retain_in(index, |slip| {
            let Slip { key, book, listed, .. } = slip;
            let limit = book.limit();
            if matches!(limit, Limit::TokenBucket(_)) {
                let is_purse = book.pages.iter().all(Page::is_purse);
                let idle = latest.since(book.used) > outlives(&limit, is_purse);
                let is_lent = book.pages.iter().any(Page::is_lent);
                // By then unused leases are gone.
                let is_quiet = latest.since(book.used) > outlives(&limit, true).saturating_add(IDLE / 10);
                if is_quiet && is_lent {
                    lent.push(*key);
                }
                return !idle || !is_purse && (*listed || is_lent);
            }
            // The last window is kept: slow clocks still request it, and a sliding one weighs it.
            let present = tag_at(&limit, latest);
            book.pages.retain(|page| {
                let start = start_of(&limit, page.tag);
                let stays = page.decides(&limit, options);
                let until = start.saturating_add(outlives(&limit, page.is_purse()));
                let is_kept = page.tag.saturating_add(2) > present || stays && until > latest;
                if let Side::Till(till) = &page.side
                    && !is_kept
                    && !stays
                {
                    beyond = beyond.saturating_add(till.admitted_beyond());
                }
                is_kept
            });
            !book.pages.is_empty() || book.was_alone_lately(present)
        });
        self.overadmission = self.overadmission.saturating_add(beyond);
    }
}

/// How long a counter window without end is kept. A lease is removed first: a lease that outlived its ledger
/// would report to the next one all that it reported to the last.
fn outlives(limit: &Limit, is_purse: bool) -> Duration {
    limit.longest_memory().saturating_add(if is_purse { IDLE } else { 2 * IDLE })
}
