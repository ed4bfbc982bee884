//! The owner's account of one generation of a member: what it was granted and what it reported, in totals. A
//! counter used by all members has one account per member, so accounts are small.

use crate::annex::Annex;
use crate::frame::Report;
use crate::lately::Lately;
use crate::member::Member;
use hivemind_core::Timestamp;
use std::sync::Arc;

/// Grants to and totals of one generation of a member.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four independent flags, one byte each")]
pub(crate) struct Account {
    pub(crate) member: Arc<Member>,
    pub(super) granted: u64,
    /// What it reported as spent.
    pub(super) spent: u64,
    /// What came back of its allowance from here.
    pub(super) by_rights: u64,
    pub(super) aside: Annex<Aside>,
    pub(super) active: Lately,
    pub(crate) told: Lately,
    /// Whether this generation began with a share of the window.
    pub(super) has_share: bool,
    pub(crate) has_news: bool,
    /// Whether a grant is not yet acknowledged.
    pub(super) is_unseen: bool,
    /// Whether the member sent totals that need an acknowledgement since the last update to it, or repeats
    /// them: then that update was lost.
    pub(super) is_unsettled: bool,
}

/// Fields that most accounts do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Aside {
    /// 0 for windows; for a bucket, the number of this account among those the member had.
    pub(super) serial: u64,
    /// What the member may hold of the previous account, until it reports for this one.
    pub(super) stale: u64,
    /// What came back of holdings from an earlier view, and what it reported as returned and never had.
    pub(super) brought: u64,
    pub(super) made_up: u64,
    /// What it spent of holdings from an earlier view and did not refund: spending beyond its allowance.
    pub(super) brought_spent: u64,
    /// As reported, and which lease that was.
    pub(super) birth: u64,
    pub(super) refused: u64,
    pub(super) refunded: u64,
    pub(super) given: u64,
    pub(super) owed: u64,
}

/// What a member update changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// The total of its returns.
    pub(super) returned: u64,
    pub(super) owed: u64,
    pub(super) refused: u64,
    /// The refunds of a previous lease, which are not compared with those of this one.
    pub(super) over: u64,
}

impl Account {
    pub(super) fn new(member: Arc<Member>, has_share: bool, now: Timestamp) -> Self {
        Self {
            member,
            granted: 0,
            spent: 0,
            by_rights: 0,
            aside: Annex::default(),
            active: Lately::at(now),
            told: Lately::default(),
            has_share,
            has_news: false,
            is_unseen: false,
            is_unsettled: false,
        }
    }

    #[inline]
    pub(super) fn is_of(&self, member: &Member) -> bool {
        // Generations mostly differ, and compare faster than names.
        self.member.generation == member.generation && self.member.id == member.id
    }

    pub(super) fn serial(&self) -> u64 {
        self.aside.get().serial
    }

    /// What it reported as returned.
    fn returned(&self) -> u64 {
        let Aside { brought, made_up, .. } = self.aside.get();
        self.by_rights.saturating_add(brought).saturating_add(made_up)
    }

    /// The sum of all totals that the member needs acknowledged.
    pub(super) fn settling(&self) -> u64 {
        let Aside { refused, refunded, given, owed, .. } = self.aside.get();
        let report =
            Report { returned: self.returned(), refused, refunded, given, owed, ..Report::default() };
        report.settling()
    }

    /// Whether the member may lack a grant or an acknowledgement.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.is_unseen || self.is_unsettled
    }

    /// Merges totals for this account: takes the larger of each.
    pub(super) fn hear(&mut self, report: &Report) -> News {
        let known = self.aside.get();
        let mut now = Aside { stale: 0, ..known };
        if report.birth != 0 && report.birth != known.birth {
            // Another lease: its totals are not compared with those of the last one.
            let Aside { serial, brought, made_up, brought_spent, .. } = known;
            now = Aside { serial, brought, made_up, brought_spent, birth: report.birth, ..Aside::default() };
        }
        let is_another = now.birth != known.birth;
        let over = if is_another { known.given } else { 0 };
        let before = now;
        now.refused = now.refused.max(report.refused);
        now.refunded = now.refunded.max(report.refunded);
        now.given = now.given.max(report.given);
        now.owed = now.owed.max(report.owed);
        if now != known {
            self.aside.change(|aside| *aside = now);
        }
        let said = self.returned();
        let returned = said.max(report.returned);
        let is_more = returned > said
            || (now.refused, now.refunded, now.given, now.owed)
                != (before.refused, before.refunded, before.given, before.owed);
        self.has_news |= is_more;
        let is_repeated = report.settling() > 0 && report.spent <= self.spent;
        self.is_unsettled = is_more || is_repeated || if is_another { said > 0 } else { self.is_unsettled };
        self.spent = self.spent.max(report.spent);
        self.is_unseen &= report.granted_seen < self.granted;
        News { returned, owed: now.owed - before.owed, refused: now.refused - before.refused, over }
    }

    /// The member begins another account with this number. What it may still hold of the last one is stale. A
    /// lease without an account may have reported before: it does not repeat those totals.
    pub(super) fn renew(&mut self, serial: u64, stale: u64, birth: u64, now: Timestamp) {
        let (known, returned) = (self.aside.get(), self.returned());
        let same = known.serial == 0 && known.birth == birth;
        let mut renewed = Self::new(Arc::clone(&self.member), self.has_share, now);
        let aside = if same {
            renewed.spent = self.spent;
            Aside { serial, stale, brought: 0, made_up: returned, ..known }
        } else {
            Aside { serial, stale, ..Aside::default() }
        };
        renewed.aside = aside.into();
        renewed.is_unsettled = renewed.settling() > 0;
        *self = renewed;
    }
}
