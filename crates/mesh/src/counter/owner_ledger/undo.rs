//! Undo: refunds spending for a request that was refused after all, some time later. A bucket may have been
//! full in between: without the request it would have stayed full and earned no tokens. So the tokens that it can have
//! earned since are subtracted from the refund, to the last fraction.

use super::OwnerLedger;
use hivemind_core::algorithm::{Action, STEP_BACK, State};
use hivemind_core::{Limit, Timestamp};
use std::time::Duration;

/// How much of `cost`, spent at `spent`, is refunded, and for how long the bucket then earns nothing.
pub(crate) fn given_back(limit: &Limit, cost: u64, spent: Timestamp, now: Timestamp) -> (u64, Duration) {
    if !matches!(limit, Limit::TokenBucket(_)) {
        return (cost, Duration::ZERO);
    }
    let since = now.since(spent);
    if spent > now || since >= STEP_BACK {
        return (0, Duration::ZERO); // A clock was set, or the history in between is unknown.
    }
    let (rate, period) = (u128::from(limit.requests()), u128::from(limit.period().nanos()));
    let earned = since.as_nanos() * rate / period;
    let rest = since.as_nanos() - earned * period / rate.max(1);
    let cost = cost.saturating_sub(u64::try_from(earned).unwrap_or(u64::MAX));
    (cost, Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX)))
}

impl OwnerLedger {
    /// Refunds what was spent at `spent`, as far as it is still missing.
    pub(crate) fn undo(&mut self, limit: &Limit, cost: u64, spent: Timestamp, now: Timestamp) {
        let (cost, rest) = given_back(limit, cost, spent, now);
        if cost > 0 {
            self.apply(limit, Action::Refund, cost, now);
            self.note_refunded(cost);
            self.earn_later(limit, rest);
        }
    }

    /// Delays the bucket's earning by this duration.
    pub(crate) fn earn_later(&mut self, limit: &Limit, by: Duration) {
        if matches!(limit, Limit::TokenBucket(_)) {
            let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
            let later = |state: State| State::from_bits(state.bits().0.saturating_add(by), state.bits().1);
            self.state = self.state.map(later);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_core::{Period, Rate};

    /// Ten per second with a burst of ten: one in 100 ms.
    fn ten() -> Limit {
        Limit::token_bucket(Rate::new(10, Period::SECOND).expect("a rate"), 10).expect("a bucket")
    }

    /// Spends from a full bucket and undoes it. In between the bucket is drained, when it is full again or at
    /// the last moment before the undo. At no time does it contain more than a bucket without that spending.
    ///
    /// Fails when everything is refunded whatever was earned since, or a fraction of a token is forgotten.
    #[test]
    fn undone_bucket_never_exceeds_an_untouched_one() {
        let begin = Timestamp::from_millis(1_700_006_400_000);
        let at = |millis: u64| begin.saturating_add(Duration::from_millis(millis));
        for (cost, drained, undone) in
            [1, 3, 9].into_iter().flat_map(|cost| (0..40).map(move |step| (cost, step * 30, step * 30 + 7)))
        {
            let (mut ledger, mut without) = (OwnerLedger::default(), OwnerLedger::default());
            assert!(ledger.spend(&ten(), cost, at(0)).is_some());
            let all = ledger.left(&ten(), at(drained));
            assert!(ledger.spend(&ten(), all, at(drained)).is_some());
            assert!(without.spend(&ten(), all, at(drained)).is_some());
            ledger.undo(&ten(), cost, at(0), at(undone));
            for later in 0..1_500 {
                let (with, without) =
                    (ledger.left(&ten(), at(undone + later)), without.left(&ten(), at(undone + later)));
                assert!(
                    with <= without,
                    "{cost}, {drained}, {undone}: {with} and {without} after {later} ms"
                );
            }
        }
    }

    /// Fails when spending by a clock that was set back since is refunded.
    #[test]
    fn slow_bucket_regains_undone_spending_immediately() {
        let slow = Limit::token_bucket(Rate::new(5, Period::HOUR).expect("a rate"), 5).expect("a bucket");
        let begin = Timestamp::from_millis(1_700_006_400_000);
        let soon = begin.saturating_add(Duration::from_millis(40));
        let mut ledger = OwnerLedger::default();
        assert!(ledger.spend(&slow, 3, begin).is_some());
        ledger.undo(&slow, 1, begin, soon);
        assert_eq!(ledger.left(&slow, soon), 3);
        ledger.undo(&slow, 1, soon, begin);
        assert_eq!(ledger.left(&slow, soon), 3, "a clock was set back");
    }
}
