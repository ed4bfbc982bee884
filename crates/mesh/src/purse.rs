//! What a member holds of one counter: rights it may spend without asking. All numbers are
//! totals of one page, so they only grow, and whoever hears of them takes the larger one.
//! Invariant: what is spent and returned never exceeds what it started with and was granted,
//! but for what `on_unreachable` allows, and that is counted.

use crate::frame::{Report, Word};
use hivemind_core::Timestamp;

/// What one charge adds to a total at most: past any limit, and so little that a total never reaches its end.
pub(crate) const MOST_AT_ONCE: u64 = 1 << 40;

/// A member's side of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Purse {
    /// Which account of the owner's this is, where there may be several one after the other; 0 before the first.
    pub(crate) serial: u64,
    /// When it was made, if its page has no end and may see another one after it; else 0.
    birth: u64,
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
    /// Refunds and debits that only the owner can do.
    given: u64,
    owed: u64,
    /// The sum of all totals when the owner last heard of them: they only grow, so an equal sum is no news.
    told: u64,
    settled_seen: u64,
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

    /// One for a page that has no end.
    pub(crate) fn born(now: Timestamp) -> Self {
        Self { birth: now.as_nanos() | 1, ..Self::default() }
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.birth != 0
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

    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// What went back to the owner.
    pub(crate) fn back(&self) -> u64 {
        self.returned.saturating_add(self.given)
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

    /// A refund that the owner is to do, since this node did not spend it or has no room for it.
    pub(crate) fn give(&mut self, cost: u64) {
        self.given = self.given.saturating_add(cost.min(MOST_AT_ONCE));
    }

    /// A debit that the owner is to do, since this node holds too little.
    pub(crate) fn owe(&mut self, cost: u64) {
        self.owed = self.owed.saturating_add(cost.min(MOST_AT_ONCE));
    }

    pub(crate) fn refuse(&mut self, cost: u64) {
        self.refused = self.refused.saturating_add(cost.min(MOST_AT_ONCE));
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
            birth: if self.serial == 0 { self.birth } else { 0 },
            spent: self.spent,
            returned: self.returned,
            granted_seen: self.granted,
            refused: self.refused,
            refunded: self.refunded,
            given: self.given,
            owed: self.owed,
            eventual: false,
        }
    }

    fn sum(&self) -> u64 {
        self.spent.wrapping_add(self.granted).wrapping_add(self.report().settling())
    }

    /// Whether the owner has to hear of something new.
    pub(crate) fn has_news(&self) -> bool {
        self.sum() != self.told
    }

    /// Whether the owner has not confirmed all that it must not miss.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.report().settling() > self.settled_seen
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
        if word.resets > self.resets {
            self.resets = word.resets;
            self.forgiven = self.spent.saturating_sub(self.refunded);
            self.exhausted_until = Timestamp::EPOCH;
        }
        // More than this purse ever said was said by the one before it.
        if word.settled_seen <= self.report().settling() {
            self.settled_seen = self.settled_seen.max(word.settled_seen);
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
