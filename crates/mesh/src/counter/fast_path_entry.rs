//! Fast-path entries: all that a decision from held allowance reads and writes of a counter, one cache line
//! next to its key. The counter itself is behind a pointer that such a decision rarely follows.
//!
//! An entry is an extract of one counter window: how much may be spent without another check. Opening the
//! counter first flushes what was spent through the entry, which is void afterwards; the next decision rebuilds
//! it. Invariant: an entry never allows more than its window holds, and an open counter is complete.

use crate::counter::Counter;
use crate::counter::counter_window::{CounterWindow, Side};
use crate::window::tag_at;
use hivemind_core::store::{Key, Outcome, Verdict};
use hivemind_core::{Limit, Period, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Increases whenever the active view may have changed; starts at 1.
pub(crate) type Epoch = u32;

/// The epoch of a void entry.
const VOID: Epoch = 0;

/// The fields of one counter that a fast-path decision needs.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct FastPathEntry {
    pub(crate) key: Key,
    pub(crate) counter: Box<Counter>,
    /// The limit, as far as two limits of a counter can differ.
    period: Period,
    requests: u32,
    burst: u32,
    kind: WindowKind,
    /// When its window begins.
    from: Timestamp,
    /// What may be spent; for a counter that is decided in the ledger, its room.
    can: u32,
    /// What is left elsewhere, as far as is known.
    elsewhere: u32,
    /// When its window was last compared with the active view.
    epoch: Epoch,
    target: SpendTarget,
    /// Whether the counter is queued for updates to peers.
    pub(crate) queued: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowKind {
    Bucket,
    Fixed,
    Sliding,
}

/// Where to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpendTarget {
    /// In the entry; the owner needs an update.
    Lease,
    /// In the entry; it covers a window that this node owns.
    Own,
    /// In the ledger, since the remainder changes with time.
    Ledger,
}

impl WindowKind {
    #[inline]
    fn of(limit: &Limit) -> Self {
        match limit {
            Limit::TokenBucket(_) => Self::Bucket,
            Limit::FixedWindow(_) => Self::Fixed,
            _ => Self::Sliding,
        }
    }
}

impl FastPathEntry {
    pub(crate) fn new(key: Key, limit: Arc<Limit>, now: Timestamp, gained: u64) -> Self {
        Self {
            key,
            period: limit.period(),
            requests: limit.requests(),
            burst: limit.burst(),
            kind: WindowKind::of(&limit),
            from: Timestamp::EPOCH,
            can: 0,
            elsewhere: 0,
            epoch: VOID,
            target: SpendTarget::Ledger,
            queued: false,
            counter: Box::new(Counter::new(limit, now, gained)),
        }
    }

    /// Spends if the held allowance suffices. Returns `None` if it does not; then nothing was recorded.
    #[inline]
    pub(crate) fn spend(
        &mut self,
        limit: &Limit,
        cost: u64,
        now: Timestamp,
        epoch: Epoch,
    ) -> Option<Verdict> {
        if self.epoch != epoch || !self.covers(now) {
            self.rebuild(limit, epoch, now)?;
        }
        if !self.has_limit(limit) {
            return None;
        }
        if self.target == SpendTarget::Ledger {
            return self.spend_in_ledger(limit, cost, now);
        }
        let can = u64::from(self.can);
        let left = u32::try_from(can.checked_sub(cost)?).unwrap_or(0);
        self.can = left;
        let available = can + u64::from(self.elsewhere);
        let reset_after = Duration::from_nanos(self.reset_nanos(now));
        Some(Verdict { outcome: Outcome::Admitted, available, remaining: available - cost, reset_after })
    }

    /// Whether the spending must be sent to the owner and the counter is not queued yet.
    #[inline]
    pub(crate) fn needs_update(&self) -> bool {
        self.target == SpendTarget::Lease && !self.queued
    }

    /// Whether it covers the window that contains `now`; a bucket has only one.
    #[inline]
    fn covers(&self, now: Timestamp) -> bool {
        let into = now.as_nanos().wrapping_sub(self.from.as_nanos());
        into < self.period.nanos() || self.kind == WindowKind::Bucket
    }

    #[inline]
    fn has_limit(&self, limit: &Limit) -> bool {
        let (kind, is_bucket) = (WindowKind::of(limit), self.kind == WindowKind::Bucket);
        kind == self.kind
            && limit.requests() == self.requests
            && limit.period() == self.period
            && (!is_bucket || limit.burst() == self.burst)
    }

    /// The time until the window ends; for a bucket, until its next token is earned.
    #[inline]
    fn reset_nanos(&self, now: Timestamp) -> u64 {
        match self.kind {
            WindowKind::Bucket => self.period.nanos() / u64::from(self.requests.max(1)),
            _ => self.from.as_nanos().saturating_add(self.period.nanos()).saturating_sub(now.as_nanos()),
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "as a call it would return its verdict in memory, and every verdict would be copied"
    )]
    #[inline(always)]
    fn spend_in_ledger(&mut self, limit: &Limit, cost: u64, now: Timestamp) -> Option<Verdict> {
        self.counter.used = self.counter.used.max(now);
        self.counter.weigh_last();
        let Side::Ledger(ledger) = &mut self.counter.entry_window()?.side else { return None };
        match limit {
            // Leases have not changed since: opening the counter voids the entry.
            Limit::TokenBucket(bucket) => {
                ledger.spend_of(&Limit::TokenBucket(bucket.with_burst(self.can).ok()?), cost, now)
            }
            _ => ledger.spend_of(limit, cost, now),
        }
    }

    /// Rebuilds the entry for the window of `now`, if there is one that is up to date.
    #[cold]
    fn rebuild(&mut self, limit: &Limit, epoch: Epoch, now: Timestamp) -> Option<()> {
        self.flush(now);
        let counter = &mut self.counter;
        let tag = tag_at(limit, now);
        if counter.is_frozen || counter.limit() != *limit {
            return None;
        }
        counter.peer_opened = false; // A local request uses it.
        counter.entry_tag = tag;
        let window = counter.entry_window().filter(|window| window.epoch == epoch)?;
        let from = Timestamp::from_nanos(tag.saturating_mul(limit.period().nanos()));
        let (target, can, elsewhere) = extract(window, limit, from);
        let fitting = |amount: u64| u32::try_from(amount).unwrap_or(u32::MAX);
        (self.target, self.can, self.elsewhere) = (target, fitting(can), fitting(elsewhere));
        counter.entry_start = self.can;
        (self.period, self.requests, self.burst) = (limit.period(), limit.requests(), limit.burst());
        (self.kind, self.from, self.epoch) = (WindowKind::of(limit), from, epoch);
        Some(())
    }

    /// What was spent through the entry and is not flushed yet.
    pub(crate) fn unflushed(&self) -> u64 {
        let is_unused = self.epoch == VOID || self.target == SpendTarget::Ledger;
        if is_unused { 0 } else { u64::from(self.counter.entry_start.saturating_sub(self.can)) }
    }

    /// Flushes the spending of the entry to the counter; the entry is void afterwards.
    pub(crate) fn flush(&mut self, now: Timestamp) {
        if std::mem::replace(&mut self.epoch, VOID) == VOID || self.target == SpendTarget::Ledger {
            return;
        }
        let counter = &mut *self.counter;
        let spent = u64::from(counter.entry_start - self.can);
        counter.entry_start = self.can;
        if spent == 0 {
            return;
        }
        counter.used = counter.used.max(now);
        let limit = counter.limit();
        match counter.entry_window().map(|window| &mut window.side) {
            Some(Side::Lease(lease)) => {
                lease.spend(spent);
                counter.demand.note(spent, now);
            }
            Some(Side::Ledger(ledger)) => {
                ledger.spend(&limit, spent, self.from);
            }
            None => {}
        }
    }
}

/// What a counter window lets its entry spend, and what is left elsewhere.
fn extract(window: &CounterWindow, limit: &Limit, from: Timestamp) -> (SpendTarget, u64, u64) {
    let units = |number: i64| u64::try_from(number).unwrap_or(0);
    match &window.side {
        Side::Lease(lease) => {
            let can = units(lease.spendable(limit));
            let all = units(lease.unspent().saturating_add(lease.left.max(0)));
            (SpendTarget::Lease, can, all.saturating_sub(can))
        }
        Side::Ledger(ledger) => {
            // After a clock step back the counter stays in the window that it has reached.
            let reached = ledger.state.is_some_and(|state| state.bits().0 > window.tag);
            if matches!(limit, Limit::FixedWindow(_)) && !reached {
                (SpendTarget::Own, ledger.left(limit, from), 0)
            } else {
                (SpendTarget::Ledger, u64::from(ledger.room(limit).burst()), 0)
            }
        }
    }
}
