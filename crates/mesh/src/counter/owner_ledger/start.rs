//! Start of a bucket that moved here from another owner. It begins empty at the time of the change; once its last owner
//! has sent the level, it holds that, minus all that was admitted here since.

use super::OwnerLedger;
use crate::counter::counter_window::HANDOFF_PAUSE;
use crate::membership::BucketStart;
use crate::view::View;
use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

impl OwnerLedger {
    /// The ledger of a bucket that moves to this node with a view.
    pub(crate) fn of_bucket(limit: &Limit, start: BucketStart, view: &Arc<View>) -> Self {
        let mut ledger = Self::begin(limit, 0, view, Timestamp::EPOCH);
        if let Some(at) = start.empty_at {
            ledger.apply(limit, Action::Debit, u64::from(limit.burst()), at.saturating_add(HANDOFF_PAUSE));
        }
        ledger.awaits = start.awaits;
        ledger
    }

    /// Whether its last owner has not sent the level yet.
    pub(crate) fn awaits(&self) -> bool {
        self.awaits
    }

    /// The last owner had `level` when the owner changed. It counts once, without tokens earned since: the
    /// bucket holds what an empty one has earned, or the unspent rest of the level, whichever is more.
    pub(crate) fn take_over(&mut self, limit: &Limit, level: u64, now: Timestamp) {
        if !std::mem::take(&mut self.awaits) {
            return;
        }
        self.earn(limit, now);
        let admitted = self.spent.saturating_add(self.cold.get().granted_early);
        let (due, left) = (level.saturating_sub(admitted), self.left(limit, now));
        if due > left {
            self.apply(limit, Action::Refund, due - left, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Member;
    use crate::view::NodeId;
    use hivemind_core::{Period, Rate};

    /// Six per hour with a burst of six: one every ten minutes.
    fn six() -> Limit {
        Limit::token_bucket(Rate::new(6, Period::HOUR).expect("a rate"), 6).expect("a bucket")
    }

    /// The delay in minutes, spending before the level arrives, the level, and what is left then.
    ///
    /// Fails when earned tokens and the level are added, or spending since is not deducted.
    #[test]
    fn level_counts_once_minus_spending_since() {
        for (minutes, spent, level, left) in [
            (0, 0, 4, 4),
            (0, 0, 6, 6),
            (21, 0, 4, 4),
            (41, 0, 3, 4),
            (61, 6, 6, 0),
            (61, 4, 6, 2),
            (61, 2, 5, 4),
            (31, 3, 5, 2),
        ] {
            let begin = Timestamp::from_millis(1_700_006_400_000);
            let view = Arc::new(View::founded(Member::new(NodeId::new("a"), 1), begin));
            let start = BucketStart { empty_at: Some(begin), awaits: true };
            let mut ledger = OwnerLedger::of_bucket(&six(), start, &view);
            assert_eq!(ledger.left(&six(), begin), 0);
            let now = begin.saturating_add(std::time::Duration::from_secs(60 * minutes));
            if spent > 0 {
                assert!(ledger.spend(&six(), spent, now).is_some(), "{spent} after {minutes} minutes");
            }
            ledger.take_over(&six(), level, now);
            assert_eq!(
                ledger.left(&six(), now),
                left,
                "level {level} sent after {minutes} minutes, {spent} spent"
            );
            ledger.take_over(&six(), 6, now);
            assert_eq!(ledger.left(&six(), now), left, "sent again");
        }
    }
}
