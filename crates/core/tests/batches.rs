//! Batch properties: a batch is atomic, at one time, and independent of its order.
#![expect(clippy::indexing_slicing, reason = "a test helper may panic")]

use hivemind_core::store::{
    Charge, Context, Key, LocalStore, MemoryStore, Mode, Op, Parts, StoreOptions, Verdicts,
};
use hivemind_core::testing::{Amount, Gap, cases, costs, gaps, limits};
use hivemind_core::{Cost, Limit, Period, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const BLOCK: Limit = Limit::fixed_window(0, Period::SECOND);

fn store() -> MemoryStore {
    MemoryStore::new(StoreOptions::default())
}

fn charge(counter: usize, limit: &Limit, amount: Amount) -> Charge<'_> {
    // Counters in distant shards.
    let key = Key::from_bits((counter as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), counter as u64);
    let parts = Parts { domain: "", entries: &[] };
    Charge { cost: amount.under(limit), ..Charge::spend(key, parts, limit) }
}

fn history() -> impl Strategy<Value = Vec<(Gap, usize, Amount)>> {
    vec((gaps(), 0..3_usize, costs()), 0..30)
}

fn play(
    store: &MemoryStore,
    limits: &[Limit],
    history: &[(Gap, usize, Amount)],
    mut now: Timestamp,
) -> (Timestamp, Vec<Verdicts>) {
    let mut verdicts = Vec::new();
    for &(gap, counter, amount) in history {
        now = gap.after(now, None, &limits[counter]);
        verdicts.push(store.decide_now(&[charge(counter, &limits[counter], amount)], Context::at(now)));
    }
    (now, verdicts)
}

// Fails when a refused batch keeps what its passing limits spent.
#[test]
fn request_refused_by_one_limit_spends_nothing_on_the_other() {
    let day = Limit::fixed_window(2, Period::DAY);
    let (store, at) = (store(), Context::at(START));
    for _ in 0..5 {
        let refused =
            store.decide_now(&[charge(0, &day, Amount::Units(1)), charge(1, &BLOCK, Amount::Units(1))], at);
        assert!(!refused.committed && refused.each()[0].is_admitted());
        assert_eq!(refused.each()[0].remaining, 2);
    }
    assert!(store.decide_now(&[charge(0, &day, Amount::Units(2))], at).committed);
}

proptest! {
    #![proptest_config(cases(1_500))]

    // Fails when a refused batch keeps what its passing limits spent.
    #[test]
    fn refused_batch_leaves_passing_limits_unchanged(
        limits in vec(limits(), 3), before in history(), gap in gaps(), amount in costs(), blocked_at in 0..4_usize, after in history(),
    ) {
        let (disturbed, quiet) = (store(), store());
        let (now, _) = play(&disturbed, &limits, &before, START);
        play(&quiet, &limits, &before, START);
        let now = gap.after(now, None, &limits[0]);
        // Only the charges that pass: a refusing window may count the refused cost.
        let mut batch: Vec<_> = (0..3).map(|counter| charge(counter, &limits[counter], amount)).collect();
        batch.retain(|charge| {
            quiet.decide_now(&[Charge { op: Op::Peek, ..*charge }], Context::at(now)).committed
        });
        batch.insert(blocked_at.min(batch.len()), charge(9, &BLOCK, Amount::Units(1)));
        prop_assert!(!disturbed.decide_now(&batch, Context::at(now)).committed);
        prop_assert_eq!(play(&disturbed, &limits, &after, now), play(&quiet, &limits, &after, now));
    }

    // Fails when each charge of a batch sees a later time; a batch stops at its first refusal.
    #[test]
    fn batch_order_does_not_change_verdicts(
        limits in vec(limits(), 3), before in history(), amounts in (costs(), costs(), costs()),
    ) {
        let (one, other) = (store(), store());
        let (now, _) = play(&one, &limits, &before, START);
        play(&other, &limits, &before, START);
        let amounts = [amounts.0, amounts.1, amounts.2];
        let batch: Vec<_> = (0..3).map(|counter| charge(counter, &limits[counter], amounts[counter])).collect();
        let reversed: Vec<_> = batch.iter().rev().copied().collect();
        let (forward, backward) = (one.decide_now(&batch, Context::at(now)), other.decide_now(&reversed, Context::at(now)));
        prop_assert_eq!(forward.committed, backward.committed);
        prop_assert!(forward.each().iter().eq(backward.each().iter().rev()));
    }

    // Fails when each charge of a batch sees a later time.
    #[test]
    fn all_limits_of_a_request_see_one_time(limits in vec(limits(), 3), before in history(), gap in gaps(), amount in costs()) {
        let (together, apart) = (store(), store());
        let (now, _) = play(&together, &limits, &before, START);
        play(&apart, &limits, &before, START);
        let now = gap.after(now, None, &limits[0]);
        let batch: Vec<_> = (0..3).map(|counter| Charge { mode: Mode::Shadow, ..charge(counter, &limits[counter], amount) }).collect();
        let verdicts = together.decide_now(&batch, Context::at(now));
        prop_assert!(verdicts.committed, "shadows refuse nothing");
        for (charge, verdict) in batch.iter().zip(verdicts.each()) {
            let alone = apart.decide_now(&[*charge], Context::at(now));
            prop_assert_eq!(&alone.each()[0], verdict);
        }
    }

    // Fails when a second charge is tried on the state before the first; each charge of a batch sees
    // a later time.
    #[test]
    fn counter_twice_in_a_batch_is_charged_twice(limit in limits(), first in 0..30_u64, second in 0..30_u64) {
        let (batched, summed) = (store(), store());
        let units = |units| charge(0, &limit, Amount::Units(units));
        let twice = batched.decide_now(&[units(first), units(second)], Context::at(START));
        let once = summed.decide_now(&[units(first + second)], Context::at(START));
        prop_assert_eq!(twice.committed, once.committed);
        if once.committed {
            let peek = Charge { op: Op::Peek, cost: Cost::ONE, ..units(1) };
            prop_assert_eq!(
                batched.decide_now(&[peek], Context::at(START)),
                summed.decide_now(&[peek], Context::at(START))
            );
        }
    }
}
