//! Allowance accounting: what members can have had, as the owner accepts it: grants to and shares of that
//! generation. Reports beyond that are acknowledged, so that they stop, and have no effect.

use super::{Account, MOST_ACCOUNTS, OwnerLedger};
use crate::view::Member;
use crate::view::NodeId;
use crate::view::View;
use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Timestamp};

impl Account {
    /// The allowance that this generation was granted or began with.
    fn allowance(&self, share: u64) -> u64 {
        self.granted.saturating_add(if self.has_share { share } else { 0 })
    }

    /// Its refunds, up to the reported spending: that amount may be spent there again.
    pub(super) fn again(&self) -> u64 {
        self.cold.get().refunded.min(self.spent)
    }

    /// The most it could ever spend of the allowance: what it returned is gone.
    fn most_spent(&self, share: u64) -> u64 {
        self.allowance(share).saturating_add(self.again()).saturating_sub(self.returned_allowance)
    }

    /// The most it may still spend, as far as reported.
    pub(super) fn held(&self, share: u64) -> u64 {
        self.most_spent(share).saturating_sub(self.spent).saturating_add(self.cold.get().stale)
    }

    /// Its spending minus refunds, up to its allowance.
    fn net_spent(&self, share: u64) -> u64 {
        self.spent.min(self.most_spent(share)).saturating_sub(self.again())
    }
}

impl OwnerLedger {
    /// Whether a generation began with a share of the window.
    pub(super) fn has_share(&self, member: &Member) -> bool {
        self.share > 0 && self.began.as_ref().is_some_and(|view| view.has(member))
    }

    /// What each member holds, as far as is known: members without an update hold their share.
    pub(crate) fn for_each_holding(&self, owner: &NodeId, mut visit: impl FnMut(&NodeId, u64)) {
        for account in &self.accounts {
            visit(&account.member.id, account.held(self.share));
        }
        if let Some(view) = self.began.as_ref().filter(|_| self.share > 0) {
            let silent = view.members().iter().filter(|member| member.id != *owner && !self.knows(member));
            silent.for_each(|member| visit(&member.id, self.share));
        }
    }

    /// How much a reported total of returns brings back. Holdings from an earlier view bring back, over all
    /// members, at most what was missing when the ledger began.
    pub(super) fn take_back(&mut self, member: &Member, returned: u64) -> u64 {
        let (share, missing) = (self.share, self.cold.get().missing);
        let Some(account) = self.accounts.iter_mut().find(|account| account.is_of(member)) else {
            return 0;
        };
        let came = account.returned_allowance.saturating_add(account.cold.get().brought);
        let due = returned.saturating_sub(came);
        let returned_allowance = due.min(account.allowance(share).saturating_sub(account.returned_allowance));
        let brought = (due - returned_allowance).min(missing);
        account.returned_allowance = account.returned_allowance.saturating_add(returned_allowance);
        account.cold.change(|cold| {
            cold.brought = cold.brought.saturating_add(brought);
            cold.made_up = due - returned_allowance - brought;
        });
        self.cold.change(|cold| cold.missing = missing - brought);
        returned_allowance.saturating_add(brought)
    }

    /// Spending beyond the allowance came from holdings of an earlier view: it is accounted for and does not
    /// come back, except for the part `given_back` since.
    pub(super) fn account_for(&mut self, member: &Member, given_back: u64) {
        let (share, missing) = (self.share, self.cold.get().missing);
        let Some(account) = self.accounts.iter_mut().find(|account| account.is_of(member)) else { return };
        let known = account.cold.get().brought_spent;
        let beyond = account.spent.saturating_sub(account.most_spent(share));
        if missing == 0 && known == 0 || beyond <= known && given_back == 0 {
            return;
        }
        let still = known.saturating_sub(given_back);
        let missing = missing.saturating_add(known - still);
        let more = beyond.saturating_sub(still).min(missing);
        account.cold.change(|cold| cold.brought_spent = still.saturating_add(more));
        self.cold.change(|cold| cold.missing = missing - more);
    }

    /// The most that others may return of this counter.
    pub(crate) fn outstanding(&self) -> u64 {
        self.held().saturating_add(self.cold.get().missing)
    }

    /// Whether members may hold something to recall. Where the owner decides everything they hold nothing of
    /// its windows; of a bucket they may, from before that, or for `bounded` requests.
    pub(crate) fn may_recall(&self, limit: &Limit, decides: bool) -> bool {
        if decides && !matches!(limit, Limit::TokenBucket(_)) {
            return false;
        }
        self.held() > 0 || self.inherited && !decides
    }

    /// How much can be refunded. Where allowance is granted, the ledger contains unspent allowance, which must
    /// not come back by a refund; a bucket has the room for it.
    pub(crate) fn refundable(&self, limit: &Limit, decides: bool) -> u64 {
        if decides || matches!(limit, Limit::TokenBucket(_)) {
            return u64::MAX;
        }
        self.all_net_spent().saturating_sub(self.cold.get().refunded)
    }

    /// Spending here, plus members' spending that they did not refund themselves.
    fn all_net_spent(&self) -> u64 {
        let there = self.accounts.iter().map(|account| account.net_spent(self.share));
        there.fold(self.spent, u64::saturating_add)
    }

    /// The most that one member has spent and could still spend, if it got all that is `left`.
    pub(super) fn most_by_one(&self, left: u64) -> u64 {
        let by_one = |account: &Account| {
            let spent = account.spent.saturating_sub(account.again());
            spent.saturating_add(account.held(self.share)).saturating_add(left)
        };
        self.accounts.iter().map(by_one).max().unwrap_or(0)
    }

    /// A member refunded spending that was already refunded here. Takes the duplicate off again.
    pub(super) fn take_off_refunds(&mut self, limit: &Limit, now: Timestamp) {
        let twice = self.cold.get().refunded.saturating_sub(self.all_net_spent());
        if twice > 0 {
            self.cold.change(|cold| cold.refunded -= twice);
            self.apply(limit, Action::Debit, twice, now);
        }
    }

    /// Whether there is an account for a member, or room for one. A bucket's account without holdings may be
    /// removed: its member gets another one.
    pub(crate) fn make_room_for(&mut self, limit: &Limit, member: &Member, now: Timestamp) -> bool {
        if self.knows(member) {
            return true;
        }
        self.forget_generations_before(limit, member);
        if self.accounts.len() < MOST_ACCOUNTS {
            return true;
        }
        if matches!(limit, Limit::TokenBucket(_)) {
            let share = self.share;
            let idle = self.accounts.iter().enumerate().filter(|(_, account)| account.held(share) == 0);
            if let Some((index, _)) = idle.max_by_key(|(_, account)| account.active.ago(now)) {
                let given = self.accounts.remove(index).cold.get().given;
                self.forget_given(given);
                return true;
            }
        }
        false
    }

    /// A node may send a new generation with each frame. Of its earlier generations, which do not come back,
    /// the last one is kept, and the one that began with a share: its returns must not count twice. A bucket's
    /// accounts with holdings occupy room until those members are known to be dead.
    fn forget_generations_before(&mut self, limit: &Limit, member: &Member) {
        let (share, is_bucket) = (self.share, matches!(limit, Limit::TokenBucket(_)));
        let is_earlier = |other: &Member| other.id == member.id && other.generation < member.generation;
        let earlier = self.accounts.iter().map(|account| &account.member).filter(|other| is_earlier(other));
        let Some(last) = earlier.map(|other| other.generation).max() else { return };
        let mut given = 0_u64;
        self.accounts.retain(|account| {
            let is_before = is_earlier(&account.member) && account.member.generation < last;
            let goes = is_before && !account.has_share && !(is_bucket && account.held(share) > 0);
            if goes {
                given = given.saturating_add(account.cold.get().given);
            }
            !goes
        });
        self.forget_given(given);
    }

    /// Removed accounts had refunded this amount; the others' sum excludes it.
    fn forget_given(&mut self, given: u64) {
        self.cold.change(|cold| cold.given_done = cold.given_done.saturating_sub(given));
    }

    /// Removes a bucket's accounts of dead generations: their holdings can no longer be spent.
    pub(crate) fn remove_accounts(
        &mut self,
        limit: &Limit,
        is_over: impl Fn(&Member) -> bool,
        now: Timestamp,
    ) {
        if matches!(limit, Limit::TokenBucket(_))
            && self.accounts.iter().any(|account| is_over(&account.member))
        {
            self.earn(limit, now);
            let over = self.accounts.extract_if(.., |account| is_over(&account.member));
            let given = over.map(|account| account.cold.get().given).fold(0, u64::saturating_add);
            self.forget_given(given);
        }
    }

    /// Removes the accounts of members that a view declares dead.
    pub(crate) fn remove_dead_accounts(&mut self, limit: &Limit, view: &View, now: Timestamp) {
        self.remove_accounts(limit, |member| view.gone.contains(member), now);
    }
}
