//! Traces: sequences of calls to a store. Times and costs are relative to the limits and
//! to the last verdict, so that a trace hits the edge cases.

use crate::key::{Key, KeySeed, Parts};
use crate::limit::Limit;
use crate::store::{Charge, Context, Mode, OnRefusal, Op};
use crate::time::Timestamp;
use crate::verdict::{Cost, Outcome, Verdicts};
use std::time::Duration;

/// Times stay below this, so that no wait exceeds the latest representable time.
const LATEST: u64 = u64::MAX / 2;

/// Requests on a handful of counters.
///
/// ```
/// use hivemind_core::store::{Mode, OnRefusal, Op};
/// use hivemind_core::testing::{Amount, Gap, Trace, TraceCall, TraceCharge, TraceEvent};
/// use hivemind_core::{Limit, Period, Timestamp};
///
/// let one = TraceCharge { counter: 0, amount: Amount::Units(1), op: Op::Spend, mode: Mode::Enforce };
/// let trace = Trace {
///     limits: vec![Limit::fixed_window(5, Period::SECOND)],
///     on_refusal: OnRefusal::CountRefusing,
///     start: Timestamp::EPOCH,
///     events: vec![TraceEvent::Batch(Gap::Edge(-1), vec![one, one]), TraceEvent::Forget(0)],
/// };
/// let mut seen = Vec::new();
/// trace.play("shop", |call| {
///     match call {
///         TraceCall::Decide(batch, context) => seen.push((batch.len(), context.now.as_nanos())),
///         TraceCall::Forget(_) => seen.push((0, 0)),
///     }
///     None // Without verdicts, `Gap::Wait` has no wait.
/// });
/// assert_eq!(seen, [(2, 999_999_999), (0, 0)]);
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    /// The limits, one per counter.
    pub limits: Vec<Limit>,
    /// How refused batches are counted.
    pub on_refusal: OnRefusal,
    /// The start time.
    pub start: Timestamp,
    /// The events, in order.
    pub events: Vec<TraceEvent>,
}

/// One event of a trace.
///
/// ```
/// use hivemind_core::testing::{Gap, TraceEvent};
///
/// let empty = TraceEvent::Batch(Gap::Nanos(0), vec![]);
/// assert!(matches!(empty, TraceEvent::Batch(_, charges) if charges.is_empty()));
/// ```
#[derive(Clone, Debug)]
pub enum TraceEvent {
    /// A request, after a gap since the last one.
    Batch(Gap, Vec<TraceCharge>),
    /// The removal of a counter.
    Forget(usize),
}

/// A call to the store.
///
/// ```
/// use hivemind_core::{Timestamp, store::Context, testing::{Model, TraceCall}};
///
/// let call = TraceCall::Decide(&[], Context::at(Timestamp::EPOCH));
/// let TraceCall::Decide(batch, context) = call else { unreachable!() };
/// assert!(Model::default().decide(batch, context).committed);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum TraceCall<'a> {
    /// Decides a request.
    Decide(&'a [Charge<'a>], Context),
    /// Removes a counter.
    Forget(&'a Charge<'a>),
}

/// One charge of a request.
///
/// ```
/// use hivemind_core::store::{Mode, Op};
/// use hivemind_core::testing::{Amount, TraceCharge};
///
/// let one = TraceCharge { counter: 0, amount: Amount::Units(1), op: Op::Spend, mode: Mode::Enforce };
/// let look = TraceCharge { op: Op::Peek, mode: Mode::Shadow, ..one };
/// assert_eq!(look.counter, one.counter);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TraceCharge {
    /// The counter's index.
    pub counter: usize,
    /// The cost.
    pub amount: Amount,
    /// The operation.
    pub op: Op,
    /// The effect of a refusal.
    pub mode: Mode,
}

/// A cost, absolute or relative to the limit.
///
/// ```
/// use hivemind_core::{Cost, Limit, Period, testing::Amount};
///
/// let limit = Limit::fixed_window(5, Period::SECOND);
/// assert_eq!(Amount::Units(1).under(&limit), Cost::ONE);
/// assert_eq!(Amount::Capacity(1).under(&limit), Cost::new(6)); // One too many.
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// A number of units.
    Units(u64),
    /// The capacity plus this difference.
    Capacity(i64),
}

impl Amount {
    /// The cost under `limit`.
    #[must_use]
    pub fn under(self, limit: &Limit) -> Cost {
        Cost::new(match self {
            Self::Units(units) => units,
            Self::Capacity(difference) => u64::from(limit.burst()).saturating_add_signed(difference),
        })
    }
}

/// The span since the last request.
///
/// ```
/// use hivemind_core::{Limit, Period, Timestamp, testing::Gap};
/// use std::time::Duration;
///
/// let (limit, now) = (Limit::fixed_window(5, Period::SECOND), Timestamp::from_millis(1_500));
/// let after = |gap: Gap| gap.after(now, Some(Duration::from_millis(100)), &limit);
/// assert_eq!(after(Gap::Wait(0)), Timestamp::from_millis(1_600));
/// assert_eq!(after(Gap::Edge(0)), Timestamp::from_millis(2_000));
/// assert_eq!(after(Gap::Back(500_000_000)), Timestamp::from_millis(1_000));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Gap {
    /// Later by this number of nanoseconds.
    Nanos(u64),
    /// Earlier by this number of nanoseconds: a clock that steps back.
    Back(u64),
    /// At the end of the last refusal's wait, plus this difference in nanoseconds.
    Wait(i64),
    /// At the next window edge of the first counter's period, plus this difference in nanoseconds.
    Edge(i64),
}

impl Gap {
    /// The time of the next request after `now`; `wait` is the wait of the last refusal.
    #[must_use]
    pub fn after(self, now: Timestamp, wait: Option<Duration>, limit: &Limit) -> Timestamp {
        let nanos = now.as_nanos();
        let later = match self {
            Self::Nanos(gap) => nanos.saturating_add(gap),
            Self::Back(gap) => nanos.saturating_sub(gap),
            Self::Wait(difference) => {
                let wait = wait.map_or(0, |wait| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
                nanos.saturating_add(wait).saturating_add_signed(difference).max(nanos)
            }
            Self::Edge(difference) => {
                let period = u64::try_from(limit.period().length().as_nanos()).unwrap_or(u64::MAX);
                (nanos / period + 1).saturating_mul(period).saturating_add_signed(difference).max(nanos)
            }
        };
        if later > LATEST { now } else { Timestamp::from_nanos(later) }
    }
}

impl Trace {
    /// Passes the calls to `store`, whose verdicts determine the times of later calls.
    pub fn play(&self, domain: &str, mut store: impl FnMut(TraceCall<'_>) -> Option<Verdicts>) {
        let names: Vec<String> = (0..self.limits.len()).map(|index| index.to_string()).collect();
        let entries: Vec<_> = names.iter().map(|name| [("counter", name.as_str())]).collect();
        let seed = KeySeed::from_cluster_id("conformance");
        let counters: Vec<(Key, Parts<'_>, &Limit)> = (entries.iter().zip(&self.limits))
            .map(|(entries, limit)| {
                let parts = Parts { domain, entries };
                (Key::new(&seed, parts, limit, 0), parts, limit)
            })
            .collect();
        let Some((_, _, first)) = counters.first() else { return };
        let (mut now, mut wait) = (self.start, None);
        for event in &self.events {
            match event {
                TraceEvent::Batch(gap, charges) => {
                    now = gap.after(now, wait, first);
                    let batch: Vec<Charge<'_>> = charges
                        .iter()
                        .filter_map(|charge| {
                            counters.get(charge.counter % counters.len()).map(|c| charge.charge(c))
                        })
                        .collect();
                    let context = Context { on_refusal: self.on_refusal, ..Context::at(now) };
                    wait = store(TraceCall::Decide(&batch, context)).as_ref().and_then(longest_wait).or(wait);
                }
                TraceEvent::Forget(counter) => {
                    if let Some(counter) = counters.get(counter % counters.len()) {
                        store(TraceCall::Forget(&TraceCharge::PEEK.charge(counter)));
                    }
                }
            }
        }
    }
}

impl TraceCharge {
    /// A charge that only reads a counter.
    const PEEK: Self = Self { counter: 0, amount: Amount::Units(0), op: Op::Peek, mode: Mode::Shadow };

    fn charge<'a>(&self, (key, parts, limit): &(Key, Parts<'a>, &'a Limit)) -> Charge<'a> {
        Charge {
            cost: self.amount.under(limit),
            op: self.op,
            mode: self.mode,
            ..Charge::spend(*key, *parts, limit)
        }
    }
}

fn longest_wait(verdicts: &Verdicts) -> Option<Duration> {
    let waits = verdicts.each().iter().filter_map(|verdict| match verdict.outcome {
        Outcome::Refused { retry_after } => retry_after,
        Outcome::Admitted => None,
    });
    waits.max()
}
