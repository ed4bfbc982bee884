//! Over-admission of a closed window, computed from all members' totals: the promise is checked where it is
//! made. The result is never too large: counts known only to an earlier owner are missing.

use super::OwnerLedger;
use hivemind_core::Limit;

impl OwnerLedger {
    /// A limit that applies to the window, or applied to it.
    pub(crate) fn may_reach(&mut self, limit: &Limit) {
        self.most = self.most.max(limit.burst());
    }

    /// A debit, which is part of the spending.
    pub(crate) fn note_debited(&mut self, cost: u64) {
        self.note_spent(cost);
        self.cold.change(|cold| cold.debited = cold.debited.saturating_add(cost));
    }

    /// What was admitted above the largest limit that the window had.
    pub(crate) fn admitted_beyond(&self) -> u64 {
        let cold = self.cold.get();
        let back = self.accounts.iter().map(|account| account.cold.get().refunded);
        let back = back.fold(cold.refunded.saturating_add(cold.debited), u64::saturating_add);
        self.spent().saturating_sub(back).saturating_sub(u64::from(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::MemberReport;
    use crate::view::Member;
    use crate::view::NodeId;
    use hivemind_core::{Period, Timestamp};
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::from_millis(1_700_006_400_000);

    fn ten() -> Limit {
        Limit::fixed_window(10, Period::MINUTE)
    }

    fn hear(ledger: &mut OwnerLedger, name: &str, report: MemberReport) {
        ledger.apply_report(&ten(), &Arc::new(Member::new(NodeId::new(name), 1)), &report, (false, NOW));
    }

    #[test]
    fn reported_admissions_above_the_limit_are_counted() {
        let mut ledger = OwnerLedger::inherited(&ten(), 10, u64::MAX, NOW);
        assert!(ledger.spend(&ten(), 6, NOW).is_some());
        assert_eq!(ledger.admitted_beyond(), 0);
        hear(&mut ledger, "b", MemberReport { spent: 4, ..MemberReport::default() });
        assert_eq!(ledger.admitted_beyond(), 0);
        hear(&mut ledger, "b", MemberReport { spent: 7, owed: 20, ..MemberReport::default() });
        assert_eq!(ledger.admitted_beyond(), 3, "a debit is not an admission");
        hear(&mut ledger, "b", MemberReport { spent: 7, refunded: 2, owed: 20, ..MemberReport::default() });
        assert_eq!(ledger.admitted_beyond(), 1, "a refund is not an admission");
        ledger.change_share(&Limit::fixed_window(5, Period::MINUTE), 0, NOW);
        assert_eq!(ledger.admitted_beyond(), 1, "a lower limit is for what comes after it");
        ledger.change_share(&Limit::fixed_window(11, Period::MINUTE), 0, NOW);
        assert_eq!(ledger.admitted_beyond(), 0);
    }
}
