//! Reload: a new rate and burst apply to the key's next request, tokens above the new
//! burst are cut, and no limited key is evicted, not even by a sweep in between.
#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Op, Outcome, Parts, StoreOptions};
use hivemind_core::testing::{Amount, Gap, buckets, cases, costs, gaps};
use hivemind_core::{Cost, Limit, Rate, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn bucket(per_second: u32, burst: u32) -> Limit {
    Limit::token_bucket(Rate::per_second(per_second).unwrap(), burst).unwrap()
}

/// The time in ms, the limit, the cost, and the remaining budget (none if refused).
type Row<'a> = (u64, &'a Limit, u64, Option<u64>);

// Fails when tokens above the new burst are kept.
#[test]
fn new_rate_and_burst_apply_to_the_next_request() {
    let (old, small, large, fast) = (bucket(1, 10), bucket(1, 4), bucket(1, 100), bucket(10, 10));
    let tables: [&[Row<'_>]; 4] = [
        // Cut to a smaller burst, and not restored by the old one.
        &[(0, &old, 1, Some(9)), (0, &small, 1, Some(3)), (0, &old, 1, Some(2))],
        // Kept under a larger one.
        &[(0, &old, 3, Some(7)), (0, &large, 0, Some(7)), (1_000, &large, 0, Some(8))],
        // Kept where they fit the smaller one.
        &[(0, &old, 8, Some(2)), (0, &small, 0, Some(2)), (0, &small, 3, None)],
        // A new rate.
        &[(0, &old, 10, Some(0)), (0, &fast, 1, None), (100, &fast, 1, Some(0)), (200, &old, 1, None)],
    ];
    for rows in tables {
        let mut state = None;
        for &(at_ms, limit, units, left) in rows {
            let now = START.saturating_add(Duration::from_millis(at_ms));
            let step = step(limit, state, Action::Spend { count_refusal: true }, Cost::new(units), now);
            state = Some(step.state);
            let remaining = step.verdict.is_admitted().then_some(step.verdict.remaining);
            assert_eq!(remaining, left, "{units} at {at_ms} under {limit}");
        }
    }
}

/// A bucket's history under one limit.
fn pasts() -> impl Strategy<Value = Vec<(Gap, Amount, bool)>> {
    vec((gaps(), costs(), proptest::bool::weighted(0.1)), 1..20)
}

fn charge(limit: &Limit, amount: Amount, debit: bool) -> Charge<'_> {
    let op = if debit { Op::Debit } else { Op::Spend };
    let parts = Parts { domain: "", entries: &[] };
    Charge { cost: amount.under(limit), op, ..Charge::spend(Key::from_bits(1, 2), parts, limit) }
}

proptest! {
    #![proptest_config(cases(3_000))]

    // Fails when a debt of a larger burst is kept; tokens above the new burst are kept.
    #[test]
    fn tokens_above_the_new_burst_are_cut(old in buckets(), new in buckets(), past in pasts()) {
        let (mut state, mut now) = (None, START);
        for (gap, amount, debit) in past {
            now = gap.after(now, None, &old);
            let action = if debit { Action::Debit } else { Action::Spend { count_refusal: true } };
            state = Some(step(&old, state, action, amount.under(&old), now).state);
        }
        let before = step(&old, state, Action::Peek, Cost::ZERO, now);
        let after = step(&new, Some(before.state), Action::Peek, Cost::ZERO, now);
        // The time since the last token of the old rate may be worth a whole token of the new rate.
        prop_assert!(after.verdict.remaining >= before.verdict.remaining.min(u64::from(new.burst())));
        prop_assert!(after.verdict.remaining <= u64::from(new.burst()));
        let spent = step(&new, Some(before.state), Action::Spend { count_refusal: true }, Cost::new(after.verdict.remaining), now);
        prop_assert!(spent.verdict.is_admitted() || after.verdict.remaining == 0);
        // A debt is at most the new burst too: it is paid off within the new limit's memory.
        prop_assert!(after.verdict.reset_after <= new.longest_memory() + STEP_BACK);
        // A debit never increases the budget.
        let debited = step(&new, Some(before.state), Action::Debit, Cost::ONE, now);
        prop_assert!(debited.verdict.reset_after >= after.verdict.reset_after);
    }

    // The same requests on a store that is held and swept, and on one that is only held.
    // Fails when a debt of a larger burst is kept; a sweep removes every key; a hold does nothing.
    #[test]
    fn keys_survive_a_sweep_after_a_reload(
        old in buckets(), new in buckets(), past in pasts(), sweeps in vec(gaps(), 1..5), next in gaps(), amount in costs(),
    ) {
        let options = StoreOptions { max_keys: 10, idle_ttl: Duration::ZERO };
        let (swept, kept) = (MemoryStore::new(options), MemoryStore::new(options));
        let mut now = START;
        for (gap, amount, debit) in past {
            now = gap.after(now, None, &old);
            for store in [&swept, &kept] {
                store.decide_now(&[charge(&old, amount, debit)], Context::at(now));
            }
        }
        // Both hold their keys after the reload: blank ones are removed, because they were full.
        for store in [&swept, &kept] {
            store.hold(now, now.saturating_add(new.longest_memory()));
        }
        for gap in sweeps {
            now = gap.after(now, None, &new);
            swept.sweep(now);
        }
        now = next.after(now, None, &new);
        let batch = [charge(&new, amount, false)];
        prop_assert_eq!(swept.decide_now(&batch, Context::at(now)), kept.decide_now(&batch, Context::at(now)));
    }
}

#[test]
fn window_keeps_its_count_under_a_new_limit() {
    let store = MemoryStore::new(StoreOptions::default());
    let (old, new) = (
        Limit::fixed_window(5, hivemind_core::Period::HOUR),
        Limit::fixed_window(3, hivemind_core::Period::HOUR),
    );
    for (limit, units, left) in [(&old, 4, Some(1)), (&new, 1, None), (&old, 1, None)] {
        let verdicts = store.decide_now(&[charge(limit, Amount::Units(units), false)], Context::at(START));
        let verdict = verdicts.each()[0];
        let remaining = matches!(verdict.outcome, Outcome::Admitted).then_some(verdict.remaining);
        assert_eq!(remaining, left, "{units} under {limit}");
    }
}
