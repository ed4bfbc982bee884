//! What a decision that holds its rights reads and writes of a counter, in two cache lines beside
//! its key. The book itself is behind a pointer, and such a decision does not follow it.
//!
//! A slip is an extract of one page: how much may be spent, or the counter of one's own. Whoever
//! opens the book first writes into it what was spent on the slip, and closing it makes the slip
//! anew, so a book that is open is always whole. Invariant: what the slip allows is never more
//! than what the page holds.

use crate::book::{Book, Demand};
use crate::codec::{period_nanos, tag_at};
use crate::page::{Page, Side};
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::store::{Key, Outcome, Verdict};
use hivemind_core::{Cost, Limit, Period, Timestamp};
use std::time::Duration;

/// Counts up whenever the view that holds may have become another.
pub(crate) type Epoch = u32;

/// One counter, as a held decision needs it.
#[derive(Debug)]
#[repr(align(64))] // Two lines, and never a part of a third.
pub(crate) struct Slip {
    pub(crate) key: Key,
    pub(crate) book: Box<Book>,
    terms: Terms,
    /// The window that it is about; all of time for a bucket.
    from: Timestamp,
    until: Timestamp,
    /// When its page was last compared with the view that holds.
    epoch: Epoch,
    ledger: Ledger,
    /// What was spent on the slip and is not in the book yet.
    spent: u64,
    pub(crate) demand: Demand,
    pub(crate) used: Timestamp,
    /// Whether it is on the list of those that have something to tell.
    pub(crate) listed: bool,
}

/// What can be spent.
#[derive(Clone, Copy, Debug)]
enum Ledger {
    /// Nothing without opening the book.
    Closed,
    /// Rights: so much, and so much in all as far as was heard; less what was spent on the slip.
    Rights { can: u64, all: u64 },
    /// The counter itself.
    Counter { state: Option<State> },
    /// The counter of a bucket of which tokens are lent: how much room it has is in the book.
    Lent,
}

/// A limit in fewer bytes, to be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    period: Period,
    requests: u32,
    burst: u32,
    kind: u8,
}

impl Terms {
    #[inline]
    fn of(limit: &Limit) -> Self {
        let kind = match limit {
            Limit::TokenBucket(_) => 0,
            Limit::FixedWindow(_) => 1,
            _ => 2,
        };
        Self { period: limit.period(), requests: limit.requests(), burst: limit.burst(), kind }
    }

    #[inline]
    fn is_bucket(self) -> bool {
        self.kind == 0
    }
}

impl Slip {
    pub(crate) fn new(key: Key, limit: Limit, now: Timestamp) -> Self {
        Self {
            key,
            book: Box::new(Book::new(limit)),
            terms: Terms::of(&limit),
            from: Timestamp::EPOCH,
            until: Timestamp::EPOCH,
            epoch: 0,
            ledger: Ledger::Closed,
            spent: 0,
            demand: Demand::new(now),
            used: now,
            listed: false,
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
        if Terms::of(limit) != self.terms {
            return None;
        }
        if now < self.from || now >= self.until || epoch != self.epoch {
            self.turn_to(tag_at(limit, now), epoch)?;
        }
        let verdict = match &mut self.ledger {
            Ledger::Rights { can, all } => {
                let spent = self.spent.checked_add(cost).filter(|spent| *spent <= *can)?;
                if self.terms.is_bucket() && cost > u64::from(self.terms.burst) {
                    return None;
                }
                let available = all.saturating_sub(self.spent);
                self.spent = spent;
                self.demand.note(cost, now);
                let remaining = available.saturating_sub(cost);
                Verdict { outcome: Outcome::Admitted, available, remaining, reset_after: self.reset(now) }
            }
            Ledger::Counter { state } => {
                let action = Action::Spend { count_refusal: false };
                let done = step(limit, *state, action, Cost::new(cost), now);
                if !done.verdict.is_admitted() {
                    return None;
                }
                *state = Some(done.state);
                self.spent = self.spent.saturating_add(cost);
                done.verdict
            }
            Ledger::Lent => match &mut self.book.front_page()?.side {
                Side::Till(till) => till.spend(limit, cost, now)?,
                Side::Purse(_) => return None,
            },
            Ledger::Closed => return None,
        };
        self.used = self.used.max(now);
        Some(verdict)
    }

    /// Whether what was spent is to be told to somebody.
    #[inline]
    pub(crate) fn has_rights(&self) -> bool {
        matches!(self.ledger, Ledger::Rights { .. })
    }

    /// When the window ends; for a bucket, when its next token is earned.
    #[inline]
    fn reset(&self, now: Timestamp) -> Duration {
        if self.terms.is_bucket() {
            self.terms.period.length() / self.terms.requests.max(1)
        } else {
            self.until.since(now)
        }
    }

    /// Takes the page of another window, if there is one that is up to date.
    #[cold]
    fn turn_to(&mut self, tag: u64, epoch: Epoch) -> Option<()> {
        self.write_up();
        self.book.front = tag;
        self.copy_out();
        (self.epoch == epoch && !matches!(self.ledger, Ledger::Closed)).then_some(())
    }

    /// Writes into the book what was spent on the slip, and closes it.
    pub(crate) fn write_up(&mut self) {
        if self.spent > 0
            && let Some(page) = self.book.front_page()
        {
            match (&mut page.side, self.ledger) {
                (Side::Purse(purse), _) => purse.spend(self.spent),
                (Side::Till(till), Ledger::Counter { state }) => {
                    till.state = state;
                    till.note_spent(self.spent);
                }
                (Side::Till(_), _) => {}
            }
        }
        (self.spent, self.ledger) = (0, Ledger::Closed);
    }

    /// Makes the slip anew from the book.
    pub(crate) fn copy_out(&mut self) {
        let limit = self.book.limit;
        self.terms = Terms::of(&limit);
        (self.ledger, self.epoch, self.from, self.until) =
            (Ledger::Closed, 0, Timestamp::EPOCH, Timestamp::EPOCH);
        if self.book.still {
            return;
        }
        let Some(page) = self.book.front_page() else { return };
        let is_bucket = matches!(limit, Limit::TokenBucket(_));
        (self.ledger, self.epoch) = (extract(page, &limit), page.epoch);
        (self.from, self.until) = if is_bucket {
            (Timestamp::EPOCH, Timestamp::MAX)
        } else {
            let period = period_nanos(&limit);
            let start = page.tag.saturating_mul(period);
            (Timestamp::from_nanos(start), Timestamp::from_nanos(start.saturating_add(period)))
        };
    }
}

fn extract(page: &Page, limit: &Limit) -> Ledger {
    let is_bucket = matches!(limit, Limit::TokenBucket(_));
    match &page.side {
        Side::Purse(purse) => {
            // Whatever an owner grants, no node alone admits more than the limit.
            let most = i64::from(limit.burst()) - purse.net_spent();
            let unspent = purse.unspent();
            let can = if is_bucket { unspent } else { unspent.min(most) };
            let units = |number: i64| u64::try_from(number).unwrap_or(0);
            Ledger::Rights { can: units(can), all: units(unspent.saturating_add(purse.left.max(0))) }
        }
        Side::Till(till) if is_bucket && till.held() > 0 => Ledger::Lent,
        Side::Till(till) => Ledger::Counter { state: till.state },
    }
}

