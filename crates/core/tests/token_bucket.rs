//! Token bucket properties, in exact arithmetic: tokens times the period, so that a
//! third of a token needs no rounding.
#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::algorithm::{STEP_BACK, TokenBucket};
use hivemind_core::store::Outcome;
use hivemind_core::testing::{Amount, Gap, buckets, cases, costs, gaps};
use hivemind_core::{Cost, Limit, Period, Rate, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const SPEND: Action = Action::Spend { count_refusal: true };
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn bucket(requests: u32, period: Period, burst: u32) -> Limit {
    Limit::token_bucket(Rate::new(requests, period).unwrap(), burst).unwrap()
}

/// One counter, driven by hand.
struct Counter<'a> {
    limit: &'a Limit,
    state: Option<State>,
    now: Timestamp,
    wait: Option<Duration>,
}

impl<'a> Counter<'a> {
    fn new(limit: &'a Limit) -> Self {
        Self { limit, state: None, now: START, wait: None }
    }

    /// Spends after a gap; returns the admitted cost.
    fn spend(&mut self, gap: Gap, amount: Amount) -> u64 {
        self.now = gap.after(self.now, self.wait, self.limit);
        let cost = amount.under(self.limit);
        let step = step(self.limit, self.state, SPEND, cost, self.now);
        self.state = Some(step.state);
        match step.verdict.outcome {
            Outcome::Admitted => cost.get(),
            Outcome::Refused { retry_after } => {
                self.wait = retry_after.or(self.wait);
                0
            }
        }
    }

    fn remaining(&self) -> u64 {
        step(self.limit, self.state, Action::Peek, Cost::ONE, self.now).verdict.remaining
    }
}

/// The budget of a bucket in `nanos`, times its period.
fn allowance(limit: &Limit, nanos: i128) -> i128 {
    i128::from(limit.burst()) * period(limit) + i128::from(limit.requests()) * nanos
}

fn period(limit: &Limit) -> i128 {
    limit.period().length().as_nanos().try_into().unwrap()
}

// Fails when a cost above the remaining tokens fits.
#[test]
fn spent_burst_refills_token_by_token() {
    let limit = bucket(2, Period::SECOND, 2);
    let mut counter = Counter::new(&limit);
    for (gap_ms, admitted) in
        [(0, 1), (0, 1), (0, 0), (499, 0), (1, 1), (0, 0), (500, 1), (5_000, 1), (0, 1), (0, 0)]
    {
        assert_eq!(counter.spend(Gap::Nanos(gap_ms * 1_000_000), Amount::Units(1)), admitted, "{gap_ms}");
    }
}

// Fails when a refill sets `since` to now; a cost above the remaining tokens fits.
#[test]
fn thirds_of_a_second_add_up_to_whole_seconds() {
    // A third of a second is not a whole number of nanoseconds: the fraction is carried over.
    let limit = bucket(3, Period::SECOND, 3);
    let mut counter = Counter::new(&limit);
    assert_eq!(counter.spend(Gap::Nanos(0), Amount::Units(3)), 3);
    for (gap, admitted) in [(333_333_333, 0), (1, 1), (333_333_332, 0), (1, 1), (333_333_332, 0), (1, 1)] {
        assert_eq!(counter.spend(Gap::Nanos(gap), Amount::Units(1)), admitted, "{gap}");
    }
    assert_eq!(counter.now, START.saturating_add(Duration::from_secs(1)));
}

fn stepping() -> impl Strategy<Value = Gap> {
    let minute = u64::try_from(STEP_BACK.as_nanos()).unwrap();
    prop_oneof![
        6 => gaps(),
        1 => (0..2_000_000_000_u64).prop_map(Gap::Back),
        1 => (minute - 1..=minute + 1).prop_map(Gap::Back),
        1 => (0..300_000_000_000_u64).prop_map(Gap::Back),
    ]
}

proptest! {
    #![proptest_config(cases(2_000))]

    // Fails when a refill is capped at twice the missing tokens; a refill drops its phase; a cost above the remaining tokens fits.
    #[test]
    fn any_span_admits_at_most_burst_plus_rate(limit in buckets(), calls in vec((gaps(), costs()), 1..80)) {
        let mut counter = Counter::new(&limit);
        let admitted: Vec<(i128, i128)> = calls
            .into_iter()
            .map(|(gap, amount)| {
                let passed = counter.spend(gap, amount);
                (i128::from(counter.now.as_nanos()), i128::from(passed))
            })
            .collect();
        for first in 0..admitted.len() {
            let mut sum = 0;
            for &(now, passed) in &admitted[first..] {
                sum += passed;
                prop_assert!(sum * period(&limit) <= allowance(&limit, now - admitted[first].0));
            }
        }
    }

    // With a clock that steps back, any two requests admit between them at most the burst
    // plus the rate times all the time that the clock went forward. While the clock stays
    // within `STEP_BACK` of its latest time, time is not counted twice, except when a request
    // took nothing from a full bucket: the bucket is stored as full at that time, and a
    // clock that then steps back earns from the earlier time (decision 005; found by the
    // long run).
    // Fails when a refill is capped at twice the missing tokens; a refill drops its phase; a cost above the remaining tokens fits.
    #[test]
    fn clock_stepping_back_earns_no_extra_tokens(
        limit in buckets(), calls in vec((stepping(), costs()), 1..80),
    ) {
        let mut counter = Counter::new(&limit);
        let takes = |amount: &Amount| (1..=u64::from(limit.burst())).contains(&amount.under(&limit).get());
        let all_take = calls.iter().all(|(_, amount)| takes(amount));
        let admitted: Vec<(Timestamp, i128)> = calls
            .into_iter()
            .map(|(gap, amount)| {
                let passed = counter.spend(gap, amount);
                (counter.now, i128::from(passed))
            })
            .collect();
        for first in 0..admitted.len() {
            let (start, _) = admitted[first];
            let (mut sum, mut forward, mut before) = (0, Duration::ZERO, start);
            let (mut latest, mut earliest, mut near) = (start, start, all_take);
            for &(now, passed) in &admitted[first..] {
                sum += passed;
                forward += now.since(before);
                before = now;
                let nanos = i128::try_from(forward.as_nanos()).unwrap();
                prop_assert!(sum * period(&limit) <= allowance(&limit, nanos));
                (latest, earliest) = (latest.max(now), earliest.min(now));
                near &= admitted.iter().all(|(other, _)| other.since(now) <= STEP_BACK);
                if near {
                    let span = i128::try_from(latest.since(earliest).as_nanos()).unwrap();
                    prop_assert!(sum * period(&limit) <= allowance(&limit, span));
                }
            }
        }
    }

    // Fails when a refill drops its phase; a refill sets `since` to now.
    #[test]
    fn busy_bucket_loses_no_fraction_of_a_token(
        requests in proptest::sample::select(vec![1, 3, 7, 10, 1_000, 999_999_937, u32::MAX]),
        per in proptest::sample::select(vec![Period::SECOND, Period::SECOND.times(10).unwrap(), Period::YEAR]),
        burst in prop_oneof![2..6_u32, Just(TokenBucket::MAX_BURST)],
        gaps in vec(prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()], 1..200),
    ) {
        let limit = bucket(requests, per, burst);
        // Long enough for all tokens except one: the bucket is never full again, so it must not lose anything.
        let longest = i128::from(burst - 1) * period(&limit) / i128::from(requests);
        let longest = u64::try_from(longest.min(i128::from(u64::MAX / 1_000))).unwrap();
        let mut counter = Counter::new(&limit);
        let mut passed = i128::from(counter.spend(Gap::Nanos(0), Amount::Capacity(0)));
        for gap in gaps {
            let gap = if gap == u64::MAX { longest } else { gap % (longest + 1) };
            counter.now = counter.now.saturating_add(Duration::from_nanos(gap));
            passed += i128::from(counter.spend(Gap::Nanos(0), Amount::Units(counter.remaining())));
            let elapsed = i128::from(counter.now.as_nanos() - START.as_nanos());
            prop_assert_eq!(passed, allowance(&limit, elapsed) / period(&limit));
        }
    }

    // Fails when a refill is capped at twice the missing tokens; a cost above the remaining tokens fits.
    #[test]
    fn idle_bucket_holds_at_most_one_burst(limit in buckets(), calls in vec((gaps(), costs()), 0..20), idle in any::<u32>()) {
        let mut counter = Counter::new(&limit);
        for (gap, amount) in calls {
            counter.spend(gap, amount);
        }
        counter.spend(Gap::Nanos(0), Amount::Capacity(0));
        let full_after = step(&limit, counter.state, Action::Peek, Cost::ZERO, counter.now).verdict.reset_after;
        let nanos = u64::try_from(full_after.as_nanos()).unwrap();
        prop_assume!(nanos < u64::MAX / 8);
        // Just full, and idle for the same time again: tokens above the capacity are lost.
        counter.now = counter.now.saturating_add(Duration::from_nanos(nanos + u64::from(idle) % (nanos + 1)));
        prop_assert_eq!(counter.remaining(), u64::from(limit.burst()));
        prop_assert_eq!(counter.spend(Gap::Nanos(0), Amount::Capacity(0)), u64::from(limit.burst()));
        prop_assert_eq!(counter.spend(Gap::Nanos(0), Amount::Units(1)), 0);
    }
}
