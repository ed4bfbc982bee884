//! Reference model of a store: the rules of a batch in their simplest form, a map of
//! states that is copied to try a batch. It shares only the pure algorithms with the
//! stores, so a mistake in their bookkeeping cannot be in both.

use crate::algorithm::{Action, State, Step, step};
use crate::key::Key;
use crate::store::{Charge, Context, Mode, OnRefusal, Op};
use crate::verdict::{Verdict, Verdicts};
use std::collections::BTreeMap;

/// A naive store that every other store has to agree with.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, Parts};
/// use hivemind_core::{Limit, Period, Timestamp, testing::Model};
///
/// let (limit, parts) = (Limit::fixed_window(1, Period::SECOND), Parts { domain: "", entries: &[] });
/// let charge = Charge::spend(Key::from_bits(1, 2), parts, &limit);
/// let (mut model, now) = (Model::default(), Context::at(Timestamp::EPOCH));
/// assert!(model.decide(&[charge], now).committed && !model.decide(&[charge], now).committed);
/// assert!(model.state(charge.key).is_some());
/// model.forget(charge.key);
/// assert!(model.decide(&[charge], now).committed);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Model {
    states: BTreeMap<Key, State>,
}

impl Model {
    /// Decides all charges of one request together.
    pub fn decide(&mut self, batch: &[Charge<'_>], context: Context) -> Verdicts {
        let mut after = self.states.clone();
        let tried: Vec<Verdict> = batch.iter().map(|charge| attempt(&mut after, charge, context)).collect();
        let committed = commits(batch, &tried);
        if committed {
            self.states = after;
            return Verdicts::new(true, tried);
        }
        let left =
            batch.iter().zip(&tried).map(|(charge, tried)| self.record_refusal(charge, tried, context));
        Verdicts::new(false, left.collect::<Vec<_>>())
    }

    /// Removes one counter.
    pub fn forget(&mut self, key: Key) {
        self.states.remove(&key);
    }

    /// The state of one counter.
    #[must_use]
    pub fn state(&self, key: Key) -> Option<State> {
        self.states.get(&key).copied()
    }

    /// Records a refused batch on one counter: refunds and debits, and on windows the
    /// refused cost where it counts. The verdict has the budget after that, but the outcome
    /// of the trial.
    fn record_refusal(&mut self, charge: &Charge<'_>, tried: &Verdict, context: Context) -> Verdict {
        let counts = match context.on_refusal {
            OnRefusal::CountAll => true,
            OnRefusal::CountRefusing => !tried.is_admitted() && can_pass(charge),
            OnRefusal::CountNone => false,
        };
        let action = match charge.op {
            Op::Refund => Action::Refund,
            Op::Debit => Action::Debit,
            Op::Spend if counts => Action::Count,
            Op::Spend | Op::Peek => Action::Peek,
        };
        let step = step_on(&self.states, charge, action, context);
        if action != Action::Peek {
            self.states.insert(charge.key, step.state);
        }
        Verdict { outcome: tried.outcome, ..step.verdict }
    }
}

fn attempt(states: &mut BTreeMap<Key, State>, charge: &Charge<'_>, context: Context) -> Verdict {
    let action = match charge.op {
        Op::Spend => {
            let counts = context.on_refusal == OnRefusal::CountRefusing && can_pass(charge);
            Action::Spend { count_refusal: counts || context.on_refusal == OnRefusal::CountAll }
        }
        Op::Peek => Action::Peek,
        Op::Refund => Action::Refund,
        Op::Debit => Action::Debit,
    };
    let step = step_on(states, charge, action, context);
    if charge.op != Op::Peek {
        states.insert(charge.key, step.state);
    }
    step.verdict
}

/// Whether the cost fits into an unused limit.
fn can_pass(charge: &Charge<'_>) -> bool {
    charge.cost.get() <= u64::from(charge.limit.burst())
}

fn step_on(states: &BTreeMap<Key, State>, charge: &Charge<'_>, action: Action, context: Context) -> Step {
    step(charge.limit, states.get(&charge.key).copied(), action, charge.cost, context.now)
}

fn commits(batch: &[Charge<'_>], tried: &[Verdict]) -> bool {
    let of_mode = |mode: Mode| -> Vec<(&Charge<'_>, bool)> {
        // A debit is always taken, so it refuses nothing.
        let refused =
            |charge: &Charge<'_>, verdict: &Verdict| charge.op != Op::Debit && !verdict.is_admitted();
        let judged = batch.iter().zip(tried).filter(|(charge, _)| charge.mode == mode);
        judged.map(|(charge, verdict)| (charge, refused(charge, verdict))).collect()
    };
    let stopped_by_a_limit = of_mode(Mode::Enforce).iter().any(|(_, refused)| *refused);
    // The charges of one descriptor are one quota.
    let quotas = of_mode(Mode::Quota);
    let mut groups = quotas.chunk_by(|(one, _), (next, _)| one.parts == next.parts);
    let stopped_by_quotas =
        !quotas.is_empty() && groups.all(|quota| quota.iter().any(|(_, refused)| *refused));
    !stopped_by_a_limit && !stopped_by_quotas
}
