//! Leases: a member's allowance for one counter window, spendable without a request to the owner. All numbers
//! are totals of one window: they only grow, and a receiver takes the larger one. Invariant: spending and
//! returns never exceed the initial holding plus grants, except as `on_unreachable` allows, and that is
//! counted.

use crate::counter::cold_fields::ColdFields;
use crate::counter::recent_instant::RecentInstant;
use crate::frame::{MemberReport, OwnerUpdate};
use hivemind_core::{Limit, Timestamp};

/// The most that one charge adds to a total: above any limit, and small enough that a total never overflows.
pub(crate) const MOST_AT_ONCE: u64 = 1 << 40;

/// A member's side of a counter window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    /// The initial holding: a share of the window, or what it held when the view changed.
    pub(crate) start: u64,
    granted: u64,
    returned: u64,
    spent: u64,
    /// What the owner reported as left, and as spent by others.
    pub(crate) left: i64,
    pub(crate) others: u64,
    cold: ColdFields<LeaseColdFields>,
    /// Until then the owner is not asked again for this amount or more: it does not have it.
    exhausted_until: RecentInstant,
    exhausted_from: u32,
    /// When it was last sent to the owner.
    pub(crate) reported: RecentInstant,
    /// Whether a total has grown since then.
    is_dirty: bool,
    /// Whether a total that the owner must not miss has grown since the owner last acknowledged all of them.
    is_unacked: bool,
}

/// Fields that most leases do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LeaseColdFields {
    /// The number of its account at the owner, which may have several in sequence; 0 before the first.
    serial: u64,
    /// Its creation time if its window has no end and may have another lease later; else 0.
    birth: u64,
    refused: u64,
    /// What was spent here and refunded here.
    refunded: u64,
    /// How often the owner reset the counter, and what had been spent here by the last reset.
    resets: u64,
    forgiven: u64,
    /// Refunds and debits that only the owner can apply.
    given: u64,
    owed: u64,
}

impl Lease {
    pub(crate) fn new(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// A lease for a window without end.
    pub(crate) fn endless(now: Timestamp) -> Self {
        let cold = LeaseColdFields { birth: now.as_nanos() | 1, ..LeaseColdFields::default() };
        Self { cold: cold.into(), ..Self::default() }
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.cold.get().birth != 0
    }

    pub(crate) fn serial(&self) -> u64 {
        self.cold.get().serial
    }

    /// A lower limit reduces the share.
    pub(crate) fn lower_start(&mut self, by: u64) {
        self.start = self.start.saturating_sub(by);
    }

    /// What may be spent here now. Negative after a limit was lowered, or after spending beyond the allowance.
    #[inline]
    pub(crate) fn unspent(&self) -> i64 {
        let held = self.start.saturating_add(self.granted).saturating_add(self.cold.get().refunded);
        let gone = self.returned.saturating_add(self.spent);
        signed(held).saturating_sub(signed(gone))
    }

    /// What may be spent at once. No node alone admits more than the limit, whatever an owner grants.
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
        self.returned.saturating_add(self.cold.get().given)
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// What was spent here and not refunded, since the last reset of the counter.
    fn net_spent(&self) -> i64 {
        let LeaseColdFields { refunded, forgiven, .. } = self.cold.get();
        signed(self.spent.saturating_sub(refunded).saturating_sub(forgiven))
    }

    #[inline]
    pub(crate) fn spend(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
        self.is_dirty |= cost > 0;
    }

    /// A total that the owner must not miss has grown.
    fn mark_unacked(&mut self, by: u64) {
        self.is_dirty |= by > 0;
        self.is_unacked |= by > 0;
    }

    /// The owner does not have `cost` or more; it is not asked for it before `until`.
    pub(crate) fn remember_exhausted(&mut self, cost: u64, until: Timestamp) {
        self.exhausted_from = u32::try_from(cost).unwrap_or(u32::MAX);
        self.exhausted_until = RecentInstant::at(until);
    }

    pub(crate) fn is_exhausted(&self, cost: u64, now: Timestamp) -> bool {
        self.exhausted_until.is_soon(now) && cost >= u64::from(self.exhausted_from)
    }

    /// The clock was set back: updates and requests sent in what is now the future may be sent again.
    pub(crate) fn forget_times(&mut self, now: Timestamp) {
        self.reported = RecentInstant::long_before(now);
        self.exhausted_until = self.reported;
    }

    /// Refunds what this node spent itself. Returns how much of `cost` that is.
    pub(crate) fn give_back(&mut self, cost: u64) -> u64 {
        // A separate total: a smaller `spent` would be lost in a maximum. Spending before a reset cannot be
        // refunded any more.
        let LeaseColdFields { refunded, forgiven, .. } = self.cold.get();
        let own = cost.min(self.spent.saturating_sub(refunded).saturating_sub(forgiven));
        self.cold.change(|cold| cold.refunded = cold.refunded.saturating_add(own));
        self.mark_unacked(own);
        own
    }

    /// A refund that the owner applies, since this node did not spend it or has no room for it.
    pub(crate) fn give(&mut self, cost: u64) {
        let cost = cost.min(MOST_AT_ONCE);
        self.cold.change(|cold| cold.given = cold.given.saturating_add(cost));
        self.mark_unacked(cost);
    }

    /// A debit that the owner applies, since this node holds too little.
    pub(crate) fn owe(&mut self, cost: u64) {
        let cost = cost.min(MOST_AT_ONCE);
        self.cold.change(|cold| cold.owed = cold.owed.saturating_add(cost));
        self.mark_unacked(cost);
    }

    pub(crate) fn refuse(&mut self, cost: u64) {
        let cost = cost.min(MOST_AT_ONCE);
        self.cold.change(|cold| cold.refused = cold.refused.saturating_add(cost));
        self.mark_unacked(cost);
    }

    /// Returns allowance above `keep` to the owner. It is deducted here before the update is sent. Returns the
    /// amount.
    pub(crate) fn give_up(&mut self, keep: u64) -> u64 {
        let surplus = u64::try_from(self.unspent().saturating_sub(signed(keep))).unwrap_or(0);
        self.returned = self.returned.saturating_add(surplus);
        self.mark_unacked(surplus);
        surplus
    }

    pub(crate) fn report(&self) -> MemberReport {
        let LeaseColdFields { serial, birth, refused, refunded, given, owed, .. } = self.cold.get();
        MemberReport {
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

    /// Whether there is an update to send to the owner.
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Whether the owner has not acknowledged all totals that it must not miss.
    pub(crate) fn is_unacked(&self) -> bool {
        self.is_unacked
    }

    pub(crate) fn mark_sent(&mut self, now: Timestamp) {
        self.is_dirty = false;
        self.reported = RecentInstant::at(now);
    }

    /// The owner opened an account for this lease.
    pub(crate) fn adopt(&mut self, serial: u64) {
        self.cold.change(|cold| {
            if cold.serial == 0 {
                cold.serial = serial;
            }
        });
    }

    /// Whether an owner update reports a reset of the counter since.
    pub(crate) fn is_reset_by(&self, update: &OwnerUpdate) -> bool {
        let LeaseColdFields { serial, resets, .. } = self.cold.get();
        update.serial == serial && update.resets > resets
    }

    /// Applies an owner update if it refers to this lease and not to an earlier one.
    pub(crate) fn apply_update(&mut self, update: &OwnerUpdate) {
        if update.serial != self.serial() {
            return;
        }
        self.is_dirty |= update.granted > self.granted;
        self.granted = self.granted.max(update.granted);
        if self.is_reset_by(update) {
            let spent = self.spent;
            self.cold.change(|cold| {
                cold.resets = update.resets;
                cold.forgiven = spent.saturating_sub(cold.refunded);
            });
            self.exhausted_until = RecentInstant::default();
        }
        // A larger sum refers to an earlier lease, and a smaller one to an earlier update of this one.
        if update.settled_seen == self.report().settling() {
            self.is_unacked = false;
        }
        self.left = update.left;
        self.others = self.others.max(update.others);
    }
}

/// A total as a signed number; larger totals do not occur.
#[inline]
pub(crate) fn signed(total: u64) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}
