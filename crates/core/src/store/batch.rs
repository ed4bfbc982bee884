//! One atomic step over all limits of a request, for any store that can hold its
//! counters still. First every charge is tried and nothing written; then the batch
//! commits whole, or leaves only what a refusal leaves.

use super::{Charge, Context, Mode, OnRefusal, Op};
use crate::algorithm::{Action, State, Step, step};
use crate::key::Parts;
use crate::verdict::{Verdict, Verdicts};
use smallvec::SmallVec;

/// The counters of one batch, held still while it is decided.
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
    /// What is remembered of a charge's counter.
    fn read(&mut self, charge: &Charge<'_>) -> Option<State>;
    /// Remembers what became of it.
    fn write(&mut self, charge: &Charge<'_>, step: &Step);
}

/// What a charge does to its counter if its batch commits.
pub(super) fn action(op: Op, on_refusal: OnRefusal) -> Action {
    match op {
        Op::Spend => Action::Spend { count_refusal: on_refusal != OnRefusal::CountNone },
        Op::Peek => Action::Peek,
        Op::Refund => Action::Refund,
        Op::Debit => Action::Debit,
    }
}

/// Whether a charge that is alone in its batch lets it commit.
pub(super) fn commits_alone(charge: &Charge<'_>, verdict: &Verdict) -> bool {
    verdict.is_admitted() || charge.op == Op::Debit || charge.mode == Mode::Shadow
}

struct Trial {
    step: Step,
    /// Whether an earlier charge of this batch is on the same counter, so that
    /// `step` builds on what that one would have spent.
    chained: bool,
}

/// Decides a batch on counters that the caller holds still: what a store is made of
/// that keeps them elsewhere than in this process.
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
/// let (limit, nobody) = (Limit::fixed_window(3, Period::DAY), Parts { domain: "", entries: &[] });
/// let charge = Charge::spend(Key::from_bits(1, 2), nobody, &limit);
/// let mut counter = OneCounter::default();
/// let mut twice = || decide_on(&[charge, charge], Context::at(Timestamp::EPOCH), &mut counter);
/// assert!(twice().committed);
/// assert!(!twice().committed); // One is left, and the batch asks for two.
/// ```
pub fn decide_on(batch: &[Charge<'_>], context: Context, counters: &mut impl Counters) -> Verdicts {
    let trials = try_all(batch, context, counters);
    let committed = commits(batch, trials.iter().map(|trial| &trial.step.verdict));
    settle(batch, context, counters, (&trials, committed))
}

/// The same for a part of a batch, of which the whole decides whether it commits: see [`commits`].
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
/// let (limit, nobody) = (Limit::fixed_window(3, Period::DAY), Parts { domain: "", entries: &[] });
/// let charge = Charge::spend(Key::from_bits(1, 2), nobody, &limit);
/// // This part would pass; another part of the batch was refused, so nothing is spent here.
/// let told = settle_on(&[charge], Context::at(Timestamp::EPOCH), &mut OneCounter::default(), false);
/// assert!(!told.committed && told.each()[0].is_admitted() && told.each()[0].remaining == 3);
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
    (trials, committed): (&[Trial], bool),
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
    Verdicts::new(false, charged.map(|(charge, trial)| leave_refused(charge, trial, context, counters)))
}

fn try_all(batch: &[Charge<'_>], context: Context, counters: &mut impl Counters) -> SmallVec<[Trial; 2]> {
    let mut trials: SmallVec<[Trial; 2]> = SmallVec::with_capacity(batch.len());
    for charge in batch {
        let earlier = batch.iter().zip(&trials).rev().find(|(earlier, _)| earlier.key == charge.key);
        let (state, chained) = match earlier {
            Some((_, trial)) => (Some(trial.step.state), true),
            None => (counters.read(charge), false),
        };
        let action = action(charge.op, context.on_refusal);
        let step = step(charge.limit, state, action, charge.cost, context.now);
        trials.push(Trial { step, chained });
    }
    trials
}

/// Whether a batch commits whose charges, each tried, got these verdicts.
///
/// ```
/// use hivemind_core::store::{Charge, Key, Mode, Outcome, Parts, Verdict, commits};
/// use hivemind_core::{Limit, Period};
/// use std::time::Duration;
///
/// let (limit, nobody) = (Limit::fixed_window(0, Period::DAY), Parts { domain: "", entries: &[] });
/// let charge = Charge::spend(Key::from_bits(1, 2), nobody, &limit);
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
            // Limits of one descriptor stand side by side and are one quota, refused by any of them.
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

/// Records what a refused batch leaves on one counter, and says so.
fn leave_refused(
    charge: &Charge<'_>,
    trial: &Trial,
    context: Context,
    counters: &mut impl Counters,
) -> Verdict {
    let admitted = trial.step.verdict.is_admitted();
    let action = match (charge.op, admitted, context.on_refusal) {
        (Op::Refund | Op::Debit, ..) => action(charge.op, context.on_refusal),
        (Op::Spend, false, OnRefusal::CountRefusing | OnRefusal::CountAll)
        | (Op::Spend, true, OnRefusal::CountAll) => Action::Count,
        (Op::Spend | Op::Peek, ..) => Action::Peek,
    };
    // What was refused stands as tried, unless it was tried on top of a spending that is now undone.
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
