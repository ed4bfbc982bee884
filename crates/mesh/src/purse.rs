//! What a member holds of one counter: rights it may spend without asking. All numbers are
//! totals of one page, so they only grow, and whoever hears of them takes the larger one.
//! Invariant: what is spent and returned never exceeds what it started with and was granted,
//! but for what `on_unreachable` allows, and that is counted.

use crate::annex::Annex;
use crate::frame::{Report, Word};
use crate::lately::Lately;
use hivemind_core::{Limit, Timestamp};

/// What one charge adds to a total at most: past any limit, and so little that a total never reaches its end.
pub(crate) const MOST_AT_ONCE: u64 = 1 << 40;

/// A member's side of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Purse {
    /// What it began with: a share of the window, or what it held when the view changed.
    pub(crate) start: u64,
    granted: u64,
    returned: u64,
    spent: u64,
    /// What the owner said was left, and what the others had spent.
    pub(crate) left: i64,
    pub(crate) others: u64,
    aside: Annex<Aside>,
    /// Until then the owner need not be asked again for this much or more: it does not have it.
    exhausted_until: Lately,
    exhausted_from: u32,
    /// When it last reported.
    pub(crate) reported: Lately,
    /// Whether a total has grown since then.
    is_news: bool,
    /// Whether one has that the owner must not miss, since it last confirmed them all.
    is_unsettled: bool,
}

/// What most purses have none of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Aside {
    /// Which account of the owner's this is, where there may be several one after the other; 0 before the first.
    serial: u64,
    /// When it was made, if its page has no end and may see another one after it; else 0.
    birth: u64,
    refused: u64,
    /// What was spent here and given back.
    refunded: u64,
    /// How often the owner reset the counter, and what had been spent here by then.
    resets: u64,
    forgiven: u64,
    /// Refunds and debits that only the owner can do.
    given: u64,
    owed: u64,
}

impl Purse {
    pub(crate) fn new(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// One for a page that has no end.
    pub(crate) fn born(now: Timestamp) -> Self {
        let aside = Aside { birth: now.as_nanos() | 1, ..Aside::default() };
        Self { aside: aside.into(), ..Self::default() }
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.aside.get().birth != 0
    }

    pub(crate) fn serial(&self) -> u64 {
        self.aside.get().serial
    }

    /// A lower limit takes its part of the share away.
    pub(crate) fn lower_start(&mut self, by: u64) {
        self.start = self.start.saturating_sub(by);
    }

    /// What may be spent here and now. Below zero where a limit was lowered, or lent beyond.
    #[inline]
    pub(crate) fn unspent(&self) -> i64 {
        let held = self.start.saturating_add(self.granted).saturating_add(self.aside.get().refunded);
        let gone = self.returned.saturating_add(self.spent);
        signed(held).saturating_sub(signed(gone))
    }

    /// What may be spent at once. Whatever an owner grants, no node alone admits more than the limit.
    #[inline]
    pub(crate) fn spendable(&self, limit: &Limit) -> i64 {
        let full = i64::from(limit.burst());
        let spent = if matches!(limit, Limit::TokenBucket(_)) { 0 } else { self.net_spent() };
        self.unspent().min(full - spent)
    }

    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// What went back to the owner.
    pub(crate) fn back(&self) -> u64 {
        self.returned.saturating_add(self.aside.get().given)
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// What was spent here and not given back, since the counter was last reset.
    fn net_spent(&self) -> i64 {
        let Aside { refunded, forgiven, .. } = self.aside.get();
        signed(self.spent.saturating_sub(refunded).saturating_sub(forgiven))
    }

    #[inline]
    pub(crate) fn spend(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
        self.is_news |= cost > 0;
    }

    /// A total has grown that the owner must not miss.
    fn unsettle(&mut self, by: u64) {
        self.is_news |= by > 0;
        self.is_unsettled |= by > 0;
    }

    /// The owner does not have `cost` or more, and is not asked for it before `until`.
    pub(crate) fn remember_exhausted(&mut self, cost: u64, until: Timestamp) {
        self.exhausted_from = u32::try_from(cost).unwrap_or(u32::MAX);
        self.exhausted_until = Lately::at(until);
    }

    pub(crate) fn is_exhausted(&self, cost: u64, now: Timestamp) -> bool {
        self.exhausted_until.is_soon(now) && cost >= u64::from(self.exhausted_from)
    }

    /// The clock was set back: whatever was said in what is now the future may be said and asked again.
    pub(crate) fn forget_times(&mut self, now: Timestamp) {
        self.reported = Lately::long_before(now);
        self.exhausted_until = self.reported;
    }

    /// Takes back what this node spent itself; says how much of it that is.
    pub(crate) fn give_back(&mut self, cost: u64) -> u64 {
        // A total of its own: a smaller `spent` would be lost in a maximum. What a reset forgave is not spent any more.
        let Aside { refunded, forgiven, .. } = self.aside.get();
        let own = cost.min(self.spent.saturating_sub(refunded).saturating_sub(forgiven));
        self.aside.change(|aside| aside.refunded = aside.refunded.saturating_add(own));
        self.unsettle(own);
        own
    }

    /// A refund that the owner is to do, since this node did not spend it or has no room for it.
    pub(crate) fn give(&mut self, cost: u64) {
        let cost = cost.min(MOST_AT_ONCE);
        self.aside.change(|aside| aside.given = aside.given.saturating_add(cost));
        self.unsettle(cost);
    }

    /// A debit that the owner is to do, since this node holds too little.
    pub(crate) fn owe(&mut self, cost: u64) {
        let cost = cost.min(MOST_AT_ONCE);
        self.aside.change(|aside| aside.owed = aside.owed.saturating_add(cost));
        self.unsettle(cost);
    }

    pub(crate) fn refuse(&mut self, cost: u64) {
        let cost = cost.min(MOST_AT_ONCE);
        self.aside.change(|aside| aside.refused = aside.refused.saturating_add(cost));
        self.unsettle(cost);
    }

    /// Debits what is not needed here, before anybody is told. Says how much that was.
    pub(crate) fn give_up(&mut self, keep: u64) -> u64 {
        let surplus = u64::try_from(self.unspent().saturating_sub(signed(keep))).unwrap_or(0);
        self.returned = self.returned.saturating_add(surplus);
        self.unsettle(surplus);
        surplus
    }

    pub(crate) fn report(&self) -> Report {
        let Aside { serial, birth, refused, refunded, given, owed, .. } = self.aside.get();
        Report {
            serial,
            birth: if serial == 0 { birth } else { 0 },
            spent: self.spent,
            returned: self.returned,
            granted_seen: self.granted,
            refused,
            refunded,
            given,
            owed,
            eventual: false,
        }
    }

    /// Whether the owner has to hear of something new.
    pub(crate) fn has_news(&self) -> bool {
        self.is_news
    }

    /// Whether the owner has not confirmed all that it must not miss.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.is_unsettled
    }

    pub(crate) fn told(&mut self, now: Timestamp) {
        self.is_news = false;
        self.reported = Lately::at(now);
    }

    /// The owner opened an account for this very purse.
    pub(crate) fn adopt(&mut self, serial: u64) {
        self.aside.change(|aside| {
            if aside.serial == 0 {
                aside.serial = serial;
            }
        });
    }

    /// Whether a word says that the counter was reset since.
    pub(crate) fn is_reset_by(&self, word: &Word) -> bool {
        let Aside { serial, resets, .. } = self.aside.get();
        word.serial == serial && word.resets > resets
    }

    /// Hears the owner, if it speaks of this purse and not of one that was here before.
    pub(crate) fn hear(&mut self, word: &Word) {
        if word.serial != self.serial() {
            return;
        }
        self.is_news |= word.granted > self.granted;
        self.granted = self.granted.max(word.granted);
        if self.is_reset_by(word) {
            let spent = self.spent;
            self.aside.change(|aside| {
                aside.resets = word.resets;
                aside.forgiven = spent.saturating_sub(aside.refunded);
            });
            self.exhausted_until = Lately::default();
        }
        // More than this purse ever said was said by the one before it, and less was said before the last of it.
        if word.settled_seen == self.report().settling() {
            self.is_unsettled = false;
        }
        self.left = word.left;
        self.others = self.others.max(word.others);
    }
}

/// A total as a number that may be subtracted from; totals past it do not occur.
#[inline]
pub(crate) fn signed(total: u64) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}
