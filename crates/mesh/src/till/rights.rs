//! What members have had, as the owner may believe it: rights that were granted or kept for that very run. Whatever a
//! member says beyond that is confirmed, so that it stops saying it, and brings nothing.

use super::{Account, MOST_ACCOUNTS, Till};
use crate::member::Member;
use crate::owner::NodeId;
use crate::view::View;
use hivemind_core::{Limit, Timestamp};

impl Account {
    /// Rights that this run was granted, or began with.
    fn rights(&self, share: u64) -> u64 {
        self.granted.saturating_add(if self.has_share { share } else { 0 })
    }

    /// What it may still spend, at most.
    pub(super) fn held(&self, share: u64) -> u64 {
        let gone = self.by_rights.saturating_add(self.heard.spent);
        self.rights(share).saturating_sub(gone).saturating_add(self.stale)
    }

    /// What it spent and did not give back, as far as it had rights to spend.
    fn net_spent(&self, share: u64) -> u64 {
        let most = self.rights(share).saturating_sub(self.by_rights);
        self.heard.spent.min(most).saturating_sub(self.heard.refunded)
    }
}

impl Till {
    /// Whether a run began with a share of the window.
    pub(super) fn has_share(&self, member: &Member) -> bool {
        self.share > 0 && self.began.as_ref().is_some_and(|view| view.has(member))
    }

    /// What each member holds, as far as is known: those that never spoke have their share.
    pub(crate) fn lent(&self, owner: Option<&Member>, mut tell: impl FnMut(&NodeId, u64)) {
        for account in &self.accounts {
            tell(&account.member.id, account.held(self.share));
        }
        if let Some(view) = self.began.as_ref().filter(|_| self.share > 0) {
            let silent = view.members().iter().filter(|member| Some(*member) != owner && !self.knows(member));
            silent.for_each(|member| tell(&member.id, self.share));
        }
    }

    /// What comes back of what a member says that it has returned in all. What it brought along from an earlier view
    /// is no more, over all members, than what was missing when the counter began.
    pub(super) fn take_back(&mut self, member: &Member, returned: u64) -> u64 {
        let (share, missing) = (self.share, self.missing);
        let Some(account) = self.accounts.iter_mut().find(|account| account.member == *member) else {
            return 0;
        };
        let due = returned.saturating_sub(account.by_rights.saturating_add(account.brought));
        let by_rights = due.min(account.rights(share).saturating_sub(account.by_rights));
        let brought = (due - by_rights).min(missing);
        account.by_rights = account.by_rights.saturating_add(by_rights);
        account.brought = account.brought.saturating_add(brought);
        self.missing = missing - brought;
        by_rights.saturating_add(brought)
    }

    /// How much can be given back. Where rights are lent the counter holds what nobody has spent yet, and that
    /// must not come back by a refund; a bucket has the room for what may.
    pub(crate) fn refundable(&self, limit: &Limit, decides: bool) -> u64 {
        if decides || matches!(limit, Limit::TokenBucket(_)) {
            return u64::MAX;
        }
        let there = self.accounts.iter().map(|account| account.net_spent(self.share));
        there.fold(self.spent, u64::saturating_add).saturating_sub(self.refunded)
    }

    /// Whether there is an account for a member, or room for one. A bucket's account of which nothing is held may go:
    /// who had it is given another.
    pub(crate) fn has_room_for(&mut self, limit: &Limit, member: &Member) -> bool {
        if self.accounts.len() < MOST_ACCOUNTS || self.knows(member) {
            return true;
        }
        if matches!(limit, Limit::TokenBucket(_)) {
            let share = self.share;
            let idle = self.accounts.iter().enumerate().filter(|(_, account)| account.held(share) == 0);
            if let Some((index, _)) = idle.min_by_key(|(_, account)| account.active) {
                self.accounts.remove(index);
                return true;
            }
        }
        false
    }

    /// A bucket's accounts of runs that are over: what they held can be spent by nobody.
    pub(crate) fn bury(&mut self, limit: &Limit, is_over: impl Fn(&Member) -> bool, now: Timestamp) {
        if matches!(limit, Limit::TokenBucket(_))
            && self.accounts.iter().any(|account| is_over(&account.member))
        {
            self.earn(limit, now);
            self.accounts.retain(|account| !is_over(&account.member));
        }
    }

    /// Those that a view took for dead.
    pub(crate) fn bury_gone(&mut self, limit: &Limit, view: &View, now: Timestamp) {
        self.bury(limit, |member| view.gone.contains(member), now);
    }
}
