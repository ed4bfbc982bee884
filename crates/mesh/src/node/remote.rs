//! Counters that their owner decides itself, because there is too little of them to lend.
//! A charge that is alone is done by the owner in one step. Several are looked at first, tried
//! here, and then done; if one of them fails after all, the others are given back.

use super::asks::{Ask, Kind};
use super::decide::Attempt;
use super::{Node, Output, Ticket};
use crate::batch::{self, Owed};
use crate::frame::{Reply, Want};
use hivemind_core::algorithm::{Action, State};
use hivemind_core::store::{Context, Key, Mode, Op, Outcome, Verdict, Verdicts};
use hivemind_core::{Limit, Timestamp};

/// A counter that its owner decides, and whose state was not seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    pub(super) key: Key,
    pub(super) limit: Limit,
    pub(super) tag: u64,
}

/// A counter's state as its owner told it; none if it was never touched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen(pub(super) Option<State>);

/// How far a request that waits has come.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// It waits for rights.
    Fresh,
    /// It waits to see counters.
    Looking { seen: Vec<(Key, Option<State>)>, open: usize },
    /// Its one charge is with its owner.
    Alone,
    /// Its charges are with their owners.
    Doing { verdicts: Verdicts, done: Vec<Owed>, failed: bool, open: usize },
}

impl Stage {
    /// The state of a counter that was looked at.
    pub(super) fn seen(&self, key: Key) -> Option<Seen> {
        let Self::Looking { seen, open: 0 } = self else { return None };
        seen.iter().find(|(looked, _)| *looked == key).map(|(_, state)| Seen(*state))
    }
}

impl Node {
    /// Asks the owners of counters that they decide.
    pub(super) fn ask_remote(
        &mut self,
        ticket: Ticket,
        batch: &[Owed],
        unseen: &[Unseen],
        context: Context,
    ) -> Stage {
        if let ([charge], [counter]) = (batch, unseen) {
            let action = batch::action(charge.op, context.on_refusal);
            self.ask(counter, Kind::Do, vec![ticket], Want::Do { action, cost: charge.cost }, context.now);
            return Stage::Alone;
        }
        let mut looked: Vec<Key> = Vec::new();
        for counter in unseen {
            if !looked.contains(&counter.key) {
                looked.push(counter.key);
                self.ask(counter, Kind::Look, vec![ticket], Want::Look, context.now);
            }
        }
        Stage::Looking { seen: Vec::new(), open: looked.len() }
    }

    fn counter(&mut self, charge: &Owed, now: Timestamp) -> Unseen {
        let tag = self.shelf.tag(&self.council, &self.options, (charge.key, &charge.limit), now);
        Unseen { key: charge.key, limit: charge.limit, tag }
    }

    /// Has owners do what was decided here. What can be refused is waited for.
    pub(super) fn do_remote(
        &mut self,
        ticket: Ticket,
        remote: &[(Owed, Action)],
        verdicts: Verdicts,
        context: Context,
    ) -> Attempt {
        let mut open = 0;
        let mut done = Vec::new();
        for (charge, action) in remote {
            let waits = matches!(action, Action::Spend { .. }) && verdicts.committed;
            let tickets = if waits { vec![ticket] } else { Vec::new() };
            let counter = self.counter(charge, context.now);
            self.ask(
                &counter,
                Kind::Do,
                tickets,
                Want::Do { action: *action, cost: charge.cost },
                context.now,
            );
            open += usize::from(waits);
            if waits {
                done.push(*charge);
            }
        }
        if open == 0 {
            self.flush_urgent(context.now);
            return Attempt::Done(verdicts);
        }
        Attempt::Wait(Stage::Doing { verdicts, done, failed: false, open })
    }

    /// The answer to a look, or to something that was to be done.
    pub(super) fn on_remote_answer(&mut self, now: Timestamp, ask: &Ask, reply: &Reply) {
        for ticket in &ask.tickets {
            let Some(waiting) = self.waiting.get_mut(ticket) else { continue };
            let ready = match (&mut waiting.stage, reply) {
                (Stage::Looking { seen, open }, Reply::Seen(state)) => {
                    seen.push((ask.key, state.map(|(since, count)| State::from_bits(since, count))));
                    *open = open.saturating_sub(1);
                    *open == 0
                }
                (Stage::Alone, Reply::Done(verdict)) => {
                    let verdict = *verdict;
                    self.finish_alone(*ticket, verdict);
                    continue;
                }
                (Stage::Doing { failed, open, .. }, reply) => {
                    let passed = matches!(reply, Reply::Done(verdict) if verdict.is_admitted());
                    *failed |= !passed;
                    *open = open.saturating_sub(1);
                    if *open == 0 {
                        self.finish_doing(*ticket, now);
                    }
                    continue;
                }
                // Not the owner after all: there is nothing to be had from it in time.
                _ => {
                    self.give_up(*ticket, now);
                    continue;
                }
            };
            if ready {
                self.retry(*ticket, now);
            }
        }
    }

    fn finish_alone(&mut self, ticket: Ticket, verdict: Verdict) {
        let Some(waiting) = self.waiting.remove(&ticket) else { return };
        let Some(charge) = waiting.batch.first() else { return };
        let committed = verdict.is_admitted() || charge.op == Op::Debit || charge.mode == Mode::Shadow;
        self.outputs.push(Output::Decided(ticket, Verdicts::new(committed, [verdict])));
    }

    /// All owners have answered, or there is no more time.
    pub(super) fn finish_doing(&mut self, ticket: Ticket, now: Timestamp) {
        let Some(waiting) = self.waiting.remove(&ticket) else { return };
        let Stage::Doing { verdicts, done, failed, open } = waiting.stage else { return };
        if !failed && open == 0 {
            self.outputs.push(Output::Decided(ticket, verdicts));
            return;
        }
        // Somebody was faster: what the others took is given back.
        for charge in &done {
            let counter = self.counter(charge, now);
            let want = Want::Do { action: Action::Refund, cost: charge.cost };
            self.ask(&counter, Kind::Do, Vec::new(), want, now);
        }
        let refused = verdicts.each().iter().map(|verdict| Verdict {
            outcome: Outcome::Refused { retry_after: Some(verdict.reset_after) },
            ..*verdict
        });
        self.outputs.push(Output::Decided(ticket, Verdicts::new(false, refused)));
    }
}
