//! What members have had, as the owner may believe it: rights that were granted or kept for that very run. Whatever a
//! member says beyond that is confirmed, so that it stops saying it, and brings nothing.

use super::{Account, MOST_ACCOUNTS, Till};
use crate::member::Member;
use crate::owner::NodeId;
use crate::view::View;
use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Timestamp};

impl Account {
    /// Rights that this run was granted, or began with.
    fn rights(&self, share: u64) -> u64 {
        self.granted.saturating_add(if self.has_share { share } else { 0 })
    }

    /// What it spent and gave back, as far as it says to have spent it: that may be spent there again.
    pub(super) fn again(&self) -> u64 {
        self.aside.get().refunded.min(self.spent)
    }

    /// All that it could ever spend of them: what it returned is gone.
    fn most_spent(&self, share: u64) -> u64 {
        self.rights(share).saturating_add(self.again()).saturating_sub(self.by_rights)
    }

    /// What it may still spend, at most, as far as it has said.
    pub(super) fn held(&self, share: u64) -> u64 {
        self.most_spent(share).saturating_sub(self.spent).saturating_add(self.aside.get().stale)
    }

    /// What it spent and did not give back, as far as it had rights to spend.
    fn net_spent(&self, share: u64) -> u64 {
        self.spent.min(self.most_spent(share)).saturating_sub(self.again())
    }
}

impl Till {
    /// Whether a run began with a share of the window.
    pub(super) fn has_share(&self, member: &Member) -> bool {
        self.share > 0 && self.began.as_ref().is_some_and(|view| view.has(member))
    }

    /// What each member holds, as far as is known: those that never spoke have their share.
    pub(crate) fn lent(&self, owner: &NodeId, mut tell: impl FnMut(&NodeId, u64)) {
        for account in &self.accounts {
            tell(&account.member.id, account.held(self.share));
        }
        if let Some(view) = self.began.as_ref().filter(|_| self.share > 0) {
            let silent = view.members().iter().filter(|member| member.id != *owner && !self.knows(member));
            silent.for_each(|member| tell(&member.id, self.share));
        }
    }

    /// What comes back of what a member says that it has returned in all. What it brought along from an earlier view
    /// is no more, over all members, than what was missing when the counter began.
    pub(super) fn take_back(&mut self, member: &Member, returned: u64) -> u64 {
        let (share, missing) = (self.share, self.aside.get().missing);
        let Some(account) = self.accounts.iter_mut().find(|account| account.is_of(member)) else {
            return 0;
        };
        let came = account.by_rights.saturating_add(account.aside.get().brought);
        let due = returned.saturating_sub(came);
        let by_rights = due.min(account.rights(share).saturating_sub(account.by_rights));
        let brought = (due - by_rights).min(missing);
        account.by_rights = account.by_rights.saturating_add(by_rights);
        account.aside.change(|aside| {
            aside.brought = aside.brought.saturating_add(brought);
            aside.made_up = due - by_rights - brought;
        });
        self.aside.change(|aside| aside.missing = missing - brought);
        by_rights.saturating_add(brought)
    }

    /// What a member spent beyond its rights was of what it brought along: it is accounted for, and does not come back, but for
    /// the part that it says to have `given_back` since.
    pub(super) fn account_for(&mut self, member: &Member, given_back: u64) {
        let (share, missing) = (self.share, self.aside.get().missing);
        let Some(account) = self.accounts.iter_mut().find(|account| account.is_of(member)) else { return };
        let known = account.aside.get().brought_spent;
        let beyond = account.spent.saturating_sub(account.most_spent(share));
        if missing == 0 && known == 0 || beyond <= known && given_back == 0 {
            return;
        }
        let still = known.saturating_sub(given_back);
        let missing = missing.saturating_add(known - still);
        let more = beyond.saturating_sub(still).min(missing);
        account.aside.change(|aside| aside.brought_spent = still.saturating_add(more));
        self.aside.change(|aside| aside.missing = missing - more);
    }

    /// What others may have of this counter that would come back, at most.
    pub(crate) fn outstanding(&self) -> u64 {
        self.held().saturating_add(self.aside.get().missing)
    }

    /// Whether members may hold something that would come back. Where the owner decides everything they hold nothing of
    /// its windows; of a bucket they may, from before it decided everything, or for `bounded` requests.
    pub(crate) fn may_recall(&self, limit: &Limit, decides: bool) -> bool {
        if decides && !matches!(limit, Limit::TokenBucket(_)) {
            return false;
        }
        self.held() > 0 || self.inherited && !decides
    }

    /// How much can be given back. Where rights are lent the counter holds what nobody has spent yet, and that
    /// must not come back by a refund; a bucket has the room for what may.
    pub(crate) fn refundable(&self, limit: &Limit, decides: bool) -> u64 {
        if decides || matches!(limit, Limit::TokenBucket(_)) {
            return u64::MAX;
        }
        self.all_net_spent().saturating_sub(self.aside.get().refunded)
    }

    /// What was spent here and what members spent and did not give back themselves.
    fn all_net_spent(&self) -> u64 {
        let there = self.accounts.iter().map(|account| account.net_spent(self.share));
        there.fold(self.spent, u64::saturating_add)
    }

    /// What one member has spent and could spend yet, at most, if it got all that is `left`.
    pub(super) fn most_by_one(&self, left: u64) -> u64 {
        let by_one = |account: &Account| {
            let spent = account.spent.saturating_sub(account.again());
            spent.saturating_add(account.held(self.share)).saturating_add(left)
        };
        self.accounts.iter().map(by_one).max().unwrap_or(0)
    }

    /// A member gave back to itself what was given back here for it: of what is spent once, that would be twice. What is too
    /// much is taken off here again.
    pub(super) fn take_off_refunds(&mut self, limit: &Limit, now: Timestamp) {
        let twice = self.aside.get().refunded.saturating_sub(self.all_net_spent());
        if twice > 0 {
            self.aside.change(|aside| aside.refunded -= twice);
            self.apply(limit, Action::Debit, twice, now);
        }
    }

    /// Whether there is an account for a member, or room for one. A bucket's account of which nothing is held may go:
    /// who had it is given another.
    pub(crate) fn has_room_for(&mut self, limit: &Limit, member: &Member, now: Timestamp) -> bool {
        if self.knows(member) {
            return true;
        }
        self.forget_runs_before(limit, member);
        if self.accounts.len() < MOST_ACCOUNTS {
            return true;
        }
        if matches!(limit, Limit::TokenBucket(_)) {
            let share = self.share;
            let idle = self.accounts.iter().enumerate().filter(|(_, account)| account.held(share) == 0);
            if let Some((index, _)) = idle.max_by_key(|(_, account)| account.active.ago(now)) {
                let given = self.accounts.remove(index).aside.get().given;
                self.forget_given(given);
                return true;
            }
        }
        false
    }

    /// A name may take a new number with each frame. Of its earlier runs, which do not come back, the last one is
    /// kept, and the one that began with a share: what it returned is not to be returned twice. A bucket's that hold
    /// something take up room in it until they are buried.
    fn forget_runs_before(&mut self, limit: &Limit, member: &Member) {
        let (share, is_bucket) = (self.share, matches!(limit, Limit::TokenBucket(_)));
        let is_earlier = |other: &Member| other.id == member.id && other.generation < member.generation;
        let earlier = self.accounts.iter().map(|account| &account.member).filter(|other| is_earlier(other));
        let Some(last) = earlier.map(|other| other.generation).max() else { return };
        let mut given = 0_u64;
        self.accounts.retain(|account| {
            let is_before = is_earlier(&account.member) && account.member.generation < last;
            let goes = is_before && !account.has_share && !(is_bucket && account.held(share) > 0);
            if goes {
                given = given.saturating_add(account.aside.get().given);
            }
            !goes
        });
        self.forget_given(given);
    }

    /// So much was given back by accounts that are gone, and is not among what the others give back.
    fn forget_given(&mut self, given: u64) {
        self.aside.change(|aside| aside.given_done = aside.given_done.saturating_sub(given));
    }

    /// A bucket's accounts of runs that are over: what they held can be spent by nobody.
    pub(crate) fn bury(&mut self, limit: &Limit, is_over: impl Fn(&Member) -> bool, now: Timestamp) {
        if matches!(limit, Limit::TokenBucket(_))
            && self.accounts.iter().any(|account| is_over(&account.member))
        {
            self.earn(limit, now);
            let over = self.accounts.extract_if(.., |account| is_over(&account.member));
            let given = over.map(|account| account.aside.get().given).fold(0, u64::saturating_add);
            self.forget_given(given);
        }
    }

    /// Those that a view took for dead.
    pub(crate) fn bury_gone(&mut self, limit: &Limit, view: &View, now: Timestamp) {
        self.bury(limit, |member| view.gone.contains(member), now);
    }
}
