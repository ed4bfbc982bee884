//! Decisions that wait for an owner: retried on its reply, and decided with local holdings when their time is
//! over.

use super::decide::{BatchAttempt, Try};
use super::remote::WaitStage;
use super::{Lane, Node, Output, Ticket};
use crate::counter::Counter;
use crate::counter::counter_window::Side;
use crate::node::batch::{self, KnownState, OwnedCharge, Trial};
use crate::options::Consistency;
use crate::view::NodeId;
use hivemind_core::Timestamp;
use hivemind_core::store::{OnRefusal, Op};

impl Node {
    /// Whether an owner has to apply a part of a batch, so that it cannot be decided without a request.
    pub(super) fn needs_owner(&mut self, batch: &[OwnedCharge], trials: &[Trial]) -> bool {
        let here = |charge: &OwnedCharge| {
            let has_ledger = |counter: &Counter| {
                counter.windows.iter().any(|window| matches!(window.side, Side::Ledger(_)))
            };
            self.table.counters.look(&charge.key, has_ledger).unwrap_or(false)
        };
        let is_counter = |trial: &Trial| matches!(trial.after, KnownState::Counter { .. });
        let shared =
            |charge: &OwnedCharge| matches!(charge.consistency, Consistency::Exact | Consistency::Bounded);
        let gives = |charge: &OwnedCharge| matches!(charge.op, Op::Refund | Op::Debit);
        batch
            .iter()
            .zip(trials)
            .any(|(charge, trial)| shared(charge) && !here(charge) && (is_counter(trial) || gives(charge)))
    }

    /// Retries a waiting decision.
    pub(super) fn retry(&mut self, ticket: Ticket, now: Timestamp) {
        self.try_again(ticket, now, false);
    }

    /// Decides a waiting request with local holdings.
    pub(super) fn give_up(&mut self, ticket: Ticket, now: Timestamp) {
        if self.waiting.get(&ticket).is_some_and(|waiting| matches!(waiting.stage, WaitStage::Doing { .. })) {
            return self.finish_doing(ticket, now);
        }
        if self.waiting.get(&ticket).is_some_and(|waiting| matches!(waiting.stage, WaitStage::Inspecting)) {
            self.waiting.remove(&ticket);
            self.outputs.push(Output::GivenUp(ticket));
            return;
        }
        let waiting = self.waiting.get(&ticket);
        let given = waiting.filter(|waiting| matches!(waiting.stage, WaitStage::Alone)).and_then(|waiting| {
            let charge = waiting.batch.first()?;
            (self.options.grant_ahead && matches!(charge.op, Op::Refund | Op::Debit)).then_some(*charge)
        });
        if let Some(charge) = given {
            if self.waiting.get(&ticket).is_some_and(|waiting| waiting.is_operators) {
                self.waiting.remove(&ticket);
                self.outputs.push(Output::GivenUp(ticket));
                return;
            }
            // It is sent with every update until the owner has it; only its verdict is unknown.
            let action = batch::action(&charge, OnRefusal::CountNone);
            let verdict = super::lookup::nothing(&charge, now).attempt(&charge, action, now).verdict;
            return self.finish_alone(ticket, verdict);
        }
        self.try_again(ticket, now, true);
    }

    fn try_again(&mut self, ticket: Ticket, now: Timestamp, last: bool) {
        let Some(mut waiting) = self.waiting.remove(&ticket) else { return };
        let (stage, how) =
            if last { (WaitStage::Fresh, Try::Last) } else { (waiting.stage.clone(), Try::Ask) };
        // The time of the decision is now: a window may have begun meanwhile.
        waiting.context.now = waiting.context.now.max(now);
        match self.attempt(ticket, &waiting.batch, waiting.context, &stage, how) {
            BatchAttempt::Done(_) if last && waiting.is_operators => {
                self.outputs.push(Output::GivenUp(ticket));
            }
            BatchAttempt::Done(verdicts) => self.outputs.push(Output::Decided(ticket, verdicts)),
            BatchAttempt::Wait(stage) => {
                self.waiting.insert(ticket, super::WaitingRequest { stage, ..waiting });
            }
        }
    }

    /// Ends everything that has waited for too long.
    pub(super) fn expire(&mut self, now: Timestamp) {
        let late: Vec<Ticket> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.until <= now)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in late {
            self.give_up(ticket, now);
        }
        self.repeat_resets(now);
        let patience = self.options.ask_timeout * 4;
        let Self { asks, table, .. } = self;
        asks.retain(|id, ask| {
            let open = now.since(ask.sent) <= patience;
            if !open
                && let Some(mut counter) = table.counters.get_mut(&ask.key)
                && counter.asked.is_some_and(|other| other.get() == *id)
            {
                counter.asked = None;
            }
            open
        });
        let (over, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.parked).into_iter().partition(|parked| parked.until <= now);
        self.parked = rest;
        for parked in over {
            self.serve_one(now, parked, true);
        }
    }

    pub(super) fn flush_urgent(&mut self, now: Timestamp) {
        let peers: Vec<NodeId> =
            self.links.iter().filter(|(_, link)| !link.urgent.is_empty()).map(|(id, _)| id.clone()).collect();
        for peer in peers {
            let items =
                self.links.get_mut(&peer).map(|link| std::mem::take(&mut link.urgent)).unwrap_or_default();
            self.send(&peer, Lane::Ask, &items, now);
        }
    }
}
