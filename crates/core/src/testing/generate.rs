//! Generators for edge cases. Uniform gaps never form a burst, and uniform costs never
//! hit a capacity: with them a property holds for broken code too.

use super::trace::{Amount, Gap, Trace, TraceCharge, TraceEvent};
use crate::limit::{Limit, Period, Rate, TokenBucket};
use crate::store::{Mode, OnRefusal, Op};
use crate::time::{STEP_BACK, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

/// Periods: calendar units, their multiples, the shortest and the longest.
fn periods() -> impl Strategy<Value = Period> {
    let ready = [Period::SECOND, Period::MINUTE, Period::HOUR, Period::DAY, Period::WEEK, Period::YEAR];
    let made = [1, 1_000_000, 7_000_000_000, 10_000_000_000, 61_000_000_000, 3_155_760_000_000_000_000]
        .into_iter()
        .filter_map(|nanos| Period::new(Duration::from_nanos(nanos)).ok());
    prop_oneof![
        3 => Just(Period::SECOND),
        2 => proptest::sample::select(ready.into_iter().chain(made).collect::<Vec<_>>()),
    ]
}

/// Token buckets: rates that do not divide a second, bursts of one and of the maximum.
///
/// ```
/// use hivemind_core::{Limit, testing::{buckets, cases}};
/// use proptest::test_runner::TestRunner;
///
/// let always = TestRunner::new(cases(100)).run(&buckets(), |limit| {
///     assert!(matches!(limit, Limit::TokenBucket(_)));
///     Ok(())
/// });
/// assert!(always.is_ok());
/// ```
pub fn buckets() -> impl Strategy<Value = Limit> {
    let requests = prop_oneof![
        6 => proptest::sample::select(vec![1, 3, 7, 10, 1_000]),
        1 => proptest::sample::select(vec![999_999_937, 1_000_000_000, u32::MAX]),
        2 => 1..100_u32,
    ];
    let bursts = prop_oneof![
        6 => proptest::sample::select(vec![1, 2, 5, 21]),
        1 => Just(TokenBucket::MAX_BURST),
        2 => 1..50_u32,
    ];
    (requests, periods(), bursts).prop_filter_map("a valid limit", |(requests, period, burst)| {
        Limit::token_bucket(Rate::new(requests, period).ok()?, burst).ok()
    })
}

/// Fixed and sliding windows, including those that block.
///
/// ```
/// use hivemind_core::{Limit, testing::{cases, windows}};
/// use proptest::test_runner::TestRunner;
///
/// let always = TestRunner::new(cases(100)).run(&windows(), |limit| {
///     assert!(matches!(limit, Limit::FixedWindow(_) | Limit::SlidingWindow(_)));
///     Ok(())
/// });
/// assert!(always.is_ok());
/// ```
pub fn windows() -> impl Strategy<Value = Limit> {
    let requests =
        prop_oneof![6 => proptest::sample::select(vec![0, 1, 2, 5, 10]), 1 => Just(u32::MAX), 2 => 0..50_u32];
    (any::<bool>(), requests, periods()).prop_map(|(slides, requests, period)| {
        if slides { Limit::sliding_window(requests, period) } else { Limit::fixed_window(requests, period) }
    })
}

/// Limits of all three algorithms.
///
/// ```
/// use hivemind_core::testing::{cases, limits};
/// use proptest::test_runner::TestRunner;
///
/// let always = TestRunner::new(cases(100)).run(&limits(), |limit| {
///     assert!(["token_bucket", "fixed_window", "sliding_window"].contains(&limit.algorithm()));
///     Ok(())
/// });
/// assert!(always.is_ok());
/// ```
pub fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![buckets(), windows()]
}

/// Costs: mostly one; also the capacity, one more or less, zero and the maximum.
///
/// ```
/// use hivemind_core::{Limit, Period, testing::{cases, costs}};
/// use proptest::test_runner::TestRunner;
/// use std::cell::Cell;
///
/// let (limit, found) = (Limit::fixed_window(5, Period::SECOND), Cell::new(false));
/// let always = TestRunner::new(cases(200)).run(&costs(), |amount| {
///     found.set(found.get() || amount.under(&limit).get() == 6); // One above the capacity.
///     Ok(())
/// });
/// assert!(always.is_ok() && found.get());
/// ```
pub fn costs() -> impl Strategy<Value = Amount> {
    prop_oneof![
        8 => Just(Amount::Units(1)),
        1 => Just(Amount::Units(0)),
        3 => (-1..=1_i64).prop_map(Amount::Capacity),
        1 => Just(Amount::Units(u64::MAX)),
        2 => (0..12_u64).prop_map(Amount::Units),
    ]
}

/// Gaps of a clock that never steps back: mostly zero.
///
/// ```
/// use hivemind_core::{Limit, Period, Timestamp, testing::{cases, gaps}};
/// use proptest::test_runner::TestRunner;
///
/// let (limit, now) = (Limit::fixed_window(5, Period::SECOND), Timestamp::from_millis(1_500));
/// let always = TestRunner::new(cases(100)).run(&gaps(), |gap| {
///     assert!(gap.after(now, None, &limit) >= now);
///     Ok(())
/// });
/// assert!(always.is_ok());
/// ```
pub fn gaps() -> impl Strategy<Value = Gap> {
    prop_oneof![
        10 => Just(Gap::Nanos(0)),
        4 => (-1..=1_i64).prop_map(Gap::Wait),
        2 => (-1..=1_i64).prop_map(Gap::Edge),
        1 => (0..3_u64).prop_map(Gap::Nanos),
        2 => (0..3_000_000_000_u64).prop_map(Gap::Nanos),
        1 => (0..1_000_000_000_000_u64).prop_map(Gap::Nanos),
    ]
}

/// Gaps of a clock that also steps back: a little, [`STEP_BACK`] and one nanosecond more or less, and far.
fn stepping_gaps() -> impl Strategy<Value = Gap> {
    #[expect(clippy::cast_possible_truncation, reason = "a minute has few nanoseconds")]
    let step_back = STEP_BACK.as_nanos() as u64;
    prop_oneof![
        8 => gaps(),
        1 => (0..3_000_000_000_u64).prop_map(Gap::Back),
        1 => (step_back - 1..=step_back + 1).prop_map(Gap::Back),
        1 => (0..200_000_000_000_u64).prop_map(Gap::Back),
    ]
}

/// Traces for every store: two thirds with all operations, one third with a clock that steps back.
///
/// Where the clock steps back, each charge counts on its counter. Otherwise a store may record
/// the time or not, and may keep or drop a blank state; only such a clock shows the difference.
///
/// ```
/// use hivemind_core::store::{MemoryStore, StoreOptions};
/// use hivemind_core::testing::{cases, follows_the_model, traces};
/// use proptest::test_runner::TestRunner;
///
/// let always = TestRunner::new(cases(10)).run(&traces(), |trace| {
///     follows_the_model(&MemoryStore::new(StoreOptions::default()), &trace);
///     Ok(())
/// });
/// assert!(always.is_ok());
/// ```
pub fn traces() -> impl Strategy<Value = Trace> {
    let steady = (any_refusal(), vec(event(gaps(), ops(), costs()), 1..60));
    let some_cost = costs().prop_map(|amount| match amount {
        Amount::Units(units) => Amount::Units(units.max(1)),
        Amount::Capacity(_) => Amount::Units(2),
    });
    let counted = proptest::sample::select(vec![OnRefusal::CountRefusing, OnRefusal::CountAll]);
    let taking = proptest::sample::select(vec![Op::Spend, Op::Spend, Op::Spend, Op::Peek, Op::Debit]);
    let stepping = (counted, vec(event(stepping_gaps(), taking, some_cost), 1..60));
    let steady = (vec(limits(), 1..4), starts(), steady).prop_map(trace);
    let stepping = (vec(limits(), 1..4), starts(), stepping).prop_map(trace).prop_map(always_counted);
    prop_oneof![2 => steady.boxed(), 1 => stepping.boxed()]
}

fn trace(
    (limits, start, (on_refusal, events)): (Vec<Limit>, Timestamp, (OnRefusal, Vec<TraceEvent>)),
) -> Trace {
    Trace { limits, on_refusal, start, events }
}

/// Reduces costs that are above a limit, which `count_refusing` does not count. A limit of zero is below any cost.
fn always_counted(mut trace: Trace) -> Trace {
    let least = trace.limits.iter().map(|limit| u64::from(limit.burst())).min().unwrap_or(0);
    if least == 0 {
        trace.on_refusal = OnRefusal::CountAll;
    }
    if trace.on_refusal == OnRefusal::CountAll {
        return trace;
    }
    let batches = trace.events.iter_mut().filter_map(|event| match event {
        TraceEvent::Batch(_, charges) => Some(charges),
        TraceEvent::Forget(_) => None,
    });
    for charge in batches.flatten() {
        if let Amount::Units(units) = &mut charge.amount {
            *units = (*units).min(least);
        }
    }
    trace
}

fn starts() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        Just(Timestamp::EPOCH),
        Just(Timestamp::from_millis(1_700_000_000_000)),
        (0..2_000_000_000_000_000_000_u64).prop_map(Timestamp::from_nanos),
    ]
}

fn any_refusal() -> impl Strategy<Value = OnRefusal> {
    proptest::sample::select(vec![OnRefusal::CountRefusing, OnRefusal::CountAll, OnRefusal::CountNone])
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![6 => Just(Op::Spend), 1 => Just(Op::Peek), 1 => Just(Op::Refund), 1 => Just(Op::Debit)]
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Shadow), 2 => Just(Mode::Quota)]
}

fn event(
    gaps: impl Strategy<Value = Gap>,
    ops: impl Strategy<Value = Op>,
    costs: impl Strategy<Value = Amount>,
) -> impl Strategy<Value = TraceEvent> {
    let charge = (0..3_usize, costs, ops, modes()).prop_map(|(counter, amount, op, mode)| TraceCharge {
        counter,
        amount,
        op,
        mode,
    });
    prop_oneof![
        19 => (gaps, vec(charge, 1..4)).prop_map(|(gap, charges)| TraceEvent::Batch(gap, charges)),
        1 => (0..3_usize).prop_map(TraceEvent::Forget),
    ]
}
