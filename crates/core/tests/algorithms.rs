//! Properties of all three algorithms: exact waits, blank states, the laws of peek,
//! refund and debit, and the absence of panics.

use hivemind_core::algorithm::{Action, State, Step, step};
use hivemind_core::algorithm::{STEP_BACK, TokenBucket};
use hivemind_core::store::Outcome;
use hivemind_core::testing::{Amount, Gap, cases, costs, gaps, limits};
use hivemind_core::{Cost, Limit, Period, Rate, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// Beyond this, a wait would exceed the latest representable time, where it is cut.
const LATEST: Timestamp = Timestamp::from_nanos(u64::MAX / 2);

fn actions() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => any::<bool>().prop_map(|count_refusal| Action::Spend { count_refusal }),
        1 => Just(Action::Peek), 1 => Just(Action::Refund), 1 => Just(Action::Debit), 1 => Just(Action::Count),
    ]
}

fn any_gap() -> impl Strategy<Value = Gap> {
    prop_oneof![9 => gaps(), 1 => (0..100_000_000_000_u64).prop_map(Gap::Back)]
}

/// A counter with a history: any actions, on a clock that may step back.
fn pasts() -> impl Strategy<Value = (Limit, Step, Timestamp)> {
    (limits(), vec((any_gap(), actions(), costs()), 1..40)).prop_map(|(limit, history)| {
        let (mut now, mut wait) = (START, None);
        let mut last = step(&limit, None, Action::Peek, Cost::ZERO, now);
        let mut state = None;
        for (gap, action, amount) in history {
            now = gap.after(now, wait, &limit);
            last = step(&limit, state, action, amount.under(&limit), now);
            state = Some(last.state);
            if let Outcome::Refused { retry_after } = last.verdict.outcome {
                wait = retry_after.or(wait);
            }
        }
        (limit, last, now)
    })
}

fn peek(limit: &Limit, state: State, cost: Cost, now: Timestamp) -> Step {
    step(limit, Some(state), Action::Peek, cost, now)
}

#[test]
fn state_fits_16_bytes() {
    assert_eq!(size_of::<State>(), 16);
}

// Fails when a bucket's wait is rounded down; a window's end is reported one nanosecond late; a peek
// takes one.
#[test]
fn retry_after_is_exact_to_the_nanosecond_for_each_algorithm() {
    let seven = Limit::token_bucket(Rate::per_second(7).unwrap(), 1).unwrap();
    for (limit, wait) in [
        (seven, 142_857_143),
        (Limit::fixed_window(1, Period::SECOND), 999_999_999),
        (Limit::sliding_window(1, Period::SECOND), 1_999_999_999),
    ] {
        let now = Timestamp::from_nanos(1);
        let spent = step(&limit, None, Action::Spend { count_refusal: false }, Cost::ONE, now);
        let refused = peek(&limit, spent.state, Cost::ONE, now).verdict.outcome;
        assert_eq!(refused, Outcome::Refused { retry_after: Some(Duration::from_nanos(wait)) }, "{limit}");
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    // Fails when a bucket's wait is rounded down; the fixed window's `fits` adds with a plain `+`; the count of the previous window is kept.
    #[test]
    fn stated_wait_is_exact_for_every_refusal((limit, past, now) in pasts(), amount in costs(), counts in any::<bool>()) {
        let cost = amount.under(&limit);
        let spent = step(&limit, Some(past.state), Action::Spend { count_refusal: counts }, cost, now);
        match spent.verdict.outcome {
            Outcome::Admitted => {}
            Outcome::Refused { retry_after: Some(wait) } => {
                let then = now.saturating_add(wait);
                prop_assume!(then < LATEST);
                prop_assert!(wait > Duration::ZERO);
                let earlier = Timestamp::from_nanos(then.as_nanos() - 1);
                prop_assert!(!peek(&limit, spent.state, cost, earlier).verdict.is_admitted());
                prop_assert!(peek(&limit, spent.state, cost, then).verdict.is_admitted());
            }
            Outcome::Refused { retry_after: None } => {
                prop_assert!(cost.get() > u64::from(limit.burst()), "the limit could pass this cost later");
            }
        }
    }

    // Fails when a bucket's wait is rounded down; a bucket is blank one nanosecond early; a bucket's
    // reset is one nanosecond early.
    #[test]
    fn blank_state_decides_like_no_state(
        (limit, past, _) in pasts(), action in actions(), amount in costs(),
        later in prop_oneof![Just(0), Just(1), any::<u32>()],
    ) {
        let now = past.blank_at.saturating_add(Duration::from_nanos(u64::from(later)));
        prop_assume!(now < LATEST);
        let cost = amount.under(&limit);
        prop_assert_eq!(step(&limit, Some(past.state), action, cost, now), step(&limit, None, action, cost, now));
    }

    // Fails when a bucket's wait is rounded down; a bucket's reset is one nanosecond early; the fixed window's `fits` adds with a plain `+`.
    #[test]
    fn whole_budget_is_available_at_the_reset((limit, past, now) in pasts()) {
        let then = now.saturating_add(past.verdict.reset_after);
        prop_assume!(then < LATEST);
        prop_assert_eq!(peek(&limit, past.state, Cost::ONE, then).verdict.remaining, u64::from(limit.burst()));
    }

    // Fails when the fixed window's `fits` adds with a plain `+`; a peek takes one.
    #[test]
    fn peek_leaves_state_unchanged((limit, past, now) in pasts(), costs in (costs(), costs()), gap in gaps()) {
        let peeked = peek(&limit, past.state, costs.0.under(&limit), now).state;
        let (later, cost) = (gap.after(now, None, &limit), costs.1.under(&limit));
        let spend = Action::Spend { count_refusal: true };
        let untouched = step(&limit, Some(past.state), spend, cost, later);
        prop_assert_eq!(step(&limit, Some(peeked), spend, cost, later), untouched);
    }

    // Fails when a refund gives one less; the fixed window's `fits` adds with a plain `+`; a peek takes one.
    #[test]
    fn refund_restores_spent_tokens((limit, past, now) in pasts(), amount in costs()) {
        let cost = amount.under(&limit);
        let before = peek(&limit, past.state, cost, now);
        let spent = step(&limit, Some(past.state), Action::Spend { count_refusal: true }, cost, now);
        prop_assert_eq!(spent.verdict.is_admitted(), before.verdict.is_admitted(), "a peek predicts a spend");
        if spent.verdict.is_admitted() {
            let restored = step(&limit, Some(spent.state), Action::Refund, cost, now);
            prop_assert_eq!(restored.verdict.remaining, before.verdict.remaining);
            prop_assert_eq!(peek(&limit, restored.state, cost, now), before);
        }
    }

    // Fails when a refund has no upper bound; the fixed window's `fits` adds with a plain `+`.
    #[test]
    fn refund_never_exceeds_capacity((limit, past, now) in pasts(), amount in costs(), later in any::<u32>()) {
        let refunded = step(&limit, Some(past.state), Action::Refund, amount.under(&limit), now);
        prop_assert!(refunded.verdict.is_admitted());
        let later = now.saturating_add(Duration::from_nanos(u64::from(later)));
        for step in [refunded, peek(&limit, refunded.state, Cost::ONE, later)] {
            prop_assert!(step.verdict.remaining <= u64::from(limit.burst()));
        }
        prop_assert!(!peek(&limit, refunded.state, Amount::Capacity(1).under(&limit), later).verdict.is_admitted());
    }

    // Fails when a debit has no lower bound; a refund gives one less; the fixed window's `fits` adds with a plain `+`.
    #[test]
    fn debit_lowers_bucket_to_minus_its_burst_at_most(
        (limit, past, now) in pasts(), amount in costs(), times in 1..5_usize,
    ) {
        let mut debited = past;
        for _ in 0..times {
            let before = debited;
            debited = step(&limit, Some(debited.state), Action::Debit, amount.under(&limit), now);
            prop_assert!(debited.verdict.remaining <= before.verdict.remaining.max(u64::from(limit.burst())));
        }
        if matches!(limit, Limit::TokenBucket(_)) {
            // After a step back of the clock, the step's span is added.
            prop_assert!(debited.verdict.reset_after <= limit.longest_memory() + STEP_BACK);
            let sunk = step(&limit, Some(debited.state), Action::Debit, Cost::new(u64::MAX), now);
            let full = step(&limit, Some(sunk.state), Action::Refund, Cost::new(2 * u64::from(limit.burst())), now);
            let short = step(&limit, Some(sunk.state), Action::Refund, Cost::new(2 * u64::from(limit.burst()) - 1), now);
            prop_assert_eq!(full.verdict.remaining, u64::from(limit.burst()));
            prop_assert_eq!(short.verdict.remaining, u64::from(limit.burst()) - 1);
        }
    }

    // Fails when a refund has no upper bound; the fixed window's `fits` adds with a plain `+`; a window's end is
    // reported one nanosecond late.
    #[test]
    fn decision_never_panics(
        (requests, burst, nanos) in (1..=u32::MAX, 1..=TokenBucket::MAX_BURST, 1..=3_162_240_000_000_000_000_u64),
        kind in 0..3, state in proptest::option::of((edgy(), edgy())),
        calls in vec((actions(), edgy(), edgy()), 1..5),
    ) {
        let period = Period::new(Duration::from_nanos(nanos)).unwrap();
        let limit = match kind {
            0 => Limit::token_bucket(Rate::new(requests, period).unwrap(), burst).unwrap(),
            1 => Limit::fixed_window(requests, period),
            _ => Limit::sliding_window(requests, period),
        };
        let mut state = state.map(|(since, count)| State::from_bits(since, count));
        for (action, cost, now) in calls {
            let step = step(&limit, state, action, Cost::new(cost), Timestamp::from_nanos(now));
            prop_assert!(step.verdict.remaining <= u64::from(limit.burst()));
            state = Some(step.state);
        }
    }
}

/// Numbers of any size, and both ends of the range.
fn edgy() -> impl Strategy<Value = u64> {
    prop_oneof![3 => any::<u64>(), 1 => 0..3_u64, 1 => u64::MAX - 2..=u64::MAX, 1 => any::<u32>().prop_map(u64::from)]
}
