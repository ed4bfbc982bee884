//! What the owner knows of one run of a member: what it was granted, and what it said, in totals. A counter that
//! all members use has as many of these as the mesh has members, so they are small.

use crate::annex::Annex;
use crate::frame::Report;
use crate::lately::Lately;
use crate::member::Member;
use hivemind_core::Timestamp;
use std::sync::Arc;

/// What one run of a member has been granted, and said.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four facts that hold or not, in a byte each")]
pub(crate) struct Account {
    pub(crate) member: Arc<Member>,
    pub(super) granted: u64,
    /// What it said to have spent.
    pub(super) spent: u64,
    /// What came back of what it had from here.
    pub(super) by_rights: u64,
    pub(super) aside: Annex<Aside>,
    pub(super) active: Lately,
    pub(crate) told: Lately,
    /// Whether this run began with a share of the window.
    pub(super) has_share: bool,
    pub(crate) has_news: bool,
    /// Whether it was granted something that it has not said to have.
    pub(super) is_unseen: bool,
    /// Whether it said something that it must know to have arrived, since it was last told; or says it again, so that the word was lost.
    pub(super) is_unsettled: bool,
}

/// What most accounts have none of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Aside {
    /// 0 for windows; for a bucket, the number of this account among those the member had.
    pub(super) serial: u64,
    /// What the member may hold of the account before this one, until it speaks of this one.
    pub(super) stale: u64,
    /// What came back of what it brought along from an earlier view, and what it said to return and never had.
    pub(super) brought: u64,
    pub(super) made_up: u64,
    /// What it spent of what it brought along, and did not give back: more than it had rights to spend.
    pub(super) brought_spent: u64,
    /// As it said, and which purse that was.
    pub(super) birth: u64,
    pub(super) refused: u64,
    pub(super) refunded: u64,
    pub(super) given: u64,
    pub(super) owed: u64,
}

/// What a report says that was not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// What it has returned in all.
    pub(super) returned: u64,
    pub(super) owed: u64,
    pub(super) refused: u64,
    /// What another purse before it had given back, which is not compared with what this one gives.
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
        // Numbers of runs differ mostly, and are faster compared than names.
        self.member.generation == member.generation && self.member.id == member.id
    }

    pub(super) fn serial(&self) -> u64 {
        self.aside.get().serial
    }

    /// What it said to have returned.
    fn returned(&self) -> u64 {
        let Aside { brought, made_up, .. } = self.aside.get();
        self.by_rights.saturating_add(brought).saturating_add(made_up)
    }

    /// All that the member must know to have arrived, as one sum.
    pub(super) fn settling(&self) -> u64 {
        let Aside { refused, refunded, given, owed, .. } = self.aside.get();
        let report =
            Report { returned: self.returned(), refused, refunded, given, owed, ..Report::default() };
        report.settling()
    }

    /// Whether the member may not have heard of all that it was granted, or of what it said.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.is_unseen || self.is_unsettled
    }

    /// Merges what a member says of this very account: the larger of each total.
    pub(super) fn hear(&mut self, report: &Report) -> News {
        let known = self.aside.get();
        let mut now = Aside { stale: 0, ..known };
        if report.birth != 0 && report.birth != known.birth {
            // Another purse: what it says is not compared with what the last one said.
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

    /// The member begins another account, of this number. What it may hold of the last one is stale. A purse that
    /// never had an account may have spoken before: what it said then is not said anew.
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
