//! A trace: what is asked of a store, and when. Times and costs are told relative
//! to the limits and to the last answer, so that a trace lands on the edges.

use crate::key::{Key, KeySeed, Parts};
use crate::limit::Limit;
use crate::store::{Charge, Context, Mode, OnRefusal, Op};
use crate::time::Timestamp;
use crate::verdict::{Cost, Outcome, Verdicts};
use std::time::Duration;

/// Times stay below this, so that no wait reaches past the last moment that can be told.
const LATEST: u64 = u64::MAX / 2;

/// Requests on a handful of counters.
///
/// ```
/// use hivemind_core::store::{Mode, OnRefusal, Op};
/// use hivemind_core::testing::{Amount, TraceCharge, TraceCall, TraceEvent, Gap, Trace};
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
///     None // No answer, so no wait that `Gap::Wait` could go by.
/// });
/// assert_eq!(seen, [(2, 999_999_999), (0, 0)]);
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    /// The counters' limits, one each.
    pub limits: Vec<Limit>,
    /// What refused batches leave.
    pub on_refusal: OnRefusal,
    /// When it begins.
    pub start: Timestamp,
    /// What happens.
    pub events: Vec<TraceEvent>,
}

/// One thing that happens.
///
/// ```
/// use hivemind_core::testing::{TraceEvent, Gap};
///
/// let nothing_asked = TraceEvent::Batch(Gap::Nanos(0), vec![]);
/// assert!(matches!(nothing_asked, TraceEvent::Batch(_, asks) if asks.is_empty()));
/// ```
#[derive(Clone, Debug)]
pub enum TraceEvent {
    /// A request, some time after the last.
    Batch(Gap, Vec<TraceCharge>),
    /// A counter is forgotten.
    Forget(usize),
}

/// What a trace asks of a store.
///
/// ```
/// use hivemind_core::{Timestamp, store::Context, testing::{TraceCall, Model}};
///
/// let call = TraceCall::Decide(&[], Context::at(Timestamp::EPOCH));
/// let TraceCall::Decide(batch, context) = call else { unreachable!() };
/// assert!(Model::default().decide(batch, context).committed);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum TraceCall<'a> {
    /// To decide a request.
    Decide(&'a [Charge<'a>], Context),
    /// To forget a counter.
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
    /// Which of the counters.
    pub counter: usize,
    /// How much.
    pub amount: Amount,
    /// What to do.
    pub op: Op,
    /// What a refusal means.
    pub mode: Mode,
}

/// A cost, as the limit sees it.
///
/// ```
/// use hivemind_core::{Cost, Limit, Period, testing::Amount};
///
/// let limit = Limit::fixed_window(5, Period::SECOND);
/// assert_eq!(Amount::Units(1).under(&limit), Cost::ONE);
/// assert_eq!(Amount::Capacity(1).under(&limit), Cost::new(6)); // Just too much.
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// So many units.
    Units(u64),
    /// The capacity, and so many more or fewer.
    Capacity(i64),
}

impl Amount {
    /// The cost it is under `limit`.
    #[must_use]
    pub fn under(self, limit: &Limit) -> Cost {
        Cost::new(match self {
            Self::Units(units) => units,
            Self::Capacity(beside) => u64::from(limit.burst()).saturating_add_signed(beside),
        })
    }
}

/// How much later, or earlier, than the last request.
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
    /// So many nanoseconds later.
    Nanos(u64),
    /// So many nanoseconds earlier: a clock that steps back.
    Back(u64),
    /// When the last refusal said the same would pass, or so many nanoseconds beside it.
    Wait(i64),
    /// At the next edge of a window of the first counter's period, or so many nanoseconds beside it.
    Edge(i64),
}

impl Gap {
    /// The moment that follows `now`; `wait` is what the last refusal said.
    #[must_use]
    pub fn after(self, now: Timestamp, wait: Option<Duration>, limit: &Limit) -> Timestamp {
        let nanos = now.as_nanos();
        let later = match self {
            Self::Nanos(gap) => nanos.saturating_add(gap),
            Self::Back(gap) => nanos.saturating_sub(gap),
            Self::Wait(beside) => {
                let wait = wait.map_or(0, |wait| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
                nanos.saturating_add(wait).saturating_add_signed(beside).max(nanos)
            }
            Self::Edge(beside) => {
                let period = u64::try_from(limit.period().length().as_nanos()).unwrap_or(u64::MAX);
                (nanos / period + 1).saturating_mul(period).saturating_add_signed(beside).max(nanos)
            }
        };
        if later > LATEST { now } else { Timestamp::from_nanos(later) }
    }
}

impl Trace {
    /// Plays it to `ask`, whose answers lead the time of what follows.
    pub fn play(&self, domain: &str, mut ask: impl FnMut(TraceCall<'_>) -> Option<Verdicts>) {
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
                TraceEvent::Batch(gap, asks) => {
                    now = gap.after(now, wait, first);
                    let batch: Vec<Charge<'_>> = asks
                        .iter()
                        .filter_map(|ask| counters.get(ask.counter % counters.len()).map(|c| ask.charge(c)))
                        .collect();
                    let context = Context { on_refusal: self.on_refusal, ..Context::at(now) };
                    wait = ask(TraceCall::Decide(&batch, context)).as_ref().and_then(longest_wait).or(wait);
                }
                TraceEvent::Forget(counter) => {
                    if let Some(counter) = counters.get(counter % counters.len()) {
                        ask(TraceCall::Forget(&TraceCharge::LOOK.charge(counter)));
                    }
                }
            }
        }
    }
}

impl TraceCharge {
    /// A look at a counter, where nothing is asked of it.
    const LOOK: Self = Self { counter: 0, amount: Amount::Units(0), op: Op::Peek, mode: Mode::Shadow };

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
