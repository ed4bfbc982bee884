//! Over-admission of a closed window, computed from all members' totals: the promise is checked where it is
//! made. The result is never too large: counts known only to an earlier owner are missing.

use super::Till;
use hivemind_core::Limit;

impl Till {
    /// A limit that applies to the window, or applied to it.
    pub(crate) fn may_reach(&mut self, limit: &Limit) {
        self.most = self.most.max(limit.burst());
    }

    /// A debit, which is part of the spending.
    pub(crate) fn note_debited(&mut self, cost: u64) {
        self.note_spent(cost);
        self.aside.change(|aside| aside.debited = aside.debited.saturating_add(cost));
    }

    /// What was admitted above the largest limit that the page had.
    pub(crate) fn admitted_beyond(&self) -> u64 {
        let aside = self.aside.get();
        let back = self.accounts.iter().map(|account| account.aside.get().refunded);
        let back = back.fold(aside.refunded.saturating_add(aside.debited), u64::saturating_add);
        self.spent().saturating_sub(back).saturating_sub(u64::from(self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Report;
    use crate::member::Member;
    use crate::owner::NodeId;
    use hivemind_core::{Period, Timestamp};
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::from_millis(1_700_006_400_000);

    fn ten() -> Limit {
        Limit::fixed_window(10, Period::MINUTE)
    }

    fn hear(till: &mut Till, name: &str, report: Report) {
        till.hear(&ten(), &Arc::new(Member::new(NodeId::new(name), 1)), &report, (false, NOW));
    }

    #[test]
    fn what_all_say_to_have_admitted_above_the_limit_is_told_and_nothing_else() {
        let mut till = Till::inherited(&ten(), 10, u64::MAX, NOW);
        assert!(till.spend(&ten(), 6, NOW).is_some());
        assert_eq!(till.admitted_beyond(), 0);
        hear(&mut till, "b", Report { spent: 4, ..Report::default() });
        assert_eq!(till.admitted_beyond(), 0);
        hear(&mut till, "b", Report { spent: 7, owed: 20, ..Report::default() });
        assert_eq!(till.admitted_beyond(), 3, "a debit is not an admission");
        hear(&mut till, "b", Report { spent: 7, refunded: 2, owed: 20, ..Report::default() });
        assert_eq!(till.admitted_beyond(), 1, "a refund is not an admission");
        till.change_share(&Limit::fixed_window(5, Period::MINUTE), 0, NOW);
        assert_eq!(till.admitted_beyond(), 1, "a lower limit is for what comes after it");
        till.change_share(&Limit::fixed_window(11, Period::MINUTE), 0, NOW);
        assert_eq!(till.admitted_beyond(), 0);
    }
}
