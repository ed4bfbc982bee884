//! Grants: what an owner gives to members, what they may hold of it, and the updates to them.

use super::{ACTIVE, Account, MOST_AHEAD, OwnerLedger};
use crate::counter::lease::signed;
use crate::counter::recent_instant::RecentInstant;
use crate::frame::{MemberReport, OwnerUpdate};
use crate::view::Member;
use hivemind_core::algorithm::Action;
use hivemind_core::store::Outcome;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

impl OwnerLedger {
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
        report: &MemberReport,
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
        self.remove_accounts(
            limit,
            |other| other.id == member.id && other.generation < member.generation,
            now,
        );
        // A reported number is accepted as far as clocks differ: numbers must not run out.
        let sent = report.serial.min(now.saturating_add(MOST_AHEAD).as_nanos());
        let serial = self.cold.change(|cold| {
            cold.serials = cold.serials.max(now.as_nanos()).max(sent).saturating_add(1);
            cold.serials
        });
        let share = self.share;
        let account = self.account(member, now);
        let (stale, given) = (account.held(share), account.cold.get().given);
        account.renew(serial, stale, report.birth, now);
        let over = given.saturating_sub(account.cold.get().given);
        self.cold.change(|cold| cold.given_done = cold.given_done.saturating_sub(over));
    }

    /// Whether the update refers to the member's present account.
    pub(crate) fn is_of(&self, member: &Member, report: &MemberReport) -> bool {
        self.accounts.iter().any(|account| account.is_of(member) && account.serial() == report.serial)
    }

    pub(crate) fn knows(&self, member: &Member) -> bool {
        self.accounts.iter().any(|account| account.is_of(member))
    }

    /// Grants `need`, and up to `ahead` more where there is plenty. Returns whether it could.
    pub(crate) fn grant(
        &mut self,
        limit: &Limit,
        member: &Arc<Member>,
        need: u64,
        ahead: u64,
        now: Timestamp,
    ) -> bool {
        if !self.make_room_for(limit, member, now) {
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
            self.account(member, now).active = RecentInstant::at(now);
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
            self.cold.change(|cold| cold.granted_early = cold.granted_early.saturating_add(amount));
        }
        let account = self.account(member, now);
        if granted {
            account.granted = account.granted.saturating_add(amount);
            account.is_grant_unacked |= amount > 0;
            account.is_dirty = true;
        }
        granted
    }

    /// What members hold, at most, as far as this node knows.
    pub(crate) fn held(&self) -> u64 {
        let reported: u64 =
            self.accounts.iter().map(|account| account.held(self.share)).fold(0, u64::saturating_add);
        let sharers = self.accounts.iter().filter(|account| account.has_share).count() as u64;
        let silent = u64::from(self.shares).saturating_sub(sharers).saturating_mul(self.share);
        reported.saturating_add(silent)
    }

    /// Whether a member may hold something to return.
    pub(crate) fn may_hold(&self, member: &Member) -> bool {
        let account = self.accounts.iter().find(|account| account.is_of(member));
        let silent = if self.has_share(member) { self.share } else { 0 };
        self.cold.get().missing > 0 || account.map_or(silent, |account| account.held(self.share)) > 0
    }

    /// The update for a member.
    pub(crate) fn update_for(
        &mut self,
        limit: &Limit,
        member: &Arc<Member>,
        (decides, now): (bool, Timestamp),
    ) -> OwnerUpdate {
        let left = signed(self.left(limit, now)).saturating_sub(signed(self.refused(decides)));
        let all = self.spent();
        let resets = self.cold.get().resets;
        let account = self.account(member, now);
        account.needs_ack = false;
        (account.is_dirty, account.sent) = (false, RecentInstant::at(now));
        OwnerUpdate {
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
    pub(crate) fn mark_all_dirty(&mut self) {
        self.accounts.iter_mut().for_each(|account| account.is_dirty = true);
    }
}
