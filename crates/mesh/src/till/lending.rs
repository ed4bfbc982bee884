//! Grants: what an owner gives to members, what they may hold of it, and the updates to them.

use super::{ACTIVE, Account, MOST_AHEAD, Till};
use crate::frame::{Report, Word};
use crate::lately::Lately;
use crate::member::Member;
use crate::purse::signed;
use hivemind_core::algorithm::Action;
use hivemind_core::store::Outcome;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

impl Till {
    #[expect(clippy::indexing_slicing, reason = "the place was just found or made")]
    pub(super) fn account(&mut self, member: &Arc<Member>, now: Timestamp) -> &mut Account {
        let index = if let Some(index) = self.accounts.iter().position(|account| account.is_of(member)) {
            index
        } else {
            // There are thousands of such lists, so they grow by a few entries and do not double.
            if self.accounts.len() == self.accounts.capacity() {
                self.accounts.reserve_exact(1 + self.accounts.len() / 16);
            }
            let has_share = self.has_share(member);
            self.accounts.push(Account::new(Arc::clone(member), has_share, now));
            self.accounts.len() - 1
        };
        &mut self.accounts[index]
    }

    /// Opens an account for a member that has none, or forgot it: a bucket's lease does not survive long
    /// silence. What it may still hold of the last account occupies room until it reports for the new one.
    pub(crate) fn open_account(
        &mut self,
        limit: &Limit,
        member: &Arc<Member>,
        report: &Report,
        now: Timestamp,
    ) {
        let account = self.accounts.iter().find(|account| account.is_of(member));
        let last = account.map_or(0, Account::serial);
        // A known account, or one that already has a successor. An unknown one is expired.
        let is_known = report.serial != 0 && report.serial <= last;
        if is_known || !matches!(limit, Limit::TokenBucket(_)) {
            return;
        }
        self.earn(limit, now);
        self.bury(limit, |other| other.id == member.id && other.generation < member.generation, now);
        // A reported number is accepted as far as clocks differ: numbers must not run out.
        let said = report.serial.min(now.saturating_add(MOST_AHEAD).as_nanos());
        let serial = self.aside.change(|aside| {
            aside.serials = aside.serials.max(now.as_nanos()).max(said).saturating_add(1);
            aside.serials
        });
        let share = self.share;
        let account = self.account(member, now);
        let (stale, given) = (account.held(share), account.aside.get().given);
        account.renew(serial, stale, report.birth, now);
        let over = given.saturating_sub(account.aside.get().given);
        self.aside.change(|aside| aside.given_done = aside.given_done.saturating_sub(over));
    }

    /// Whether the update refers to the member's present account.
    pub(crate) fn is_of(&self, member: &Member, report: &Report) -> bool {
        self.accounts.iter().any(|account| account.is_of(member) && account.serial() == report.serial)
    }

    pub(crate) fn knows(&self, member: &Member) -> bool {
        self.accounts.iter().any(|account| account.is_of(member))
    }

    /// Grants `need`, and up to `ahead` more where there is plenty. Returns whether it could.
    pub(crate) fn lend(
        &mut self,
        limit: &Limit,
        member: &Arc<Member>,
        need: u64,
        ahead: u64,
        now: Timestamp,
    ) -> bool {
        if !self.has_room_for(limit, member, now) {
            return false;
        }
        let left = self.left(limit, now);
        // A bucket always keeps one token of room: without it, it would look like a full one.
        let is_bucket = matches!(limit, Limit::TokenBucket(_));
        let most = if is_bucket {
            u64::from(limit.burst()).saturating_sub(self.held().saturating_add(1))
        } else {
            u64::MAX
        };
        if need > left || need > most {
            self.account(member, now).active = Lately::at(now);
            return false;
        }
        let active =
            1 + self.accounts.iter().filter(|account| account.active.ago(now) < ACTIVE).count() as u64;
        let plenty = (left - need) / (2 * active);
        let amount = need + ahead.min(plenty).min(most - need);
        let granted = amount == 0
            || self.apply(limit, Action::Spend { count_refusal: false }, amount, now).verdict.outcome
                == Outcome::Admitted;
        if granted && self.awaits {
            self.aside.change(|aside| aside.lent_early = aside.lent_early.saturating_add(amount));
        }
        let account = self.account(member, now);
        if granted {
            account.granted = account.granted.saturating_add(amount);
            account.is_unseen |= amount > 0;
            account.has_news = true;
        }
        granted
    }

    /// What members hold, at most, as far as this node knows.
    pub(crate) fn held(&self) -> u64 {
        let spoke: u64 =
            self.accounts.iter().map(|account| account.held(self.share)).fold(0, u64::saturating_add);
        let sharers = self.accounts.iter().filter(|account| account.has_share).count() as u64;
        let silent = u64::from(self.shares).saturating_sub(sharers).saturating_mul(self.share);
        spoke.saturating_add(silent)
    }

    /// Whether a member may hold something to return.
    pub(crate) fn may_hold(&self, member: &Member) -> bool {
        let account = self.accounts.iter().find(|account| account.is_of(member));
        let silent = if self.has_share(member) { self.share } else { 0 };
        self.aside.get().missing > 0 || account.map_or(silent, |account| account.held(self.share)) > 0
    }

    /// The update for a member.
    pub(crate) fn word(
        &mut self,
        limit: &Limit,
        member: &Arc<Member>,
        (decides, now): (bool, Timestamp),
    ) -> Word {
        let left = signed(self.left(limit, now)).saturating_sub(signed(self.refused(decides)));
        let all = self.spent();
        let resets = self.aside.get().resets;
        let account = self.account(member, now);
        account.is_unsettled = false;
        (account.has_news, account.told) = (false, Lately::at(now));
        Word {
            serial: account.serial(),
            granted: account.granted,
            settled_seen: account.settling(),
            left,
            others: all.saturating_sub(account.spent),
            recall: false,
            resets,
        }
    }

    /// Marks all accounts dirty: members need the new total.
    pub(crate) fn spread_news(&mut self) {
        self.accounts.iter_mut().for_each(|account| account.has_news = true);
    }
}
