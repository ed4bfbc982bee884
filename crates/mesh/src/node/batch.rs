//! One request's charges against the known state of their counters: tried in order, then committed or left as a
//! refusal leaves them. The rules of the other stores, over two kinds of counter: those kept here, and
//! allowance of those kept elsewhere.

use crate::options::{Consistency, MeshOptions, OnUnreachable};
use hivemind_core::algorithm::{Action, State, Step, step};
use hivemind_core::store::{Charge, Context, Key, Mode, OnRefusal, Op, Outcome, Verdict};
use hivemind_core::{Cost, Limit, Timestamp};
use smallvec::SmallVec;

/// An owned charge, which can wait: it borrows nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedCharge {
    pub(crate) key: Key,
    pub(crate) limit: Limit,
    pub(crate) cost: u64,
    pub(crate) op: Op,
    pub(crate) mode: Mode,
    pub(crate) consistency: Consistency,
    pub(crate) on_unreachable: OnUnreachable,
    /// Adjacent charges of one descriptor share one number.
    pub(crate) descriptor: u32,
}

impl OwnedCharge {
    pub(crate) fn list(batch: &[Charge<'_>], options: &MeshOptions) -> SmallVec<[Self; 2]> {
        let mut list = SmallVec::with_capacity(batch.len());
        let mut descriptor = 0;
        let mut group = None;
        for charge in batch {
            // Only quotas are grouped; charges in between do not separate them.
            if charge.mode == Mode::Quota {
                descriptor += u32::from(group.is_some_and(|group| group != charge.parts));
                group = Some(charge.parts);
            }
            let Charge { key, limit, cost, op, mode, sharing, .. } = *charge;
            let consistency = sharing.consistency.unwrap_or(options.consistency);
            let on_unreachable = sharing.on_unreachable.unwrap_or(options.on_unreachable);
            let (limit, cost) = (*limit, cost.get());
            list.push(Self { key, limit, cost, op, mode, consistency, on_unreachable, descriptor });
        }
        list
    }

    fn counts_refused(&self, on_refusal: OnRefusal) -> bool {
        on_refusal.counts_refused(Cost::new(self.cost), &self.limit)
    }
}

/// The known state of a counter while a batch is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KnownState {
    /// The counter itself, with the limit and the time it is kept by.
    Counter { state: Option<State>, limit: Limit, moment: Timestamp, extras: StateExtras },
    /// Allowance: what may be spent here, what is left in all as far as is known, and what this node spent.
    Allowance { can: i64, left: i64, own: u64, ends: Timestamp, final_word: bool },
    /// This node's share of a bucket whose owner cannot be reached.
    LocalShare { state: Option<State>, limit: Limit, moment: Timestamp },
    /// A counter that this node keeps by itself, elsewhere: its verdict for the charge.
    Alone { verdict: Verdict },
}

/// What is known in addition to a counter's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateExtras {
    /// Whether the counter counts what it refuses. If not, a peek subtracts the `refused` hits.
    pub(crate) counts_refusals: bool,
    pub(crate) refused: u64,
    /// How much of the counter's content can be refunded.
    pub(crate) refundable: u64,
}

impl StateExtras {
    /// For a counter that contains only spending and refusals.
    pub(crate) const NONE: Self = Self { counts_refusals: true, refused: 0, refundable: u64::MAX };
}

/// The effect of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) verdict: Verdict,
    /// The counter afterwards.
    pub(crate) after: KnownState,
    /// How much is missing here that the owner might have.
    pub(crate) lacks: u64,
}

impl KnownState {
    pub(crate) fn attempt(&self, charge: &OwnedCharge, action: Action, now: Timestamp) -> Trial {
        match *self {
            Self::Alone { verdict } => Trial { verdict, after: *self, lacks: 0 },
            Self::LocalShare { state, limit, moment } => {
                let Step { verdict, state, .. } = step(&limit, state, action, Cost::new(charge.cost), moment);
                Trial { verdict, after: Self::LocalShare { state: Some(state), limit, moment }, lacks: 0 }
            }
            Self::Counter { state, limit, moment, mut extras } => {
                let StateExtras { counts_refusals, refused, refundable } = extras;
                let (action, cost) = match action {
                    Action::Spend { count_refusal } => {
                        (Action::Spend { count_refusal: count_refusal && counts_refusals }, charge.cost)
                    }
                    Action::Count if !counts_refusals => (Action::Peek, charge.cost),
                    Action::Peek => (Action::Peek, charge.cost.saturating_add(refused)),
                    Action::Refund => (Action::Refund, charge.cost.min(refundable)),
                    other => (other, charge.cost),
                };
                let Step { mut verdict, state, .. } = step(&limit, state, action, Cost::new(cost), moment);
                if action == Action::Peek {
                    verdict.available = verdict.available.saturating_sub(refused);
                    verdict.remaining = verdict.remaining.saturating_sub(refused);
                }
                if action == Action::Refund && refundable < u64::MAX {
                    extras.refundable = refundable - cost;
                }
                let after = Self::Counter { state: Some(state), limit, moment, extras };
                Trial { verdict, after, lacks: 0 }
            }
            Self::Allowance { can, left, own, ends, final_word } => {
                let cost = crate::counter::lease::signed(charge.cost);
                // Refusals elsewhere may have counted past what is left.
                let all = can.max(0).saturating_add(left).max(0);
                let (fits, can_after, all_after) = match action {
                    Action::Spend { .. } if cost <= can => (true, can - cost, all - cost),
                    Action::Spend { .. } => (false, can, all),
                    Action::Peek => (cost <= all, can, all),
                    Action::Debit => {
                        (cost <= all, can.saturating_sub(cost.min(can.max(0))), all.saturating_sub(cost))
                    }
                    Action::Refund => {
                        let own = crate::counter::lease::signed(own).min(cost);
                        let full = i64::from(charge.limit.burst());
                        (true, can.saturating_add(own), all.saturating_add(cost).min(full.max(all)))
                    }
                    Action::Count => (true, can, all),
                };
                let outcome = if fits {
                    Outcome::Admitted
                } else {
                    let wait = (charge.cost <= u64::from(charge.limit.burst())).then(|| ends.since(now));
                    Outcome::Refused { retry_after: wait }
                };
                let asks = matches!(action, Action::Spend { .. }) || action == Action::Peek;
                let lacks = if asks && !fits && !final_word {
                    // Spending beyond the held allowance is repaid with it.
                    u64::try_from(cost.saturating_sub(can)).unwrap_or(charge.cost)
                } else {
                    0
                };
                let units = |number: i64| u64::try_from(number).unwrap_or(0);
                let verdict = Verdict {
                    outcome,
                    available: units(all),
                    remaining: units(all_after),
                    reset_after: ends.since(now),
                };
                let after = Self::Allowance {
                    can: can_after,
                    left: all_after.saturating_sub(can_after.max(0)),
                    own,
                    ends,
                    final_word,
                };
                Trial { verdict, after, lacks }
            }
        }
    }
}

/// The action of a charge if its batch commits.
pub(crate) fn action(charge: &OwnedCharge, on_refusal: OnRefusal) -> Action {
    match charge.op {
        Op::Spend => Action::Spend { count_refusal: charge.counts_refused(on_refusal) },
        Op::Peek => Action::Peek,
        Op::Refund => Action::Refund,
        Op::Debit => Action::Debit,
    }
}

/// Tries every charge against the known state and the effects of earlier charges of the batch.
pub(crate) fn try_all(batch: &[OwnedCharge], known: &[KnownState], context: Context) -> SmallVec<[Trial; 2]> {
    let mut trials: SmallVec<[Trial; 2]> = SmallVec::with_capacity(batch.len());
    for (charge, known) in batch.iter().zip(known) {
        let earlier = batch.iter().zip(&trials).rev().find(|(earlier, _)| earlier.key == charge.key);
        let known = earlier.map_or(*known, |(_, trial)| trial.after);
        trials.push(known.attempt(charge, action(charge, context.on_refusal), context.now));
    }
    trials
}

/// Whether a batch with these trials commits.
pub(crate) fn commits(batch: &[OwnedCharge], trials: &[Trial]) -> bool {
    let (mut quotas, mut refused_quotas) = (0, 0);
    let mut last: Option<(u32, bool)> = None;
    for (charge, trial) in batch.iter().zip(trials) {
        let refused = charge.op != Op::Debit && !trial.verdict.is_admitted();
        match charge.mode {
            Mode::Enforce if refused => return false,
            Mode::Enforce | Mode::Shadow => {}
            Mode::Quota => match &mut last {
                Some((descriptor, counted)) if *descriptor == charge.descriptor => {
                    refused_quotas += usize::from(refused && !*counted);
                    *counted |= refused;
                }
                _ => {
                    quotas += 1;
                    refused_quotas += usize::from(refused);
                    last = Some((charge.descriptor, refused));
                }
            },
        }
    }
    quotas == 0 || refused_quotas < quotas
}

/// What a charge of a refused batch leaves behind.
pub(crate) fn left_behind(charge: &OwnedCharge, trial: &Trial, on_refusal: OnRefusal) -> Action {
    match (charge.op, trial.verdict.is_admitted(), on_refusal) {
        (Op::Refund | Op::Debit, ..) => action(charge, on_refusal),
        (Op::Spend, true, OnRefusal::CountAll) => Action::Count,
        (Op::Spend, false, on_refusal) if charge.counts_refused(on_refusal) => Action::Count,
        (Op::Spend | Op::Peek, ..) => Action::Peek,
    }
}
