//! Sweep of the counter table: expired counters are removed a shard at a time. A sweep of all counters at
//! once would delay requests, and take a quarter of the time with a million counters. Invariant: each shard
//! is swept once a second while there are few counters or hardly any room, and at least every half minute
//! with any number of counters.

use super::opening::start_of;
use super::{CounterTable, IDLE};
use crate::counter::counter_window::{CounterWindow, Side};
use crate::counter::fast_path_entry::FastPathEntry;
use crate::counter::shards::SHARDS;
use crate::options::MeshOptions;
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
pub(super) struct SweepProgress {
    /// The time by which windows are swept, and how far it advances at once. A clock that leaps for a moment
    /// must not remove windows that continue when it is back.
    sweep_time: Timestamp,
    stride: Duration,
    /// The next shard, and when the last one was due.
    next: usize,
    at: Timestamp,
}

impl Default for SweepProgress {
    fn default() -> Self {
        Self { sweep_time: Timestamp::EPOCH, stride: STRIDE, next: 0, at: Timestamp::EPOCH }
    }
}

impl CounterTable {
    /// Another second has passed. Windows are swept by the latest time; after a leap once it has lasted for
    /// some seconds.
    pub(crate) fn advance_sweep(&mut self, now: Timestamp) {
        self.see(now);
        let Self { sweep, latest, .. } = self;
        let next = sweep.sweep_time.saturating_add(sweep.stride);
        let lags = sweep.sweep_time > Timestamp::EPOCH && next < *latest;
        sweep.stride = if lags { sweep.stride.saturating_mul(2) } else { STRIDE };
        sweep.sweep_time = if lags { next } else { *latest };
    }

    /// How many shards are due.
    fn due(&mut self, max_keys: usize, now: Timestamp) -> usize {
        let is_crowded = self.counters.len() > max_keys / 8 * 7;
        let rounds =
            if is_crowded { 1 } else { self.counters.len().div_ceil(IN_A_ROUND).clamp(1, MOST_ROUNDS) };
        let each =
            (ROUND * u32::try_from(rounds).unwrap_or(1) / u32::try_from(SHARDS).unwrap_or(1)).as_nanos();
        let at = self.sweep.at.min(now); // The clock may have been set back.
        let due = usize::try_from(now.since(at).as_nanos() / each).unwrap_or(SHARDS);
        let gone_by = u64::try_from(each * due as u128).unwrap_or(u64::MAX);
        self.sweep.at = if due >= SHARDS { now } else { at.saturating_add(Duration::from_nanos(gone_by)) };
        due.min(SHARDS)
    }

    /// Drops expired windows, and buckets that were unused until they were full again, in the due shards.
    /// Returns the unused buckets with granted tokens, which should be recalled.
    pub(crate) fn sweep(&mut self, options: &MeshOptions, now: Timestamp) -> Vec<Key> {
        self.see(now);
        // A clock that was set back is followed immediately: by the previous time, all windows would have
        // expired.
        self.sweep.sweep_time = self.sweep.sweep_time.min(self.latest);
        let mut granted = Vec::new();
        for _ in 0..self.due(options.max_keys, now) {
            self.sweep_shard(self.sweep.next, options, &mut granted);
            self.sweep.next = (self.sweep.next + 1) % SHARDS;
        }
        granted
    }

    fn sweep_shard(&mut self, index: usize, options: &MeshOptions, granted: &mut Vec<Key>) {
        let latest = self.sweep.sweep_time;
        let mut beyond = 0_u64;
        self.counters.retain_in(index, |entry| {
            let FastPathEntry { key, counter, queued, .. } = entry;
            let limit = counter.limit();
            if matches!(limit, Limit::TokenBucket(_)) {
                let is_lease = counter.windows.iter().all(CounterWindow::is_lease);
                let idle = latest.since(counter.used) > outlives(&limit, is_lease);
                let has_grants = counter.windows.iter().any(CounterWindow::has_grants);
                // By then unused leases are gone.
                let is_quiet = latest.since(counter.used) > outlives(&limit, true).saturating_add(IDLE / 10);
                if is_quiet && has_grants {
                    granted.push(*key);
                }
                return !idle || !is_lease && (*queued || has_grants);
            }
            // The last window is kept: slow clocks still request it, and a sliding one weighs it.
            let present = tag_at(&limit, latest);
            counter.windows.retain(|window| {
                let start = start_of(&limit, window.tag);
                let stays = window.decides(&limit, options);
                let until = start.saturating_add(outlives(&limit, window.is_lease()));
                let is_kept = window.tag.saturating_add(2) > present || stays && until > latest;
                if let Side::Ledger(ledger) = &window.side
                    && !is_kept
                    && !stays
                {
                    beyond = beyond.saturating_add(ledger.admitted_beyond());
                }
                is_kept
            });
            !counter.windows.is_empty() || counter.was_recently_alone(present)
        });
        self.overadmission = self.overadmission.saturating_add(beyond);
    }
}

/// How long a counter window without end is kept. A lease is removed first: a lease that outlived its ledger
/// would report to the next one all that it reported to the last.
fn outlives(limit: &Limit, is_lease: bool) -> Duration {
    limit.longest_memory().saturating_add(if is_lease { IDLE } else { 2 * IDLE })
}
