//! Batch decisions: one atomic step over all limits of a request, for stores that can
//! lock their counters. First every charge is tried and nothing is written. Then the
//! batch commits as a whole, or only its refusal is recorded.

use super::{Charge, Context, Mode, OnRefusal, Op};
use crate::algorithm::{Action, State, Step, step};
use crate::key::Parts;
use crate::verdict::{Verdict, Verdicts};
use smallvec::SmallVec;

/// The counters of one batch, locked by the caller while it is decided.
///
/// ```
/// use hivemind_core::algorithm::{State, Step};
/// use hivemind_core::store::{Charge, Context, Counters, Key, decide_on};
/// use hivemind_core::Timestamp;
/// use std::collections::HashMap;
///
/// struct Map(HashMap<Key, State>);
///
/// impl Counters for Map {
///     fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
///         self.0.get(&charge.key).copied()
///     }
///     fn write(&mut self, charge: &Charge<'_>, step: &Step) {
///         self.0.insert(charge.key, step.state);
///     }
/// }
/// assert!(decide_on(&[], Context::at(Timestamp::EPOCH), &mut Map(HashMap::new())).committed);
/// ```
pub trait Counters {
    /// The stored state of a charge's counter.
    fn read(&mut self, charge: &Charge<'_>) -> Option<State>;
    /// Stores the new state of a charge's counter.
    fn write(&mut self, charge: &Charge<'_>, step: &Step);
}

/// The action of a charge on its counter if its batch commits.
#[inline]
pub(super) fn action(charge: &Charge<'_>, on_refusal: OnRefusal) -> Action {
    match charge.op {
        Op::Spend => Action::Spend { count_refusal: on_refusal.counts_refused(charge.cost, charge.limit) },
        Op::Peek => Action::Peek,
        Op::Refund => Action::Refund,
        Op::Debit => Action::Debit,
    }
}

/// Whether a batch with this single charge commits.
pub(super) fn commits_alone(charge: &Charge<'_>, verdict: &Verdict) -> bool {
    verdict.is_admitted() || charge.op == Op::Debit || charge.mode == Mode::Shadow
}

struct ChargeTrial {
    step: Step,
    /// Whether an earlier charge of this batch is on the same counter, so that `step`
    /// includes its cost.
    chained: bool,
}

/// Decides a batch on counters that the caller has locked: the building block of stores
/// that keep counters outside this process.
///
/// ```
/// # use hivemind_core::{Limit, Period, Timestamp, algorithm::{State, Step}};
/// # use hivemind_core::store::{Charge, Context, Counters, Key, Parts, decide_on};
/// #[derive(Default)]
/// struct OneCounter(Option<State>);
///
/// impl Counters for OneCounter {
///     fn read(&mut self, _: &Charge<'_>) -> Option<State> { self.0 }
///     fn write(&mut self, _: &Charge<'_>, step: &Step) { self.0 = Some(step.state); }
/// }
/// let (limit, parts) = (Limit::fixed_window(3, Period::DAY), Parts { domain: "", entries: &[] });
/// let charge = Charge::spend(Key::from_bits(1, 2), parts, &limit);
/// let mut counter = OneCounter::default();
/// let mut twice = || decide_on(&[charge, charge], Context::at(Timestamp::EPOCH), &mut counter);
/// assert!(twice().committed);
/// assert!(!twice().committed); // One is left, and the batch needs two.
/// ```
pub fn decide_on(batch: &[Charge<'_>], context: Context, counters: &mut impl Counters) -> Verdicts {
    let trials = try_all(batch, context, counters);
    let committed = commits(batch, trials.iter().map(|trial| &trial.step.verdict));
    settle(batch, context, counters, (&trials, committed))
}

/// Like [`decide_on`], for a part of a batch whose whole decides whether it commits: see [`commits`].
///
/// ```
/// # use hivemind_core::{Limit, Period, Timestamp, algorithm::{State, Step}};
/// # use hivemind_core::store::{Charge, Context, Counters, Key, Parts, settle_on};
/// # #[derive(Default)]
/// # struct OneCounter(Option<State>);
/// # impl Counters for OneCounter {
/// #     fn read(&mut self, _: &Charge<'_>) -> Option<State> { self.0 }
/// #     fn write(&mut self, _: &Charge<'_>, step: &Step) { self.0 = Some(step.state); }
/// # }
/// let (limit, parts) = (Limit::fixed_window(3, Period::DAY), Parts { domain: "", entries: &[] });
/// let charge = Charge::spend(Key::from_bits(1, 2), parts, &limit);
// This part would pass; another part of the batch was refused, so nothing is spent here.
/// let settled = settle_on(&[charge], Context::at(Timestamp::EPOCH), &mut OneCounter::default(), false);
/// assert!(!settled.committed && settled.each()[0].is_admitted() && settled.each()[0].remaining == 3);
/// ```
pub fn settle_on(
    batch: &[Charge<'_>],
    context: Context,
    counters: &mut impl Counters,
    committed: bool,
) -> Verdicts {
    let trials = try_all(batch, context, counters);
    settle(batch, context, counters, (&trials, committed))
}

fn settle(
    batch: &[Charge<'_>],
    context: Context,
    counters: &mut impl Counters,
    (trials, committed): (&[ChargeTrial], bool),
) -> Verdicts {
    let charged = batch.iter().zip(trials);
    if committed {
        for (charge, trial) in charged.clone() {
            if charge.op != Op::Peek {
                counters.write(charge, &trial.step);
            }
        }
        return Verdicts::new(true, trials.iter().map(|trial| trial.step.verdict));
    }
    Verdicts::new(false, charged.map(|(charge, trial)| record_refusal(charge, trial, context, counters)))
}

fn try_all(
    batch: &[Charge<'_>],
    context: Context,
    counters: &mut impl Counters,
) -> SmallVec<[ChargeTrial; 2]> {
    let mut trials: SmallVec<[ChargeTrial; 2]> = SmallVec::with_capacity(batch.len());
    for charge in batch {
        let earlier = batch.iter().zip(&trials).rev().find(|(earlier, _)| earlier.key == charge.key);
        let (state, chained) = match earlier {
            Some((_, trial)) => (Some(trial.step.state), true),
            None => (counters.read(charge), false),
        };
        let action = action(charge, context.on_refusal);
        let step = step(charge.limit, state, action, charge.cost, context.now);
        trials.push(ChargeTrial { step, chained });
    }
    trials
}

/// Whether a batch commits, given the verdicts of trying each of its charges.
///
/// ```
/// use hivemind_core::store::{Charge, Key, Mode, Outcome, Parts, Verdict, commits};
/// use hivemind_core::{Limit, Period};
/// use std::time::Duration;
///
/// let (limit, parts) = (Limit::fixed_window(0, Period::DAY), Parts { domain: "", entries: &[] });
/// let charge = Charge::spend(Key::from_bits(1, 2), parts, &limit);
/// let outcome = Outcome::Refused { retry_after: None };
/// let refused = Verdict { outcome, available: 0, remaining: 0, reset_after: Duration::ZERO };
/// assert!(!commits(&[charge], &[refused]));
/// assert!(commits(&[Charge { mode: Mode::Shadow, ..charge }], &[refused]));
/// ```
pub fn commits<'v>(batch: &[Charge<'_>], tried: impl IntoIterator<Item = &'v Verdict>) -> bool {
    let (mut quotas, mut quotas_refused) = (0, 0);
    let mut quota: Option<(Parts<'_>, bool)> = None;
    for (charge, verdict) in batch.iter().zip(tried) {
        let refused = charge.op != Op::Debit && !verdict.is_admitted();
        match charge.mode {
            Mode::Enforce if refused => return false,
            Mode::Enforce | Mode::Shadow => {}
            // The adjacent limits of one descriptor are one quota, which any of them refuses.
            Mode::Quota => match &mut quota {
                Some((parts, counted)) if *parts == charge.parts => {
                    quotas_refused += usize::from(refused && !*counted);
                    *counted |= refused;
                }
                _ => {
                    quotas += 1;
                    quotas_refused += usize::from(refused);
                    quota = Some((charge.parts, refused));
                }
            },
        }
    }
    quotas == 0 || quotas_refused < quotas
}

/// Records a refused batch on one counter, and returns the verdict after it.
fn record_refusal(
    charge: &Charge<'_>,
    trial: &ChargeTrial,
    context: Context,
    counters: &mut impl Counters,
) -> Verdict {
    let admitted = trial.step.verdict.is_admitted();
    let action = match (charge.op, admitted, context.on_refusal) {
        (Op::Refund | Op::Debit, ..) => action(charge, context.on_refusal),
        (Op::Spend, true, OnRefusal::CountAll) => Action::Count,
        (Op::Spend, false, on_refusal) if on_refusal.counts_refused(charge.cost, charge.limit) => {
            Action::Count
        }
        (Op::Spend | Op::Peek, ..) => Action::Peek,
    };
    // A refused charge keeps its trial, unless the trial included a cost that is now undone.
    let stands = !trial.chained && (!admitted || matches!(charge.op, Op::Refund | Op::Debit));
    let step = if stands {
        trial.step
    } else {
        step(charge.limit, counters.read(charge), action, charge.cost, context.now)
    };
    if action != Action::Peek {
        counters.write(charge, &step);
    }
    Verdict { outcome: trial.step.verdict.outcome, ..step.verdict }
}
