//! Fast-path entries: all that a decision from held allowance reads and writes of a counter, one cache line
//! next to its key. The counter itself is behind a pointer that such a decision rarely follows.
//!
//! An entry is an extract of one counter window: how much may be spent without another check. Opening the
//! counter first flushes what was spent through the entry, which is void afterwards; the next decision rebuilds
//! it. Invariant: an entry never allows more than its window holds, and an open counter is complete.

use crate::book::Book;
use crate::page::{Page, Side};
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
pub(crate) struct Slip {
    pub(crate) key: Key,
    pub(crate) book: Box<Book>,
    /// The limit, as far as two limits of a counter can differ.
    period: Period,
    requests: u32,
    burst: u32,
    kind: Kind,
    /// When its window begins.
    from: Timestamp,
    /// What may be spent; for a counter that is decided in the ledger, its room.
    can: u32,
    /// What is left elsewhere, as far as is known.
    elsewhere: u32,
    /// When its window was last compared with the active view.
    epoch: Epoch,
    ledger: Ledger,
    /// Whether the counter is queued for updates to peers.
    pub(crate) listed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bucket,
    Fixed,
    Sliding,
}

/// Where to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ledger {
    /// In the entry; the owner needs an update.
    Rights,
    /// In the entry; it covers a window that this node owns.
    Own,
    /// In the ledger, since the remainder changes with time.
    Book,
}

impl Kind {
    #[inline]
    fn of(limit: &Limit) -> Self {
        match limit {
            Limit::TokenBucket(_) => Self::Bucket,
            Limit::FixedWindow(_) => Self::Fixed,
            _ => Self::Sliding,
        }
    }
}

impl Slip {
    pub(crate) fn new(key: Key, limit: Arc<Limit>, now: Timestamp, gained: u64) -> Self {
        Self {
            key,
            period: limit.period(),
            requests: limit.requests(),
            burst: limit.burst(),
            kind: Kind::of(&limit),
            from: Timestamp::EPOCH,
            can: 0,
            elsewhere: 0,
            epoch: VOID,
            ledger: Ledger::Book,
            listed: false,
            book: Box::new(Book::new(limit, now, gained)),
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
        if self.epoch != epoch || !self.is_of(now) {
            self.turn_to(limit, epoch, now)?;
        }
        if !self.is_by(limit) {
            return None;
        }
        if self.ledger == Ledger::Book {
            return self.spend_in_book(limit, cost, now);
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
    pub(crate) fn is_news(&self) -> bool {
        self.ledger == Ledger::Rights && !self.listed
    }

    /// Whether it covers the window that contains `now`; a bucket has only one.
    #[inline]
    fn is_of(&self, now: Timestamp) -> bool {
        let into = now.as_nanos().wrapping_sub(self.from.as_nanos());
        into < self.period.nanos() || self.kind == Kind::Bucket
    }

    #[inline]
    fn is_by(&self, limit: &Limit) -> bool {
        let (kind, is_bucket) = (Kind::of(limit), self.kind == Kind::Bucket);
        kind == self.kind
            && limit.requests() == self.requests
            && limit.period() == self.period
            && (!is_bucket || limit.burst() == self.burst)
    }

    /// The time until the window ends; for a bucket, until its next token is earned.
    #[inline]
    fn reset_nanos(&self, now: Timestamp) -> u64 {
        match self.kind {
            Kind::Bucket => self.period.nanos() / u64::from(self.requests.max(1)),
            _ => self.from.as_nanos().saturating_add(self.period.nanos()).saturating_sub(now.as_nanos()),
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "as a call it would return its verdict in memory, and every verdict would be copied"
    )]
    #[inline(always)]
    fn spend_in_book(&mut self, limit: &Limit, cost: u64, now: Timestamp) -> Option<Verdict> {
        self.book.used = self.book.used.max(now);
        self.book.weigh_last();
        let Side::Till(till) = &mut self.book.front_page()?.side else { return None };
        match limit {
            // Leases have not changed since: opening the counter voids the entry.
            Limit::TokenBucket(bucket) => {
                till.spend_of(&Limit::TokenBucket(bucket.with_burst(self.can).ok()?), cost, now)
            }
            _ => till.spend_of(limit, cost, now),
        }
    }

    /// Rebuilds the entry for the window of `now`, if there is one that is up to date.
    #[cold]
    fn turn_to(&mut self, limit: &Limit, epoch: Epoch, now: Timestamp) -> Option<()> {
        self.write_up(now);
        let book = &mut self.book;
        let tag = tag_at(limit, now);
        if book.still || book.limit() != *limit {
            return None;
        }
        book.told = false; // A local request uses it.
        book.front = tag;
        let page = book.front_page().filter(|page| page.epoch == epoch)?;
        let from = Timestamp::from_nanos(tag.saturating_mul(limit.period().nanos()));
        let (ledger, can, elsewhere) = extract(page, limit, from);
        let fitting = |amount: u64| u32::try_from(amount).unwrap_or(u32::MAX);
        (self.ledger, self.can, self.elsewhere) = (ledger, fitting(can), fitting(elsewhere));
        book.laid = self.can;
        (self.period, self.requests, self.burst) = (limit.period(), limit.requests(), limit.burst());
        (self.kind, self.from, self.epoch) = (Kind::of(limit), from, epoch);
        Some(())
    }

    /// What was spent through the entry and is not flushed yet.
    pub(crate) fn unwritten(&self) -> u64 {
        let says_nothing = self.epoch == VOID || self.ledger == Ledger::Book;
        if says_nothing { 0 } else { u64::from(self.book.laid.saturating_sub(self.can)) }
    }

    /// Flushes the spending of the entry to the counter; the entry is void afterwards.
    pub(crate) fn write_up(&mut self, now: Timestamp) {
        if std::mem::replace(&mut self.epoch, VOID) == VOID || self.ledger == Ledger::Book {
            return;
        }
        let book = &mut *self.book;
        let spent = u64::from(book.laid - self.can);
        book.laid = self.can;
        if spent == 0 {
            return;
        }
        book.used = book.used.max(now);
        let limit = book.limit();
        match book.front_page().map(|page| &mut page.side) {
            Some(Side::Purse(purse)) => {
                purse.spend(spent);
                book.demand.note(spent, now);
            }
            Some(Side::Till(till)) => {
                till.spend(&limit, spent, self.from);
            }
            None => {}
        }
    }
}

/// What a counter window lets its entry spend, and what is left elsewhere.
fn extract(page: &Page, limit: &Limit, from: Timestamp) -> (Ledger, u64, u64) {
    let units = |number: i64| u64::try_from(number).unwrap_or(0);
    match &page.side {
        Side::Purse(purse) => {
            let can = units(purse.spendable(limit));
            let all = units(purse.unspent().saturating_add(purse.left.max(0)));
            (Ledger::Rights, can, all.saturating_sub(can))
        }
        Side::Till(till) => {
            // After a clock step back the counter stays in the window that it has reached.
            let reached = till.state.is_some_and(|state| state.bits().0 > page.tag);
            if matches!(limit, Limit::FixedWindow(_)) && !reached {
                (Ledger::Own, till.left(limit, from), 0)
            } else {
                (Ledger::Book, u64::from(till.room(limit).burst()), 0)
            }
        }
    }
}
