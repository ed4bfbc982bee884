//! Decisions on a request: tried with the local holdings. Allowance that is missing here and may be available
//! at the owner is requested, once for all waiting decisions; nothing is spent before everything fits.

use super::lookup::{CounterLookup, nothing};
use super::remote::{BatchSpending, RemoteCounter, WaitStage};
use super::{Node, NodeDecision, Ticket, WaitingRequest};
use crate::node::batch::{self, KnownState, OwnedCharge, Trial};
use crate::options::Consistency;
use hivemind_core::algorithm::Action;
use hivemind_core::store::{Charge, Context, Key, LocalStore, Mode, Op, Verdict, Verdicts};
use hivemind_core::{Limit, Timestamp};
use smallvec::SmallVec;

/// How far to go for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Try {
    /// Only with local holdings.
    Probe,
    /// By a request to the owner, if needed.
    Ask,
    /// With local holdings, because the time is over.
    Last,
}

/// The result of trying a batch.
pub(super) enum BatchAttempt {
    Done(Verdicts),
    /// It cannot be decided locally. Requests are in flight, unless it was only a probe.
    Wait(WaitStage),
}

impl Node {
    /// Decides all charges of one request together.
    pub fn decide(&mut self, batch: &[Charge<'_>], context: Context) -> NodeDecision {
        let local = context;
        let context = self.by_mesh_clock(context);
        if self.is_local(batch) {
            return NodeDecision::Now(self.local.0.decide_now(batch, context));
        }
        if let [charge] = batch
            && let Some(verdict) = self.decide_held(charge, local)
        {
            return NodeDecision::Now(Verdicts::of_one(true, verdict));
        }
        self.table.counters.see(context.now);
        let charges = OwnedCharge::list(batch, &self.options);
        self.note_demand(&charges, context.now);
        let ticket = Ticket(self.number());
        match self.attempt(ticket, &charges, context, &WaitStage::Fresh, Try::Ask) {
            BatchAttempt::Done(verdicts) => NodeDecision::Now(verdicts),
            BatchAttempt::Wait(stage) => {
                self.waited = self.waited.saturating_add(1);
                let timeout = context.now.saturating_add(self.options.ask_timeout);
                let until = context.deadline.map_or(timeout, |deadline| deadline.min(timeout));
                self.waiting.insert(
                    ticket,
                    WaitingRequest { batch: charges.into_vec(), context, until, stage, is_operators: false },
                );
                self.flush_urgent(context.now);
                NodeDecision::Later(ticket)
            }
        }
    }

    /// Whether a batch contains only charges that are not shared.
    pub(super) fn is_local(&self, batch: &[Charge<'_>]) -> bool {
        let default = self.options.consistency;
        batch.iter().all(|charge| charge.sharing.consistency.unwrap_or(default) == Consistency::Local)
    }

    /// Decides a batch if that needs no waiting. Otherwise nothing is recorded and no request is sent, except
    /// that a bounded limit requests its missing allowance for the next decision; that request is among the
    /// outputs.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Timestamp, store::{Charge, Context, Key, Parts}};
    /// # use hivemind_mesh::{MeshOptions, testing::mesh_nodes};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// # let charge = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
    /// let mut nodes = mesh_nodes(2, &MeshOptions::default(), now);
    /// let at_once = nodes.iter_mut().filter_map(|node| node.try_decide(&[charge], Context::at(now)));
    /// assert_eq!(at_once.count(), 1); // Its owner's.
    /// ```
    pub fn try_decide(&mut self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        let local = context;
        let context = self.by_mesh_clock(context);
        if self.is_local(batch) {
            return Some(self.local.0.decide_now(batch, context));
        }
        if let [charge] = batch
            && let Some(verdict) = self.decide_held(charge, local)
        {
            return Some(Verdicts::of_one(true, verdict));
        }
        self.table.counters.see(context.now);
        let charges = OwnedCharge::list(batch, &self.options);
        match self.attempt(Ticket(0), &charges, context, &WaitStage::Fresh, Try::Probe) {
            BatchAttempt::Done(verdicts) => {
                self.note_demand(&charges, context.now);
                Some(verdicts)
            }
            BatchAttempt::Wait(_) => None,
        }
    }

    pub(super) fn note_demand(&mut self, batch: &[OwnedCharge], now: Timestamp) {
        // A cost above the limit is never granted, so it must not raise what is granted ahead.
        let can_pass = |charge: &&OwnedCharge| charge.cost <= u64::from(charge.limit.burst());
        for charge in batch.iter().filter(|charge| charge.op == Op::Spend).filter(can_pass) {
            if let Some(mut counter) = self.table.counters.get_mut(&charge.key) {
                counter.demand.note(charge.cost, now);
            }
        }
    }

    fn decide_held(&self, charge: &Charge<'_>, context: Context) -> Option<Verdict> {
        self.table.counters.shards().decide_held(charge, context, self.options.consistency)
    }

    /// Tries a batch. Its counters are frozen meanwhile: fast-path decisions on them wait for the node.
    pub(super) fn attempt(
        &mut self,
        ticket: Ticket,
        batch: &[OwnedCharge],
        context: Context,
        stage: &WaitStage,
        how: Try,
    ) -> BatchAttempt {
        let attempt = self.attempt_frozen(ticket, batch, context, stage, how);
        for charge in batch {
            if let Some(mut counter) = self.table.counters.get_mut(&charge.key) {
                counter.is_frozen = false;
            }
        }
        attempt
    }

    fn attempt_frozen(
        &mut self,
        ticket: Ticket,
        batch: &[OwnedCharge],
        context: Context,
        stage: &WaitStage,
        how: Try,
    ) -> BatchAttempt {
        let last = how == Try::Last;
        let mut known: SmallVec<[KnownState; 2]> = SmallVec::new();
        let mut unseen: SmallVec<[RemoteCounter; 2]> = SmallVec::new();
        let mut alone: SmallVec<[(usize, Limit); 2]> = SmallVec::new();
        for charge in batch {
            let found = if charge.consistency == Consistency::Local {
                None
            } else {
                self.find(charge, context.now, stage, last)
            };
            match found {
                Some(CounterLookup::Here(here)) => known.push(here),
                Some(CounterLookup::Remote(counter)) => {
                    unseen.push(counter);
                    known.push(nothing(charge, context.now));
                }
                // Charges that are not shared take nothing from the shared limits of their batch.
                None => {
                    let limit = charge.limit;
                    let Some(verdict) = self.peek_alone(batch, known.len(), &limit, context) else {
                        continue;
                    };
                    alone.push((known.len(), limit));
                    known.push(KnownState::Alone { verdict });
                }
            }
        }
        if how == Try::Probe && !unseen.is_empty() {
            return BatchAttempt::Wait(WaitStage::Fresh);
        }
        if !unseen.is_empty() {
            return BatchAttempt::Wait(self.ask_remote(ticket, batch, &unseen, context));
        }
        let trials = batch::try_all(batch, &known, context);
        let refuses = |(charge, trial): (&OwnedCharge, &Trial)| {
            charge.op != Op::Debit
                && charge.mode == Mode::Enforce
                && !trial.verdict.is_admitted()
                && trial.lacks == 0
        };
        let doomed = batch.iter().zip(&trials).any(refuses);
        if how == Try::Probe {
            let lacks = !doomed && trials.iter().any(|trial| trial.lacks > 0);
            if lacks || self.could_recall(batch, &trials, context) || self.needs_owner(batch, &trials) {
                return BatchAttempt::Wait(WaitStage::Fresh);
            }
        }
        if how != Try::Last {
            self.request_for_next(batch, &trials, context);
        }
        if how == Try::Ask && !doomed && self.request_missing_allowance(ticket, batch, &trials, context) {
            return BatchAttempt::Wait(WaitStage::Fresh);
        }
        if how == Try::Ask && self.recall_for(ticket, batch, &trials, context) {
            return BatchAttempt::Wait(WaitStage::Fresh);
        }
        self.conclude(ticket, batch, (&known, &trials, &alone), context)
    }

    /// Commits the batch, or leaves what a refusal leaves, and returns the verdicts.
    fn conclude(
        &mut self,
        ticket: Ticket,
        batch: &[OwnedCharge],
        (known, trials, alone): (&[KnownState], &[Trial], &[(usize, Limit)]),
        context: Context,
    ) -> BatchAttempt {
        let committed = batch::commits(batch, trials);
        let mut remote: SmallVec<[Key; 2]> = SmallVec::new();
        let mut verdicts: SmallVec<[Verdict; 2]> = SmallVec::new();
        let mut left: SmallVec<[KnownState; 2]> = SmallVec::from_slice(known);
        for (index, (charge, trial)) in batch.iter().zip(trials).enumerate() {
            let (action, after, verdict) = if committed {
                let action = match batch::action(charge, context.on_refusal) {
                    // A refused spend has no effect in a committed batch, and is counted at most.
                    Action::Spend { count_refusal } if !trial.verdict.is_admitted() => {
                        if count_refusal {
                            Action::Count
                        } else {
                            Action::Peek
                        }
                    }
                    action => action,
                };
                (action, trial.after, trial.verdict)
            } else {
                let action = batch::left_behind(charge, trial, context.on_refusal);
                let now_known = left.get(index).copied().unwrap_or(trial.after);
                let done = now_known.attempt(charge, action, context.now);
                if action != Action::Peek {
                    // Later charges of the batch build on it.
                    let same = |other: &OwnedCharge| other.key == charge.key;
                    let places = left.iter_mut().zip(batch).filter(|(_, other)| same(other));
                    places.for_each(|(place, _)| *place = done.after);
                }
                (action, done.after, Verdict { outcome: trial.verdict.outcome, ..done.verdict })
            };
            verdicts.push(verdict);
            if action != Action::Peek && !matches!(after, KnownState::Alone { .. }) {
                let rest = self.record(charge, action, &after, trial, context.now);
                if rest > 0 {
                    // In the order of the batch: a later request must not be applied before it.
                    if self.ask_to_do(ticket, &OwnedCharge { cost: rest, ..*charge }, action, context.now) {
                        remote.push(charge.key);
                    }
                }
            }
        }
        if !alone.is_empty() {
            self.settle_alone(batch, alone, committed, (&mut verdicts, context));
        }
        let verdicts = Verdicts::new(committed, verdicts);
        self.flush_urgent(context.now);
        if remote.is_empty() {
            return BatchAttempt::Done(verdicts);
        }
        let here = batch.iter().zip(trials).enumerate().filter(|(_, (charge, trial))| {
            charge.op == Op::Spend && trial.verdict.is_admitted() && !remote.contains(&charge.key)
        });
        let here = here.map(|(place, (charge, _))| {
            let limit = alone.iter().find(|(other, _)| *other == place).map(|(_, limit)| *limit);
            (*charge, limit)
        });
        let taken = BatchSpending::local(here.collect());
        BatchAttempt::Wait(WaitStage::Doing { verdicts, taken, failed: false, open: remote.len() })
    }
}
