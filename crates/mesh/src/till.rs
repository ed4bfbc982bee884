//! The owner's side of a page: the counter itself, kept by the pure algorithm, and an account
//! for each member that spoke. A grant is a spending on the counter, made before it is told;
//! a return is a refund, made when it is heard. So whatever is in flight is spent, and the sum
//! of what all may spend is never more than the limit.
//!
//! A bucket has no window at whose end lent tokens lapse. Those that members hold take up room
//! in it: its capacity is the burst less what is lent and not yet known to be spent. So what
//! can be spent at once, here and elsewhere, never exceeds one burst.

use crate::annex::Annex;
use crate::frame::Report;
use crate::member::Member;
use crate::purse::MOST_AT_ONCE;
use crate::view::View;
use hivemind_core::algorithm::{Action, State, Step, step, step_in_place};
use hivemind_core::store::Verdict;
use hivemind_core::{Cost, Limit, Timestamp};
use std::sync::Arc;
use std::time::Duration;

mod account;
mod audit;
mod lending;
mod reset;
mod rights;
mod sliding;
mod start;
mod survey;
mod undo;

pub(crate) use account::Account;
use account::News;
pub(crate) use undo::given_back;

/// How long ago an account may have spoken to count among those that share what is left.
const ACTIVE: Duration = Duration::from_secs(1);
/// How far ahead of this node's clock a number of an account may be that a member says it has.
const MOST_AHEAD: Duration = Duration::from_secs(60);
/// The most accounts of a page: two runs of every node there may be.
const MOST_ACCOUNTS: usize = 256;

/// The owner's side of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Till {
    pub(crate) state: Option<State>,
    accounts: Vec<Account>,
    /// What this node spent itself.
    spent: u64,
    /// What members hold from the start of the page, each of them: their share of the window.
    share: u64,
    /// The view that says who has such a share, and how many do.
    began: Option<Arc<View>>,
    shares: u32,
    /// Whether members may return what they held under an earlier view.
    inherited: bool,
    /// Whether its last owner may still say what a bucket held.
    awaits: bool,
    /// Of a sliding window: what it knows the last one to have counted.
    carried: u32,
    /// The largest limit that the page had.
    most: u32,
    aside: Annex<Aside>,
}

/// What most tills have none of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Aside {
    /// What this node gave back of what it and members spent, and what it refused.
    refunded: u64,
    refused: u64,
    /// What of that was debited, here or by members: that is no admission, however much it is.
    debited: u64,
    /// What had been refused when the counter was last reset.
    refused_before: u64,
    /// The refunds of members that were heard of.
    given_done: u64,
    /// How much may still come back at most of what was held under an earlier view.
    missing: u64,
    /// How often members were told to reckon anew: the counter was reset, or something was given back that they may spend.
    resets: u64,
    /// The last number of an account.
    serials: u64,
    /// When it last asked for what is unspent.
    recalled: Option<Timestamp>,
    /// What was lent of a bucket before its last owner had said what it held.
    lent_early: u64,
}

impl Till {
    /// The counter of a page that begins in this view: its other members hold `share` each.
    pub(crate) fn begun(limit: &Limit, share: u64, view: &Arc<View>, now: Timestamp) -> Self {
        let shares = u32::try_from(view.members().len()).unwrap_or(u32::MAX).saturating_sub(1);
        let mut till = Self { share, shares, began: Some(Arc::clone(view)), ..Self::default() };
        till.may_reach(limit);
        let lent = share.saturating_mul(u64::from(shares));
        if lent > 0 {
            till.apply(limit, Action::Debit, lent, now);
        }
        till
    }

    /// The counter of a page that began in an earlier view: this node brings `held` along, and the rest is spent, lost, or with
    /// those that held it, who have no more than `most` of it.
    pub(crate) fn inherited(limit: &Limit, held: u64, most: u64, now: Timestamp) -> Self {
        let mut till = Self { inherited: true, ..Self::default() };
        let rest = u64::from(limit.burst()).saturating_sub(held);
        till.aside.change(|aside| aside.missing = rest.min(most));
        till.may_reach(limit);
        till.apply(limit, Action::Debit, rest, now);
        till
    }

    /// A reload: members that begin with more from now on hold more. Those that held more keep it
    /// until their window is over, so nothing comes back.
    pub(crate) fn change_share(&mut self, limit: &Limit, share: u64, now: Timestamp) {
        self.may_reach(limit);
        let more = share.saturating_sub(self.share);
        if more > 0 && !self.inherited {
            self.apply(limit, Action::Debit, more.saturating_mul(u64::from(self.shares)), now);
            self.share = share;
        }
    }

    /// The limit that the counter keeps: a bucket's tokens that members hold take up room in it.
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

    /// Does one thing to the counter.
    pub(crate) fn apply(&mut self, limit: &Limit, action: Action, cost: u64, now: Timestamp) -> Step {
        let done = step(&self.room(limit), self.state, action, Cost::new(cost), now);
        self.state = Some(done.state);
        done
    }

    /// Spends here if it fits. `None` says that it does not, and that nothing was recorded.
    pub(crate) fn spend(&mut self, limit: &Limit, cost: u64, now: Timestamp) -> Option<Verdict> {
        let spend = Action::Spend { count_refusal: false };
        let done = step(&self.room(limit), self.state, spend, Cost::new(cost), now);
        self.keep_spent(&done, cost)
    }

    /// The same, of room that is known.
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
        self.aside.change(|aside| aside.refused = aside.refused.saturating_add(cost));
    }

    pub(crate) fn note_refunded(&mut self, cost: u64) {
        self.aside.change(|aside| aside.refunded = aside.refunded.saturating_add(cost));
    }

    /// Hits that were refused here and elsewhere, where the counter itself does not count them.
    pub(crate) fn refused(&self, decides: bool) -> u64 {
        if decides {
            return 0;
        }
        self.all_refused().saturating_sub(self.aside.get().refused_before)
    }

    fn all_refused(&self) -> u64 {
        let there = self.accounts.iter().map(|account| account.aside.get().refused);
        there.fold(self.aside.get().refused, u64::saturating_add)
    }

    /// What members gave back for the owner to do.
    fn all_given(&self) -> u64 {
        self.accounts.iter().map(|account| account.aside.get().given).fold(0, u64::saturating_add)
    }

    /// Does what members gave back for the owner to do, as far as it is known to be spent. The rest is worth
    /// nothing, as it is everywhere: kept, it would give back what is spent later. Says what it came to.
    fn refund_given(&mut self, limit: &Limit, decides: bool, now: Timestamp) -> Option<Verdict> {
        let given = self.all_given();
        let told = given.saturating_sub(self.aside.get().given_done);
        self.aside.change(|aside| aside.given_done = given);
        let due = told.min(self.refundable(limit, decides));
        if due == 0 {
            return None;
        }
        self.note_refunded(due);
        let verdict = self.apply(limit, Action::Refund, whole(due), now).verdict;
        self.pass_on(limit, due, decides, now);
        Some(verdict)
    }

    /// Brings a bucket up to now with the room it had until now. What becomes known to be spent makes
    /// room from here on: earned before that, it would have been earned twice.
    fn earn(&mut self, limit: &Limit, now: Timestamp) {
        if matches!(limit, Limit::TokenBucket(_)) && self.held() > 0 {
            self.apply(limit, Action::Peek, 0, now);
        }
    }

    /// Hears a member: what it returned is back from now on, what it gave back or owes is done.
    /// Says what came of what it gave back, if something did.
    pub(crate) fn hear(
        &mut self,
        limit: &Limit,
        member: &Arc<Member>,
        report: &Report,
        (decides, now): (bool, Timestamp),
    ) -> Option<Verdict> {
        self.earn(limit, now);
        if !self.has_room_for(limit, member, now) {
            return None;
        }
        let account = self.account(member, now);
        account.active = account.active.or_later(now);
        if report.serial != account.serial() {
            return None; // Of an account that is over.
        }
        let again = account.again();
        let News { returned, owed, refused, over } = account.hear(report);
        let given_back = account.again().saturating_sub(again);
        self.aside.change(|aside| aside.given_done = aside.given_done.saturating_sub(over));
        // Nobody returns more than it ever had, whatever it says.
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

    /// When it last asked for what is unspent.
    pub(crate) fn recalled(&self) -> Option<Timestamp> {
        self.aside.get().recalled
    }

    pub(crate) fn note_recalled(&mut self, now: Timestamp) {
        self.aside.change(|aside| aside.recalled = Some(now));
    }

    pub(crate) fn is_inherited(&self) -> bool {
        self.inherited
    }

    pub(crate) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// What all have spent, as far as this node knows.
    pub(crate) fn spent(&self) -> u64 {
        // Members say what they like: totals too large for a number are as large as it gets.
        self.accounts.iter().map(|account| account.spent).fold(self.spent, u64::saturating_add)
    }
}

/// What a member told in a total: the most that one charge adds stands for whatever it was.
fn whole(told: u64) -> u64 {
    if told >= MOST_AT_ONCE { u64::MAX } else { told }
}
