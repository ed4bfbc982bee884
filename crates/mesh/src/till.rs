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
use crate::purse::signed;
use hivemind_core::algorithm::{Action, State, Step, step};
use hivemind_core::store::{Outcome, Verdict};
use hivemind_core::{Cost, Limit, Rate, Timestamp};
use std::time::Duration;

/// How long ago an account may have spoken to count among those that share what is left.
const ACTIVE: Duration = Duration::from_secs(1);
/// So many asks of a member are remembered, so that one that comes twice is served once.
const REMEMBERED_ASKS: usize = 32;
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
    /// Members that have such a share.
    shares: u64,
    /// Whether members may return what they held under an earlier view.
    inherited: bool,
    /// The last number of an account.
    serials: u64,
    /// When it last asked for what is unspent, and what it then knew members to hold.
    pub(crate) recalled: Option<Timestamp>,
}

/// Numbers of asks, the oldest first.
#[derive(Clone, Debug, Default)]
struct Served(Vec<u64>);

/// What one run of a member has been granted, and said.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) member: Member,
    /// 0 for windows; for a bucket, the number of this account among those the member had.
    serial: u64,
    /// What the member may hold of the account before this one, until it speaks of this one.
    stale: u64,
    /// The asks that were served last: the network may bring one twice. Most members never ask.
    served: Option<Box<Served>>,
    granted: u64,
    heard: Report,
    /// Returns that the member knows to have arrived.
    returned_told: u64,
    active: Timestamp,
    pub(crate) has_news: bool,
    pub(crate) told: Timestamp,
}

impl Account {
    fn new(member: Member, now: Timestamp) -> Self {
        Self {
            member,
            serial: 0,
            stale: 0,
            served: None,
            granted: 0,
            heard: Report::default(),
            returned_told: 0,
            active: now,
            has_news: false,
            told: Timestamp::EPOCH,
        }
    }

    /// Whether the member may not have heard of all that it was granted.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.granted > self.heard.granted_seen || self.heard.returned > self.returned_told
    }

    /// What it may still spend, at most, of what it was granted and of its share.
    fn held(&self, share: u64) -> u64 {
        let had = self.granted.saturating_add(share);
        had.saturating_sub(self.heard.returned.saturating_add(self.heard.spent)).saturating_add(self.stale)
    }
}

impl Till {
    /// The counter of a page that begins in this view: `shares` members hold `share` each.
    pub(crate) fn begun(limit: &Limit, share: u64, shares: u64, now: Timestamp) -> Self {
        let mut till = Self { share, shares, ..Self::default() };
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
        till.apply(limit, Action::Debit, missing, now);
        till
    }

    /// A reload: members that begin with more from now on hold more. Those that held more keep it
    /// until their window is over, so nothing comes back.
    pub(crate) fn change_share(&mut self, limit: &Limit, share: u64, now: Timestamp) {
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

    pub(crate) fn note_spent(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
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
            self.accounts.push(Account::new(member.clone(), now));
            self.accounts.len() - 1
        };
        let account = &mut self.accounts[index];
        account.active = account.active.max(now);
        account
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
        if report.serial != 0 || !matches!(limit, Limit::TokenBucket(_)) {
            return;
        }
        self.earn(limit, now);
        self.serials = self.serials.max(now.as_nanos()).saturating_add(1);
        let serial = self.serials;
        let account = self.account(member, now);
        let stale = account.held(0);
        let served = std::mem::take(&mut account.served);
        *account = Account { serial, stale, served, ..Account::new(member.clone(), now) };
    }

    /// Whether an ask is served for the first time.
    pub(crate) fn is_new(&mut self, member: &Member, id: u64, now: Timestamp) -> bool {
        if self.accounts.len() >= MOST_ACCOUNTS && !self.knows(member) {
            return false;
        }
        let Served(served) = &mut **self.account(member, now).served.get_or_insert_default();
        let is_new = !served.contains(&id);
        if is_new {
            if served.len() >= REMEMBERED_ASKS {
                served.remove(0);
            }
            served.push(id);
        }
        is_new
    }

    /// Whether a member speaks of the account that it has.
    pub(crate) fn is_of(&self, member: &Member, report: &Report) -> bool {
        self.accounts.iter().any(|account| account.member == *member && account.serial == report.serial)
    }

    /// Hears a member: what it returned is back from now on.
    pub(crate) fn hear(&mut self, limit: &Limit, member: &Member, report: &Report, now: Timestamp) {
        let share = if self.inherited { u64::from(limit.burst()) } else { self.share };
        self.earn(limit, now);
        if self.accounts.len() >= MOST_ACCOUNTS && !self.knows(member) {
            return;
        }
        let account = self.account(member, now);
        if report.serial != account.serial {
            return; // Of an account that is over.
        }
        account.stale = 0;
        // Nobody returns more than it ever had, whatever it says.
        let returned = report.returned.min(account.granted.saturating_add(share));
        let back = returned.saturating_sub(account.heard.returned);
        let heard = Report {
            serial: report.serial,
            spent: account.heard.spent.max(report.spent),
            returned: account.heard.returned.max(returned),
            granted_seen: account.heard.granted_seen.max(report.granted_seen),
            refused: account.heard.refused.max(report.refused),
        };
        account.has_news |= back > 0;
        account.heard = heard;
        if back > 0 {
            self.apply(limit, Action::Refund, back, now);
        }
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
        if self.accounts.len() >= MOST_ACCOUNTS && !self.knows(member) {
            return false;
        }
        let left = self.left(limit, now);
        // One token of room is always left to a bucket: with none it could not be told from a full one.
        let is_bucket = matches!(limit, Limit::TokenBucket(_));
        let most =
            if is_bucket { u64::from(limit.burst()).saturating_sub(self.held() + 1) } else { u64::MAX };
        if need > left || need > most {
            self.account(member, now);
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
        let spoke: u64 = self.accounts.iter().map(|account| account.held(self.share)).sum();
        let silent = self.shares.saturating_sub(self.accounts.len() as u64).saturating_mul(self.share);
        spoke.saturating_add(silent)
    }

    /// Whether a member may hold something that it could return.
    pub(crate) fn may_hold(&self, member: &Member) -> bool {
        let account = self.accounts.iter().find(|account| account.member == *member);
        self.inherited || account.map_or(self.share, |account| account.held(self.share)) > 0
    }

    /// What to tell a member.
    pub(crate) fn word(&mut self, limit: &Limit, member: &Member, now: Timestamp) -> Word {
        let left = signed(self.left(limit, now));
        let all: u64 = self.spent + self.accounts.iter().map(|account| account.heard.spent).sum::<u64>();
        let account = self.account(member, now);
        account.returned_told = account.heard.returned;
        (account.has_news, account.told) = (false, now);
        let (granted, returned_seen) = (account.granted, account.heard.returned);
        let serial = account.serial;
        Word {
            serial,
            granted,
            returned_seen,
            left,
            others: all.saturating_sub(account.heard.spent),
            recall: false,
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
        self.spent.saturating_add(self.accounts.iter().map(|account| account.heard.spent).sum())
    }
}
