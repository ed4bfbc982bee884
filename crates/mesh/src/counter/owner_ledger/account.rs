//! The owner's account of one generation of a member: what it was granted and what it reported, in totals. A
//! counter used by all members has one account per member, so accounts are small.

use crate::counter::cold_fields::ColdFields;
use crate::counter::recent_instant::RecentInstant;
use crate::frame::MemberReport;
use crate::view::Member;
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
    pub(super) returned_allowance: u64,
    pub(super) cold: ColdFields<AccountColdFields>,
    pub(super) active: RecentInstant,
    pub(crate) sent: RecentInstant,
    /// Whether this generation began with a share of the window.
    pub(super) has_share: bool,
    pub(crate) is_dirty: bool,
    /// Whether a grant is not yet acknowledged.
    pub(super) is_grant_unacked: bool,
    /// Whether the member sent totals that need an acknowledgement since the last update to it, or repeats
    /// them: then that update was lost.
    pub(super) needs_ack: bool,
}

/// Fields that most accounts do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AccountColdFields {
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
pub(super) struct ReportChanges {
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
            returned_allowance: 0,
            cold: ColdFields::default(),
            active: RecentInstant::at(now),
            sent: RecentInstant::default(),
            has_share,
            is_dirty: false,
            is_grant_unacked: false,
            needs_ack: false,
        }
    }

    #[inline]
    pub(super) fn is_of(&self, member: &Member) -> bool {
        // Generations mostly differ, and compare faster than names.
        self.member.generation == member.generation && self.member.id == member.id
    }

    pub(super) fn serial(&self) -> u64 {
        self.cold.get().serial
    }

    /// What it reported as returned.
    fn returned(&self) -> u64 {
        let AccountColdFields { brought, made_up, .. } = self.cold.get();
        self.returned_allowance.saturating_add(brought).saturating_add(made_up)
    }

    /// The sum of all totals that the member needs acknowledged.
    pub(super) fn settling(&self) -> u64 {
        let AccountColdFields { refused, refunded, given, owed, .. } = self.cold.get();
        let report = MemberReport {
            returned: self.returned(),
            refused,
            refunded,
            given,
            owed,
            ..MemberReport::default()
        };
        report.settling()
    }

    /// Whether the member may lack a grant or an acknowledgement.
    pub(crate) fn is_unacked(&self) -> bool {
        self.is_grant_unacked || self.needs_ack
    }

    /// Merges totals for this account: takes the larger of each.
    pub(super) fn merge(&mut self, report: &MemberReport) -> ReportChanges {
        let known = self.cold.get();
        let mut now = AccountColdFields { stale: 0, ..known };
        if report.birth != 0 && report.birth != known.birth {
            // Another lease: its totals are not compared with those of the last one.
            let AccountColdFields { serial, brought, made_up, brought_spent, .. } = known;
            now = AccountColdFields {
                serial,
                brought,
                made_up,
                brought_spent,
                birth: report.birth,
                ..AccountColdFields::default()
            };
        }
        let is_another = now.birth != known.birth;
        let over = if is_another { known.given } else { 0 };
        let before = now;
        now.refused = now.refused.max(report.refused);
        now.refunded = now.refunded.max(report.refunded);
        now.given = now.given.max(report.given);
        now.owed = now.owed.max(report.owed);
        if now != known {
            self.cold.change(|cold| *cold = now);
        }
        let reported = self.returned();
        let returned = reported.max(report.returned);
        let is_more = returned > reported
            || (now.refused, now.refunded, now.given, now.owed)
                != (before.refused, before.refunded, before.given, before.owed);
        self.is_dirty |= is_more;
        let is_repeated = report.settling() > 0 && report.spent <= self.spent;
        self.needs_ack = is_more || is_repeated || if is_another { reported > 0 } else { self.needs_ack };
        self.spent = self.spent.max(report.spent);
        self.is_grant_unacked &= report.granted_seen < self.granted;
        ReportChanges { returned, owed: now.owed - before.owed, refused: now.refused - before.refused, over }
    }

    /// The member begins another account with this number. What it may still hold of the last one is stale. A
    /// lease without an account may have reported before: it does not repeat those totals.
    pub(super) fn renew(&mut self, serial: u64, stale: u64, birth: u64, now: Timestamp) {
        let (known, returned) = (self.cold.get(), self.returned());
        let same = known.serial == 0 && known.birth == birth;
        let mut renewed = Self::new(Arc::clone(&self.member), self.has_share, now);
        let cold = if same {
            renewed.spent = self.spent;
            AccountColdFields { serial, stale, brought: 0, made_up: returned, ..known }
        } else {
            AccountColdFields { serial, stale, ..AccountColdFields::default() }
        };
        renewed.cold = cold.into();
        renewed.needs_ack = renewed.settling() > 0;
        *self = renewed;
    }
}
