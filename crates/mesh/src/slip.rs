//! What a decision that holds its rights reads and writes of a counter: one cache line, beside its
//! key. The book itself is behind a pointer, and such a decision mostly does not follow it.
//!
//! A slip is an extract of one page: how much may be spent without another look. Whoever opens the
//! book first writes up in it what was spent on the slip, which is void from then on; the next
//! decision makes it anew. Invariant: what a slip allows is never more than what its page holds,
//! and a book that is open is whole.

use crate::book::Book;
use crate::page::{Page, Side};
use crate::window::tag_at;
use hivemind_core::store::{Key, Outcome, Verdict};
use hivemind_core::{Limit, Period, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Counts up whenever the view that holds may have become another; from 1 on.
pub(crate) type Epoch = u32;

/// The epoch of a slip that says nothing.
const VOID: Epoch = 0;

/// One counter, as a held decision needs it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Slip {
    pub(crate) key: Key,
    pub(crate) book: Box<Book>,
    /// The limit, as far as two of them differ.
    period: Period,
    requests: u32,
    burst: u32,
    kind: Kind,
    /// When its window begins.
    from: Timestamp,
    /// What may be spent; of a counter that is decided in the book, the room that it has.
    can: u32,
    /// What is left elsewhere, as far as was heard.
    elsewhere: u32,
    /// When its page was last compared with the view that holds.
    epoch: Epoch,
    ledger: Ledger,
    /// Whether it is on the list of those that have something to tell.
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
    /// On the slip, and the owner is to hear of it.
    Rights,
    /// On the slip, which is about a window of this node's own.
    Own,
    /// In the book, since what is left changes with time.
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

    /// Spends, if that can be done with what is held. `None` says that it takes more, and that
    /// nothing was recorded.
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

    /// Whether what was spent is to be told to somebody, and was not listed before.
    #[inline]
    pub(crate) fn is_news(&self) -> bool {
        self.ledger == Ledger::Rights && !self.listed
    }

    /// Whether it is about the window that `now` is in; a bucket has but one.
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

    /// Until the window ends; for a bucket, until its next token is earned.
    #[inline]
    fn reset_nanos(&self, now: Timestamp) -> u64 {
        match self.kind {
            Kind::Bucket => self.period.nanos() / u64::from(self.requests.max(1)),
            _ => self.from.as_nanos().saturating_add(self.period.nanos()).saturating_sub(now.as_nanos()),
        }
    }

    #[expect(
        clippy::inline_always,
        reason = "called, it would write its verdict, and all verdicts would be copied from where it does"
    )]
    #[inline(always)]
    fn spend_in_book(&mut self, limit: &Limit, cost: u64, now: Timestamp) -> Option<Verdict> {
        self.book.used = self.book.used.max(now);
        self.book.weigh_last();
        let Side::Till(till) = &mut self.book.front_page()?.side else { return None };
        match limit {
            // What members hold has not changed since: whoever opens the book makes the slip void.
            Limit::TokenBucket(bucket) => {
                till.spend_of(&Limit::TokenBucket(bucket.with_burst(self.can).ok()?), cost, now)
            }
            _ => till.spend_of(limit, cost, now),
        }
    }

    /// Is about the page of this window from now on, if there is one that is up to date.
    #[cold]
    fn turn_to(&mut self, limit: &Limit, epoch: Epoch, now: Timestamp) -> Option<()> {
        self.write_up(now);
        let book = &mut self.book;
        let tag = tag_at(limit, now);
        if book.still || book.limit() != *limit {
            return None;
        }
        book.told = false; // It is asked for here.
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

    /// What was spent on it and is not written up yet.
    pub(crate) fn unwritten(&self) -> u64 {
        let says_nothing = self.epoch == VOID || self.ledger == Ledger::Book;
        if says_nothing { 0 } else { u64::from(self.book.laid.saturating_sub(self.can)) }
    }

    /// Writes up in the book what was spent on the slip, which is void from now on.
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

/// What a page lets a slip spend, and what is left elsewhere.
fn extract(page: &Page, limit: &Limit, from: Timestamp) -> (Ledger, u64, u64) {
    let units = |number: i64| u64::try_from(number).unwrap_or(0);
    match &page.side {
        Side::Purse(purse) => {
            let can = units(purse.spendable(limit));
            let all = units(purse.unspent().saturating_add(purse.left.max(0)));
            (Ledger::Rights, can, all.saturating_sub(can))
        }
        Side::Till(till) => {
            // A clock that stepped back leaves a counter in the window that it has reached.
            let reached = till.state.is_some_and(|state| state.bits().0 > page.tag);
            if matches!(limit, Limit::FixedWindow(_)) && !reached {
                (Ledger::Own, till.left(limit, from), 0)
            } else {
                (Ledger::Book, u64::from(till.room(limit).burst()), 0)
            }
        }
    }
}
