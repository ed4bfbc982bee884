//! Window properties: aligned to the Unix epoch, never above the limit, and an exact
//! sliding estimate.

use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::testing::{Amount, Gap, cases, costs, gaps};
use hivemind_core::{Cost, Limit, Period, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const UNCOUNTED: Action = Action::Spend { count_refusal: false };

/// Every unit and some multiples, with the length in seconds.
const PERIODS: [(Period, u32, u64); 12] = [
    (Period::SECOND, 1, 1),
    (Period::SECOND, 10, 10),
    (Period::MINUTE, 1, 60),
    (Period::MINUTE, 5, 300),
    (Period::HOUR, 1, 3_600),
    (Period::HOUR, 7, 25_200),
    (Period::DAY, 1, 86_400),
    (Period::DAY, 3, 259_200),
    (Period::WEEK, 1, 604_800),
    (Period::MONTH, 1, 2_592_000),
    (Period::YEAR, 1, 31_536_000),
    (Period::YEAR, 10, 315_360_000),
];

// Fails when the fixed window's `fits` compares with `<`; the count of the previous window is kept; a
// window's end is reported one nanosecond late.
#[test]
fn windows_begin_at_multiples_of_their_period_since_the_epoch() {
    for (unit, times, seconds) in PERIODS {
        let period = unit.times(times).unwrap();
        let limit = Limit::fixed_window(1, period);
        let nanos = seconds * 1_000_000_000;
        for window in [0, 1, 17, 1_700_000_000 / seconds] {
            let (first, last) = (window * nanos, (window + 1) * nanos - 1);
            let mut state = None;
            for (at, admitted, reset) in
                [(first, true, nanos), (last, false, 1), (last + 1, true, nanos), (last + nanos, false, 1)]
            {
                let step = step(&limit, state, UNCOUNTED, Cost::ONE, Timestamp::from_nanos(at));
                let message = format!("{limit}, window {window}, at {at}");
                assert_eq!(step.verdict.is_admitted(), admitted, "{message}");
                assert_eq!(step.verdict.reset_after, Duration::from_nanos(reset), "{message}");
                state = Some(step.state);
            }
        }
    }
}

// Fails when a blocked window returns a wait.
#[test]
fn window_of_zero_requests_always_refuses() {
    for limit in [Limit::fixed_window(0, Period::SECOND), Limit::sliding_window(0, Period::SECOND)] {
        let step = step(&limit, None, UNCOUNTED, Cost::ONE, Timestamp::from_millis(1));
        assert_eq!(
            step.verdict.outcome,
            hivemind_core::store::Outcome::Refused { retry_after: None },
            "{limit}"
        );
    }
}

// Fails when a count is dropped when the clock is set back; a window's end is reported one nanosecond late; windows begin half a period off.
#[test]
fn clock_set_back_moves_window_and_small_step_keeps_it() {
    let minute = STEP_BACK.as_nanos();
    let period = Period::HOUR.length().as_nanos();
    let limit = Limit::fixed_window(2, Period::HOUR);
    let at = |nanos: u128| Timestamp::from_nanos(u64::try_from(nanos).unwrap());
    // Two are spent at an hour's start; then the clock steps back to before it.
    for (back, reset) in [(1, period + 1), (minute, period + minute), (minute + 1, minute + 1)] {
        let mut state = None;
        for _ in 0..2 {
            state = Some(step(&limit, state, UNCOUNTED, Cost::ONE, at(period)).state);
        }
        let refused = step(&limit, state, UNCOUNTED, Cost::ONE, at(period - back));
        assert!(!refused.verdict.is_admitted(), "{back}");
        assert_eq!(refused.verdict.reset_after.as_nanos(), reset, "{back}");
    }
}

/// Gaps and costs around the capacity of a small window.
fn calls() -> impl Strategy<Value = Vec<(Gap, Amount)>> {
    vec((gaps(), costs()), 1..120)
}

fn windows() -> impl Strategy<Value = (u32, Period)> {
    let requests = prop_oneof![4 => 1..8_u32, 1 => Just(0), 1 => Just(u32::MAX), 1 => Just(u32::MAX - 1)];
    (requests, proptest::sample::select(PERIODS.to_vec()))
        .prop_map(|(requests, (unit, times, _))| (requests, unit.times(times).unwrap_or(unit)))
}

/// Drives a counter that only counts admitted costs, and reports each time, cost and verdict.
fn drive(
    limit: &Limit,
    calls: Vec<(Gap, Amount)>,
    mut seen: impl FnMut(u64, u64, hivemind_core::store::Verdict),
) {
    let (mut state, mut now): (Option<State>, _) = (None, Timestamp::from_millis(1_700_000_000_000));
    let mut wait = None;
    for (gap, amount) in calls {
        now = gap.after(now, wait, limit);
        let cost = amount.under(limit);
        let step = step(limit, state, UNCOUNTED, cost, now);
        state = Some(step.state);
        if let hivemind_core::store::Outcome::Refused { retry_after } = step.verdict.outcome {
            wait = retry_after.or(wait);
        }
        seen(now.as_nanos(), cost.get(), step.verdict);
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    // Fails when the fixed window's `fits` compares with `<`; the count of the previous window is kept; a
    // window's end is reported one nanosecond late.
    #[test]
    fn fixed_window_admits_its_remaining_budget((requests, period) in windows(), calls in calls()) {
        let limit = Limit::fixed_window(requests, period);
        let nanos = u64::try_from(period.length().as_nanos()).unwrap();
        let mut counts: BTreeMap<u64, u128> = BTreeMap::new();
        drive(&limit, calls, |now, cost, verdict| {
            let count = counts.entry(now / nanos).or_default();
            let fits = *count + u128::from(cost) <= u128::from(requests);
            assert_eq!(verdict.is_admitted(), fits);
            *count += if fits { u128::from(cost) } else { 0 };
            assert_eq!(u128::from(verdict.remaining), u128::from(requests) - *count);
            assert_eq!(verdict.reset_after.as_nanos(), u128::from(nanos - now % nanos));
        });
    }

    // Fails when windows begin half a period off; the sliding estimate is rounded down; the previous window's count is not carried over.
    #[test]
    fn sliding_window_admits_while_estimate_is_within_limit((requests, period) in windows(), calls in calls()) {
        let limit = Limit::sliding_window(requests, period);
        let nanos = u64::try_from(period.length().as_nanos()).unwrap();
        let mut counts: BTreeMap<u64, u128> = BTreeMap::new();
        drive(&limit, calls, |now, cost, verdict| {
            let (window, length) = (now / nanos, u128::from(nanos));
            let last = window.checked_sub(1).and_then(|last| counts.get(&last)).copied().unwrap_or(0);
            let count = counts.entry(window).or_default();
            // The estimate times the period, so that it stays whole.
            let faded = last * u128::from(nanos - now % nanos);
            let fits = (*count + u128::from(cost)) * length + faded <= u128::from(requests) * length;
            assert_eq!(verdict.is_admitted(), fits, "at {now}: {count} and {last} before");
            *count += if fits { u128::from(cost) } else { 0 };
            assert!(*count <= u128::from(requests));
            let used = (*count * length + faded).div_ceil(length);
            assert_eq!(u128::from(verdict.remaining), u128::from(requests).saturating_sub(used));
        });
    }
}
