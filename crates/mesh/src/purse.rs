//! What a member holds of one counter: rights it may spend without asking. All numbers are
//! totals of one page, so they only grow, and whoever hears of them takes the larger one.
//! Invariant: what is spent and returned never exceeds what it started with and was granted,
//! but for what `on_unreachable` allows, and that is counted.

use crate::frame::{Report, Word};
use hivemind_core::Timestamp;

/// A member's side of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Purse {
    /// Which account of the owner's this is, where there may be several one after the other; 0 before the first.
    pub(crate) serial: u64,
    /// What it began with: a share of the window, or what it held when the view changed.
    pub(crate) start: u64,
    granted: u64,
    returned: u64,
    spent: u64,
    refused: u64,
    /// What was spent here and given back.
    refunded: u64,
    /// How often the owner reset the counter, and what had been spent here by then.
    resets: u64,
    forgiven: u64,
    /// The sum of all totals when the owner last heard of them: they only grow, so an equal sum is no news.
    told: u64,
    returned_seen: u64,
    /// What the owner said was left, and what the others had spent.
    pub(crate) left: i64,
    pub(crate) others: u64,
    /// Until then the owner need not be asked again for this much or more: it does not have it.
    exhausted_until: Timestamp,
    exhausted_from: u64,
    /// When it last reported.
    pub(crate) reported: Timestamp,
}

impl Purse {
    pub(crate) fn new(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// A lower limit takes its part of the share away.
    pub(crate) fn lower_start(&mut self, by: u64) {
        self.start = self.start.saturating_sub(by);
    }

    /// What may be spent here and now. Below zero where a limit was lowered, or lent beyond.
    #[inline]
    pub(crate) fn unspent(&self) -> i64 {
        let held = self.start.saturating_add(self.granted).saturating_add(self.refunded);
        let gone = self.returned.saturating_add(self.spent);
        signed(held).saturating_sub(signed(gone))
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// What was spent here and not given back, since the counter was last reset.
    pub(crate) fn net_spent(&self) -> i64 {
        signed(self.spent.saturating_sub(self.refunded).saturating_sub(self.forgiven))
    }

    #[inline]
    pub(crate) fn spend(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
    }

    /// The owner does not have `cost` or more, and is not asked for it before `until`.
    pub(crate) fn remember_exhausted(&mut self, cost: u64, until: Timestamp) {
        (self.exhausted_from, self.exhausted_until) = (cost, until);
    }

    pub(crate) fn is_exhausted(&self, cost: u64, now: Timestamp) -> bool {
        now < self.exhausted_until && cost >= self.exhausted_from
    }

    /// Takes back what this node spent itself; says how much of it that is.
    pub(crate) fn give_back(&mut self, cost: u64) -> u64 {
        // A total of its own: a smaller `spent` would be lost in a maximum.
        let own = cost.min(self.spent.saturating_sub(self.refunded));
        self.refunded = self.refunded.saturating_add(own);
        own
    }

    pub(crate) fn refuse(&mut self, cost: u64) {
        self.refused = self.refused.saturating_add(cost);
    }

    /// Debits what is not needed here, before anybody is told. Says how much that was.
    pub(crate) fn give_up(&mut self, keep: u64) -> u64 {
        let surplus = u64::try_from(self.unspent().saturating_sub(signed(keep))).unwrap_or(0);
        self.returned = self.returned.saturating_add(surplus);
        surplus
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            serial: self.serial,
            spent: self.spent,
            returned: self.returned,
            granted_seen: self.granted,
            refused: self.refused,
            eventual: false,
        }
    }

    fn sum(&self) -> u64 {
        let totals = [self.spent, self.returned, self.granted, self.refused];
        totals.iter().fold(0, |sum: u64, total| sum.wrapping_add(*total))
    }

    /// Whether the owner has to hear of something: news, or returns that it has not confirmed.
    pub(crate) fn has_news(&self) -> bool {
        self.sum() != self.told
    }

    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.returned > self.returned_seen
    }

    pub(crate) fn told(&mut self, now: Timestamp) {
        self.told = self.sum();
        self.reported = now;
    }

    /// The owner opened an account for this very purse.
    pub(crate) fn adopt(&mut self, serial: u64) {
        if self.serial == 0 {
            self.serial = serial;
        }
    }

    /// Whether a word says that the counter was reset since.
    pub(crate) fn is_reset_by(&self, word: &Word) -> bool {
        word.serial == self.serial && word.resets > self.resets
    }

    /// Hears the owner, if it speaks of this purse and not of one that was here before.
    pub(crate) fn hear(&mut self, word: &Word) {
        if word.serial != self.serial {
            return;
        }
        self.granted = self.granted.max(word.granted);
        self.returned_seen = self.returned_seen.max(word.returned_seen);
        if word.resets > self.resets {
            self.resets = word.resets;
            self.forgiven = self.spent.saturating_sub(self.refunded);
            self.exhausted_until = Timestamp::EPOCH;
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
