//! The owner's side of a page: the counter itself, kept by the pure algorithm, and an account
//! for each member that spoke. A grant is a spending on the counter, made before it is told;
//! a return is a refund, made when it is heard. So whatever is in flight is spent, and the sum
//! of what all may spend is never more than the limit.
//!
//! A bucket has no window at whose end lent tokens lapse. Those that members hold take up room
//! in it: its capacity is the burst less what is lent and not yet known to be spent. So what
//! can be spent at once, here and elsewhere, never exceeds one burst.

use crate::frame::{Report, Word};
use crate::member::Member;
use crate::purse::{MOST_AT_ONCE, signed};
use crate::view::View;
use hivemind_core::algorithm::{Action, State, Step, step};
use hivemind_core::store::{Outcome, Verdict};
use hivemind_core::{Cost, Limit, Rate, Timestamp};
use std::sync::Arc;
use std::time::Duration;

mod audit;
mod reset;
mod rights;

/// How long ago an account may have spoken to count among those that share what is left.
const ACTIVE: Duration = Duration::from_secs(1);
/// The most accounts of a page: two runs of every node there may be.
const MOST_ACCOUNTS: usize = 256;

/// The owner's side of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Till {
    pub(crate) state: Option<State>,
    accounts: Vec<Account>,
    /// What this node spent itself, what it gave back of that and of what members did, and what it refused.
    spent: u64,
    refunded: u64,
    refused: u64,
    /// What of that was debited, here or by members: that is no admission, however much it is.
    debited: u64,
    /// The largest limit that the page had.
    most: u64,
    /// What had been refused when the counter was last reset.
    refused_before: u64,
    /// The refunds of members that were heard of.
    given_done: u64,
    /// What members hold from the start of the page, each of them: their share of the window.
    share: u64,
    /// Members that have such a share, and the view that says who.
    shares: u64,
    began: Option<Arc<View>>,
    /// Whether members may return what they held under an earlier view.
    inherited: bool,
    /// How much of that may still come back at most.
    missing: u64,
    /// How often the counter was reset.
    resets: u64,
    /// The last number of an account.
    serials: u64,
    /// When it last asked for what is unspent, and what it then knew members to hold.
    pub(crate) recalled: Option<Timestamp>,
}

/// What one run of a member has been granted, and said.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) member: Member,
    /// 0 for windows; for a bucket, the number of this account among those the member had.
    serial: u64,
    /// What the member may hold of the account before this one, until it speaks of this one.
    stale: u64,
    granted: u64,
    heard: Report,
    /// Whether this run began with a share of the window.
    has_share: bool,
    /// What came back of what it had from here, and of what it brought along from an earlier view.
    by_rights: u64,
    brought: u64,
    /// What the member knows to have arrived, as one sum.
    settled_told: u64,
    active: Timestamp,
    pub(crate) has_news: bool,
    pub(crate) told: Timestamp,
}

impl Account {
    fn new(member: Member, has_share: bool, now: Timestamp) -> Self {
        Self {
            member,
            serial: 0,
            stale: 0,
            granted: 0,
            heard: Report::default(),
            has_share,
            by_rights: 0,
            brought: 0,
            settled_told: 0,
            active: now,
            has_news: false,
            told: Timestamp::EPOCH,
        }
    }

    /// Whether the member may not have heard of all that it was granted.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.granted > self.heard.granted_seen || self.heard.settling() > self.settled_told
    }
}

impl Till {
    /// The counter of a page that begins in this view: its other members hold `share` each.
    pub(crate) fn begun(limit: &Limit, share: u64, view: &Arc<View>, now: Timestamp) -> Self {
        let shares = (view.members().len() as u64).saturating_sub(1);
        let mut till = Self { share, shares, began: Some(Arc::clone(view)), ..Self::default() };
        till.may_reach(limit);
        let lent = share.saturating_mul(shares);
        if lent > 0 {
            till.apply(limit, Action::Debit, lent, now);
        }
        till
    }

    /// The counter of a page that began in an earlier view: this node brings `held` along, and the rest is
    /// with those that held it, or lost.
    pub(crate) fn inherited(limit: &Limit, held: u64, now: Timestamp) -> Self {
        let mut till = Self { inherited: true, ..Self::default() };
        let missing = u64::from(limit.burst()).saturating_sub(held);
        till.missing = missing;
        till.may_reach(limit);
        till.apply(limit, Action::Debit, missing, now);
        till
    }

    /// A reload: members that begin with more from now on hold more. Those that held more keep it
    /// until their window is over, so nothing comes back.
    pub(crate) fn change_share(&mut self, limit: &Limit, share: u64, now: Timestamp) {
        self.may_reach(limit);
        let more = share.saturating_sub(self.share);
        if more > 0 && !self.inherited {
            self.apply(limit, Action::Debit, more.saturating_mul(self.shares), now);
            self.share = share;
        }
    }

    /// The limit that the counter keeps: a bucket's tokens that members hold take up room in it.
    pub(crate) fn room(&self, limit: &Limit) -> Limit {
        let Limit::TokenBucket(_) = limit else { return *limit };
        let held = self.held();
        if held == 0 {
            return *limit;
        }
        let burst = u64::from(limit.burst()).saturating_sub(held).max(1);
        let burst = u32::try_from(burst).unwrap_or(u32::MAX);
        let rate = Rate::new(limit.requests(), limit.period());
        rate.and_then(|rate| Limit::token_bucket(rate, burst)).unwrap_or(*limit)
    }

    /// Does one thing to the counter.
    pub(crate) fn apply(&mut self, limit: &Limit, action: Action, cost: u64, now: Timestamp) -> Step {
        let done = step(&self.room(limit), self.state, action, Cost::new(cost), now);
        self.state = Some(done.state);
        done
    }

    /// Spends here if it fits. `None` says that it does not, and that nothing was recorded.
    #[inline]
    pub(crate) fn spend(&mut self, limit: &Limit, cost: u64, now: Timestamp) -> Option<Verdict> {
        let action = Action::Spend { count_refusal: false };
        let done = step(&self.room(limit), self.state, action, Cost::new(cost), now);
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
        self.refused = self.refused.saturating_add(cost);
    }

    pub(crate) fn note_refunded(&mut self, cost: u64) {
        self.refunded = self.refunded.saturating_add(cost);
    }

    /// Hits that were refused here and elsewhere, where the counter itself does not count them.
    pub(crate) fn refused(&self, decides: bool) -> u64 {
        if decides {
            return 0;
        }
        let there = self.accounts.iter().map(|account| account.heard.refused);
        there.fold(self.refused, u64::saturating_add).saturating_sub(self.refused_before)
    }

    /// Does what members gave back for the owner to do, as far as it is known to be spent. The rest is worth
    /// nothing, as it is everywhere: kept, it would give back what is spent later.
    fn refund_given(&mut self, limit: &Limit, decides: bool, now: Timestamp) {
        let given = self.accounts.iter().map(|account| account.heard.given).fold(0, u64::saturating_add);
        let told = given.saturating_sub(self.given_done);
        self.given_done = given;
        let due = told.min(self.refundable(limit, decides));
        if due > 0 {
            self.note_refunded(due);
            self.apply(limit, Action::Refund, whole(due), now);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the place was just found or made")]
    fn account(&mut self, member: &Member, now: Timestamp) -> &mut Account {
        let index = if let Some(index) = self.accounts.iter().position(|account| account.member == *member) {
            index
        } else {
            // There are thousands of such lists, so they grow by a few places and not by their double.
            if self.accounts.len() == self.accounts.capacity() {
                self.accounts.reserve_exact(2 + self.accounts.len() / 8);
            }
            let has_share = self.has_share(member);
            self.accounts.push(Account::new(member.clone(), has_share, now));
            self.accounts.len() - 1
        };
        &mut self.accounts[index]
    }

    /// Brings a bucket up to now with the room it had until now. What becomes known to be spent makes
    /// room from here on: earned before that, it would have been earned twice.
    fn earn(&mut self, limit: &Limit, now: Timestamp) {
        if matches!(limit, Limit::TokenBucket(_)) && self.held() > 0 {
            self.apply(limit, Action::Peek, 0, now);
        }
    }

    /// A member asks that has no account, or has forgotten it: a bucket's purse does not outlive long silence.
    /// What it may still hold of the last one takes up room until it speaks of the new one.
    pub(crate) fn open_account(&mut self, limit: &Limit, member: &Member, report: &Report, now: Timestamp) {
        let account = self.accounts.iter().find(|account| account.member == *member);
        let last = account.map_or(0, |account| account.serial);
        // One that this node knows, or has followed by another already. One that it does not know is over.
        let is_known = report.serial != 0 && report.serial <= last;
        if is_known || !matches!(limit, Limit::TokenBucket(_)) {
            return;
        }
        self.earn(limit, now);
        self.bury(limit, |other| other.id == member.id && other.generation < member.generation, now);
        self.serials = self.serials.max(now.as_nanos()).max(report.serial).saturating_add(1);
        let (serial, share) = (self.serials, self.share);
        let account = self.account(member, now);
        let stale = account.held(share);
        // A purse that never had an account may have spoken before: what it said then is not said anew.
        let same = account.serial == 0 && account.heard.birth == report.birth;
        let heard = if same { Report { serial, ..account.heard } } else { Report::default() };
        let over = account.heard.given.saturating_sub(heard.given);
        let has_share = account.has_share;
        *account = Account { serial, stale, heard, ..Account::new(member.clone(), has_share, now) };
        self.given_done = self.given_done.saturating_sub(over);
    }

    /// Whether a member speaks of the account that it has.
    pub(crate) fn is_of(&self, member: &Member, report: &Report) -> bool {
        self.accounts.iter().any(|account| account.member == *member && account.serial == report.serial)
    }

    /// Hears a member: what it returned is back from now on, what it gave back or owes is done.
    pub(crate) fn hear(
        &mut self,
        limit: &Limit,
        member: &Member,
        report: &Report,
        (decides, now): (bool, Timestamp),
    ) {
        self.earn(limit, now);
        if !self.has_room_for(limit, member) {
            return;
        }
        let account = self.account(member, now);
        account.active = account.active.max(now);
        if report.serial != account.serial {
            return; // Of an account that is over.
        }
        account.stale = 0;
        let mut over = 0;
        if report.birth != 0 && report.birth != account.heard.birth {
            // Another purse: what it says is not compared with what the last one said.
            over = account.heard.given;
            let Report { spent, returned, granted_seen, .. } = account.heard;
            account.heard =
                Report { birth: report.birth, spent, returned, granted_seen, ..Report::default() };
            account.settled_told = 0;
        }
        let heard = Report {
            serial: report.serial,
            birth: account.heard.birth,
            spent: account.heard.spent.max(report.spent),
            returned: account.heard.returned.max(report.returned),
            granted_seen: account.heard.granted_seen.max(report.granted_seen),
            refused: account.heard.refused.max(report.refused),
            refunded: account.heard.refunded.max(report.refunded),
            given: account.heard.given.max(report.given),
            owed: account.heard.owed.max(report.owed),
            eventual: report.eventual,
        };
        let owed = heard.owed.saturating_sub(account.heard.owed);
        let refused = heard.refused.saturating_sub(account.heard.refused);
        account.has_news |= heard.settling() > account.heard.settling();
        account.heard = heard;
        self.given_done = self.given_done.saturating_sub(over);
        // Nobody returns more than it ever had, whatever it says.
        let back = self.take_back(member, heard.returned);
        if back > 0 {
            self.apply(limit, Action::Refund, back, now);
        }
        if owed > 0 {
            self.apply(limit, Action::Debit, whole(owed), now);
            self.note_debited(owed);
        }
        if refused > 0 && decides {
            self.apply(limit, Action::Count, whole(refused), now);
        }
        self.refund_given(limit, decides, now);
    }

    fn knows(&self, member: &Member) -> bool {
        self.accounts.iter().any(|account| account.member == *member)
    }

    /// Grants `need`, and up to `ahead` more where there is plenty. Says whether it could.
    pub(crate) fn lend(
        &mut self,
        limit: &Limit,
        member: &Member,
        need: u64,
        ahead: u64,
        now: Timestamp,
    ) -> bool {
        if !self.has_room_for(limit, member) {
            return false;
        }
        let left = self.left(limit, now);
        // One token of room is always left to a bucket: with none it could not be told from a full one.
        let is_bucket = matches!(limit, Limit::TokenBucket(_));
        let most = if is_bucket {
            u64::from(limit.burst()).saturating_sub(self.held().saturating_add(1))
        } else {
            u64::MAX
        };
        if need > left || need > most {
            self.account(member, now).active = now;
            return false;
        }
        let active =
            1 + self.accounts.iter().filter(|account| now.since(account.active) < ACTIVE).count() as u64;
        let plenty = (left - need) / (2 * active);
        let amount = need + ahead.min(plenty).min(most - need);
        let granted = amount == 0
            || self.apply(limit, Action::Spend { count_refusal: false }, amount, now).verdict.outcome
                == Outcome::Admitted;
        let account = self.account(member, now);
        if granted {
            account.granted = account.granted.saturating_add(amount);
            account.has_news = true;
        }
        granted
    }

    /// What members hold, at most, as far as this node knows.
    pub(crate) fn held(&self) -> u64 {
        let spoke: u64 =
            self.accounts.iter().map(|account| account.held(self.share)).fold(0, u64::saturating_add);
        let sharers = self.accounts.iter().filter(|account| account.has_share).count() as u64;
        let silent = self.shares.saturating_sub(sharers).saturating_mul(self.share);
        spoke.saturating_add(silent)
    }

    /// Whether a member may hold something that it could return.
    pub(crate) fn may_hold(&self, member: &Member) -> bool {
        let account = self.accounts.iter().find(|account| account.member == *member);
        let silent = if self.has_share(member) { self.share } else { 0 };
        self.missing > 0 || account.map_or(silent, |account| account.held(self.share)) > 0
    }

    /// What to tell a member.
    pub(crate) fn word(&mut self, limit: &Limit, member: &Member, (decides, now): (bool, Timestamp)) -> Word {
        let left = signed(self.left(limit, now)).saturating_sub(signed(self.refused(decides)));
        let all = self.spent();
        let resets = self.resets;
        let account = self.account(member, now);
        account.settled_told = account.heard.settling();
        (account.has_news, account.told) = (false, now);
        let (granted, settled_seen) = (account.granted, account.heard.settling());
        let serial = account.serial;
        Word {
            serial,
            granted,
            settled_seen,
            left,
            others: all.saturating_sub(account.heard.spent),
            recall: false,
            resets,
        }
    }

    /// Everybody is to hear what all have spent.
    pub(crate) fn spread_news(&mut self) {
        self.accounts.iter_mut().for_each(|account| account.has_news = true);
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
        self.accounts.iter().map(|account| account.heard.spent).fold(self.spent, u64::saturating_add)
    }
}

/// What a member told in a total: the most that one charge adds stands for whatever it was.
fn whole(told: u64) -> u64 {
    if told >= MOST_AT_ONCE { u64::MAX } else { told }
}
