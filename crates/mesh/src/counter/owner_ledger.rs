//! The owner's ledger of a counter window: the counter itself, kept by the pure algorithm, and an account for
//! each member that sent an update. A grant is debited before it is sent; a return is refunded when it arrives.
//! Amounts in flight are therefore spent, and the sum that all nodes may spend never exceeds the limit.
//!
//! A bucket has no window end at which granted tokens lapse. Tokens held by members occupy room in it: its
//! capacity is the burst minus what is granted and not yet known to be spent. So at most one burst can be spent
//! at once, here and elsewhere together.

use crate::counter::cold_fields::ColdFields;
use crate::counter::lease::MOST_AT_ONCE;
use crate::frame::MemberReport;
use crate::view::Member;
use crate::view::View;
use hivemind_core::algorithm::{Action, State, Step, step, step_in_place};
use hivemind_core::store::Verdict;
use hivemind_core::{Cost, Limit, Timestamp};
use std::sync::Arc;
use std::time::Duration;

mod account;
mod allowance;
mod audit;
mod grants;
mod inspection;
mod reset;
mod sliding;
mod start;
mod undo;

pub(crate) use account::Account;
use account::ReportChanges;
pub(crate) use undo::given_back;

/// How recently an account must have been active to share what is left.
const ACTIVE: Duration = Duration::from_secs(1);
/// How far ahead of this node's clock an account number sent by a member may be.
const MOST_AHEAD: Duration = Duration::from_secs(60);
/// The most accounts of a counter window: two generations of every possible node.
const MOST_ACCOUNTS: usize = 256;

/// The owner's side of a counter window.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnerLedger {
    pub(crate) state: Option<State>,
    accounts: Vec<Account>,
    /// What this node spent itself.
    spent: u64,
    /// What each member holds from the start of the window: its share.
    share: u64,
    /// The view whose members have such a share, and how many do.
    began: Option<Arc<View>>,
    shares: u32,
    /// Whether members may return allowance of an earlier view.
    inherited: bool,
    /// Whether the last owner may still send the bucket's level.
    awaits: bool,
    /// For a sliding window: the last known count of the previous window.
    carried: u32,
    /// The largest limit that the window had.
    most: u32,
    cold: ColdFields<LedgerColdFields>,
}

/// Fields that most ledgers do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LedgerColdFields {
    /// What this node refunded of its own and members' spending, and what it refused.
    refunded: u64,
    refused: u64,
    /// The debited part of the spending, here and by members: a debit is not an admission, whatever its size.
    debited: u64,
    /// What had been refused when the counter was last reset.
    refused_before: u64,
    /// The members' refunds that were applied.
    given_done: u64,
    /// The most that may still be returned of holdings from an earlier view.
    missing: u64,
    /// How often members had to restart their spent totals: the counter was reset, or something was refunded
    /// that they may spend.
    resets: u64,
    /// The last account number.
    serials: u64,
    /// When it last recalled allowance.
    recalled: Option<Timestamp>,
    /// What was granted of a bucket before its last owner had sent the level.
    granted_early: u64,
}

impl OwnerLedger {
    /// The ledger of a window that begins in this view: each other member holds `share`.
    pub(crate) fn begin(limit: &Limit, share: u64, view: &Arc<View>, now: Timestamp) -> Self {
        let shares = u32::try_from(view.members().len()).unwrap_or(u32::MAX).saturating_sub(1);
        let mut ledger = Self { share, shares, began: Some(Arc::clone(view)), ..Self::default() };
        ledger.may_reach(limit);
        let granted = share.saturating_mul(u64::from(shares));
        if granted > 0 {
            ledger.apply(limit, Action::Debit, granted, now);
        }
        ledger
    }

    /// The ledger of a window that began in an earlier view. This node brings `held` along; the rest is spent,
    /// lost, or held by others, which have at most `most` of it.
    pub(crate) fn inherited(limit: &Limit, held: u64, most: u64, now: Timestamp) -> Self {
        let mut ledger = Self { inherited: true, ..Self::default() };
        let rest = u64::from(limit.burst()).saturating_sub(held);
        ledger.cold.change(|cold| cold.missing = rest.min(most));
        ledger.may_reach(limit);
        ledger.apply(limit, Action::Debit, rest, now);
        ledger
    }

    /// A reload: members that begin with more from now on hold more. Members that held more keep it until their
    /// window ends, so nothing is returned.
    pub(crate) fn change_share(&mut self, limit: &Limit, share: u64, now: Timestamp) {
        self.may_reach(limit);
        let more = share.saturating_sub(self.share);
        if more > 0 && !self.inherited {
            self.apply(limit, Action::Debit, more.saturating_mul(u64::from(self.shares)), now);
            self.share = share;
        }
    }

    /// The limit that the ledger keeps: tokens held by members occupy room in a bucket.
    pub(crate) fn room(&self, limit: &Limit) -> Limit {
        let Limit::TokenBucket(bucket) = limit else { return *limit };
        let held = self.held();
        if held == 0 {
            return *limit;
        }
        let burst = u64::from(limit.burst()).saturating_sub(held).max(1);
        let burst = u32::try_from(burst).unwrap_or(u32::MAX);
        bucket.with_burst(burst).map_or(*limit, Limit::TokenBucket)
    }

    /// Applies one action to the counter.
    pub(crate) fn apply(&mut self, limit: &Limit, action: Action, cost: u64, now: Timestamp) -> Step {
        let done = step(&self.room(limit), self.state, action, Cost::new(cost), now);
        self.state = Some(done.state);
        done
    }

    /// Spends here if it fits. Returns `None` if it does not; then nothing was recorded.
    pub(crate) fn spend(&mut self, limit: &Limit, cost: u64, now: Timestamp) -> Option<Verdict> {
        let spend = Action::Spend { count_refusal: false };
        let done = step(&self.room(limit), self.state, spend, Cost::new(cost), now);
        self.keep_spent(&done, cost)
    }

    /// The same with a known room.
    #[inline]
    pub(crate) fn spend_of(&mut self, room: &Limit, cost: u64, now: Timestamp) -> Option<Verdict> {
        let spend = Action::Spend { count_refusal: false };
        let done = step_in_place(room, self.state, spend, Cost::new(cost), now);
        self.keep_spent(&done, cost)
    }

    #[inline]
    fn keep_spent(&mut self, done: &Step, cost: u64) -> Option<Verdict> {
        if !done.verdict.is_admitted() {
            return None;
        }
        self.state = Some(done.state);
        self.spent = self.spent.saturating_add(cost);
        Some(done.verdict)
    }

    pub(crate) fn peek(&self, limit: &Limit, cost: u64, now: Timestamp) -> Step {
        step(&self.room(limit), self.state, Action::Peek, Cost::new(cost), now)
    }

    /// What could still be granted.
    pub(crate) fn left(&self, limit: &Limit, now: Timestamp) -> u64 {
        self.peek(limit, 0, now).verdict.available
    }

    pub(crate) fn spent_here(&self) -> u64 {
        self.spent
    }

    pub(crate) fn note_spent(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
    }

    pub(crate) fn note_refused(&mut self, cost: u64) {
        self.cold.change(|cold| cold.refused = cold.refused.saturating_add(cost));
    }

    pub(crate) fn note_refunded(&mut self, cost: u64) {
        self.cold.change(|cold| cold.refunded = cold.refunded.saturating_add(cost));
    }

    /// Hits refused here and elsewhere, where the counter itself does not count them.
    pub(crate) fn refused(&self, decides: bool) -> u64 {
        if decides {
            return 0;
        }
        self.all_refused().saturating_sub(self.cold.get().refused_before)
    }

    fn all_refused(&self) -> u64 {
        let there = self.accounts.iter().map(|account| account.cold.get().refused);
        there.fold(self.cold.get().refused, u64::saturating_add)
    }

    /// Refunds that members left to the owner.
    fn all_given(&self) -> u64 {
        self.accounts.iter().map(|account| account.cold.get().given).fold(0, u64::saturating_add)
    }

    /// Applies refunds that members left to the owner, as far as the spending is known. The rest is dropped, as
    /// everywhere: kept, it would refund later spending. Returns the verdict of the refund, if any.
    fn refund_given(&mut self, limit: &Limit, decides: bool, now: Timestamp) -> Option<Verdict> {
        let given = self.all_given();
        let reported = given.saturating_sub(self.cold.get().given_done);
        self.cold.change(|cold| cold.given_done = given);
        let due = reported.min(self.refundable(limit, decides));
        if due == 0 {
            return None;
        }
        self.note_refunded(due);
        let verdict = self.apply(limit, Action::Refund, whole(due), now).verdict;
        self.pass_on(limit, due, decides, now);
        Some(verdict)
    }

    /// Brings a bucket up to date with the room it had so far. Spending that becomes known makes room from now
    /// on: earned earlier, it would be earned twice.
    fn earn(&mut self, limit: &Limit, now: Timestamp) {
        if matches!(limit, Limit::TokenBucket(_)) && self.held() > 0 {
            self.apply(limit, Action::Peek, 0, now);
        }
    }

    /// Applies a member update: returns are refunded now; refunds and debits left to the owner are applied.
    /// Returns the verdict of the refunds, if any.
    pub(crate) fn apply_report(
        &mut self,
        limit: &Limit,
        member: &Arc<Member>,
        report: &MemberReport,
        (decides, now): (bool, Timestamp),
    ) -> Option<Verdict> {
        self.earn(limit, now);
        if !self.make_room_for(limit, member, now) {
            return None;
        }
        let account = self.account(member, now);
        account.active = account.active.or_later(now);
        if report.serial != account.serial() {
            return None; // An update of an expired account.
        }
        let again = account.again();
        let ReportChanges { returned, owed, refused, over } = account.merge(report);
        let given_back = account.again().saturating_sub(again);
        self.cold.change(|cold| cold.given_done = cold.given_done.saturating_sub(over));
        // A member never returns more than it had, whatever it reports.
        let back = self.take_back(member, returned);
        if back > 0 {
            self.apply(limit, Action::Refund, back, now);
        }
        if self.inherited {
            self.account_for(member, given_back);
        }
        if given_back > 0 && !decides && !matches!(limit, Limit::TokenBucket(_)) {
            self.take_off_refunds(limit, now);
        }
        if owed > 0 {
            self.apply(limit, Action::Debit, whole(owed), now);
            self.note_debited(owed);
        }
        if refused > 0 && decides {
            self.apply(limit, Action::Count, whole(refused), now);
        }
        self.refund_given(limit, decides, now)
    }

    /// When it last recalled allowance.
    pub(crate) fn recalled(&self) -> Option<Timestamp> {
        self.cold.get().recalled
    }

    pub(crate) fn note_recalled(&mut self, now: Timestamp) {
        self.cold.change(|cold| cold.recalled = Some(now));
    }

    pub(crate) fn is_inherited(&self) -> bool {
        self.inherited
    }

    pub(crate) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// What all nodes have spent, as far as this node knows.
    pub(crate) fn spent(&self) -> u64 {
        // Members may report any totals: the sum saturates.
        self.accounts.iter().map(|account| account.spent).fold(self.spent, u64::saturating_add)
    }
}

/// A total reported by a member: the maximum that one charge adds stands for an unbounded amount.
fn whole(total: u64) -> u64 {
    if total >= MOST_AT_ONCE { u64::MAX } else { total }
}
