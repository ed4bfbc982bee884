//! Counters that their owner decides itself, because they are too small to grant from. The owner applies a
//! single charge in one step. Several charges are peeked at first, tried here, and then applied; if one of them
//! fails after all, the others are refunded.

use super::lookup::CounterLookup;
use super::owner_requests::{Ask, AskKind};
use super::peer_link::SpendRecord;
use super::{Node, Output, Ticket};
use crate::counter::Counter;
use crate::counter::counter_window::Side;
use crate::counter::owner_ledger::given_back;
use crate::frame::{OwnerReply, Want};
use crate::node::batch::{self, OwnedCharge};
use crate::view::Member;
use crate::window::tag_at;
use hivemind_core::algorithm::{Action, State};
use hivemind_core::store::{Context, Key, Mode, Op, Outcome, Verdict, Verdicts};
use hivemind_core::{Limit, Timestamp};

/// A counter that its owner decides, and whose state was not read.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteCounter {
    pub(super) key: Key,
    pub(super) limit: Limit,
    pub(super) tag: u64,
}

/// A counter's state as received from its owner; none if it was never used.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnerState(pub(super) Option<State>);

/// What a request has spent so far; refunded if one of its limits refuses after all.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchSpending {
    /// Spending here; with its limit, where this node keeps the counter alone.
    here: Vec<(OwnedCharge, Option<Limit>)>,
    /// Spending confirmed by owners: counter, window, and the request it was for.
    there: Vec<(Key, u64, u64)>,
}

impl BatchSpending {
    pub(super) fn local(here: Vec<(OwnedCharge, Option<Limit>)>) -> Self {
        Self { here, there: Vec::new() }
    }
}

/// The progress of a waiting request.
#[derive(Clone, Debug)]
pub(super) enum WaitStage {
    /// It waits for allowance.
    Fresh,
    /// An operator's refund: the owner applies it and reports the amount, regardless of this node's state.
    Sure,
    /// An operator's inspection waits for the owner.
    Inspecting,
    /// It waits for the states of counters.
    Looking { seen: Vec<(Key, Option<State>)>, open: usize },
    /// Its single charge is with its owner.
    Alone,
    /// Its charges are with their owners.
    Doing { verdicts: Verdicts, taken: BatchSpending, failed: bool, open: usize },
}

impl WaitStage {
    /// The state of a counter that was read.
    pub(super) fn seen(&self, key: Key) -> Option<OwnerState> {
        let Self::Looking { seen, open: 0 } = self else { return None };
        seen.iter().find(|(looked, _)| *looked == key).map(|(_, state)| OwnerState(*state))
    }
}

impl Node {
    /// Sends requests to the owners of counters that they decide.
    pub(super) fn ask_remote(
        &mut self,
        ticket: Ticket,
        batch: &[OwnedCharge],
        unseen: &[RemoteCounter],
        context: Context,
    ) -> WaitStage {
        if let ([charge], [remote]) = (batch, unseen) {
            let action = batch::action(charge, context.on_refusal);
            let cost = charge.cost;
            let is_reported = self.settle_by_report(charge, remote);
            let want = if is_reported { Want::Outcome { action, cost } } else { Want::Do { action, cost } };
            self.ask(remote, AskKind::Do, vec![ticket], want, context.now);
            return WaitStage::Alone;
        }
        let mut looked: Vec<Key> = Vec::new();
        for remote in unseen {
            if !looked.contains(&remote.key) {
                looked.push(remote.key);
                self.ask(remote, AskKind::Look, vec![ticket], Want::Look, context.now);
            }
        }
        WaitStage::Looking { seen: Vec::new(), open: looked.len() }
    }

    /// A refund or a debit travels with the member update, which is repeated; the request only asks for the
    /// verdict.
    fn settle_by_report(&mut self, charge: &OwnedCharge, remote: &RemoteCounter) -> bool {
        let Some(mut window) = self.table.counters.window(&remote.key, remote.tag) else { return false };
        let Side::Lease(lease) = &mut window.side else { return false };
        match charge.op {
            _ if !self.options.grant_ahead => return false,
            Op::Refund => lease.give(charge.cost),
            Op::Debit => lease.owe(charge.cost),
            Op::Spend | Op::Peek => return false,
        }
        window.queue();
        true
    }

    fn remote_counter(&mut self, charge: &OwnedCharge, now: Timestamp) -> RemoteCounter {
        let tag = self.table.tag(&self.membership, &self.options, (charge.key, &charge.limit), now);
        RemoteCounter { key: charge.key, limit: charge.limit, tag }
    }

    /// Requests that an owner applies what was decided here. Returns whether the reply is waited for, since it
    /// may refuse after all.
    pub(super) fn ask_to_do(
        &mut self,
        ticket: Ticket,
        charge: &OwnedCharge,
        action: Action,
        now: Timestamp,
    ) -> bool {
        let remote = self.remote_counter(charge, now);
        let waits = matches!(action, Action::Spend { .. });
        let tickets = if waits { vec![ticket] } else { Vec::new() };
        self.ask(&remote, AskKind::Do, tickets, Want::Do { action, cost: charge.cost }, now);
        waits
    }

    /// Handles the reply to a peek or to an applied charge.
    pub(super) fn on_remote_answer(&mut self, now: Timestamp, ask: &Ask, reply: &OwnerReply) {
        for ticket in &ask.tickets {
            let passed = matches!(reply, OwnerReply::Done(verdict) if verdict.is_admitted());
            let Some(waiting) = self.waiting.get_mut(ticket) else {
                if passed && ask.spends > 0 {
                    // It came too late: the request was refused, and must not spend anything.
                    self.give_back_there(ask.key, ask.tag, ask.id, now);
                }
                continue;
            };
            let ready = match (&mut waiting.stage, reply) {
                (WaitStage::Looking { seen, open }, OwnerReply::Seen(state)) => {
                    seen.push((ask.key, state.map(|(since, count)| State::from_bits(since, count))));
                    *open = open.saturating_sub(1);
                    *open == 0
                }
                (WaitStage::Alone, OwnerReply::Done(verdict)) => {
                    let verdict = *verdict;
                    self.finish_alone(*ticket, verdict);
                    continue;
                }
                (WaitStage::Doing { failed, open, taken, .. }, _) => {
                    if passed {
                        taken.there.push((ask.key, ask.tag, ask.id));
                    }
                    *failed |= !passed;
                    *open = open.saturating_sub(1);
                    if *open == 0 {
                        self.finish_doing(*ticket, now);
                    }
                    continue;
                }
                // It is not the owner after all: nothing is available from it in time.
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

    pub(super) fn finish_alone(&mut self, ticket: Ticket, verdict: Verdict) {
        let Some(waiting) = self.waiting.remove(&ticket) else { return };
        let Some(charge) = waiting.batch.first() else { return };
        let committed = verdict.is_admitted() || charge.op == Op::Debit || charge.mode == Mode::Shadow;
        self.outputs.push(Output::Decided(ticket, Verdicts::new(committed, [verdict])));
    }

    /// All owners have replied, or the time is over.
    pub(super) fn finish_doing(&mut self, ticket: Ticket, now: Timestamp) {
        let Some(waiting) = self.waiting.remove(&ticket) else { return };
        let WaitStage::Doing { verdicts, taken, failed, open } = waiting.stage else { return };
        if !failed && open == 0 {
            self.outputs.push(Output::Decided(ticket, verdicts));
            return;
        }
        // Another request was faster: the spending at other owners is refunded. Unconfirmed spending is not: if
        // it happened, its late reply refunds it.
        for (key, tag, id) in taken.there {
            self.give_back_there(key, tag, id, now);
        }
        let then = waiting.context.now;
        for (charge, alone) in taken.here {
            // Spending in an expired window must not lower the count of the next.
            if tag_at(&charge.limit, then) == tag_at(&charge.limit, now) {
                self.give_back_here(&charge, alone, then, now);
            }
        }
        self.flush_urgent(now);
        let refused = verdicts.each().iter().map(|verdict| Verdict {
            outcome: Outcome::Refused { retry_after: Some(verdict.reset_after) },
            ..*verdict
        });
        self.outputs.push(Output::Decided(ticket, Verdicts::new(false, refused)));
    }

    /// Requests that an owner undoes its spending for this node. If that is lost, it stays spent.
    fn give_back_there(&mut self, key: Key, tag: u64, of: u64, now: Timestamp) {
        let Some(limit) = self.table.counters.look(&key, Counter::limit) else { return };
        self.ask(&RemoteCounter { key, limit, tag }, AskKind::Do, Vec::new(), Want::Undo { of }, now);
    }

    /// A peer's batch was refused after all: its spending is refunded once, and only into the window that it
    /// was spent in.
    pub(super) fn undo(&mut self, now: Timestamp, from: &Member, of: u64) {
        let Some(link) = self.links.get_mut(&from.id) else { return };
        let Some(place) = link.done.iter().position(|done| done.id == of) else { return };
        let Some(SpendRecord { key, tag, cost, at, .. }) = link.done.remove(place) else { return };
        let Some(mut counter) = self.table.counters.get_mut(&key) else { return };
        let limit = counter.limit();
        let Some(window) = counter.window(tag) else { return };
        let moment = window.moment_of(&limit, &self.options, now);
        if tag_at(&limit, moment) != tag {
            return;
        }
        if let Side::Ledger(ledger) = &mut window.side {
            ledger.undo(&limit, cost, at, moment);
        }
        window.follow_state(&limit, &self.options);
    }

    /// Refunds what was spent here at `then` or later.
    fn give_back_here(
        &mut self,
        charge: &OwnedCharge,
        alone: Option<Limit>,
        then: Timestamp,
        now: Timestamp,
    ) {
        let (cost, rest) = given_back(&charge.limit, charge.cost, then, now);
        let charge = &OwnedCharge { cost, ..*charge };
        if let Some(limit) = alone {
            return self.refund_alone(charge, &limit, now);
        }
        let refund = OwnedCharge { op: Op::Refund, ..*charge };
        if let Some(CounterLookup::Here(known)) = self.find(&refund, now, &WaitStage::Fresh, true) {
            let trial = known.attempt(&refund, Action::Refund, now);
            self.record(&refund, Action::Refund, &trial.after, &trial, now);
        }
        // The lookup froze it for a trial, which is over.
        if let Some(mut counter) = self.table.counters.get_mut(&charge.key) {
            counter.is_frozen = false;
            if let Some(Side::Ledger(ledger)) =
                counter.window(0).map(|window| &mut window.side).filter(|_| cost > 0)
            {
                ledger.earn_later(&charge.limit, rest);
            }
        }
    }
}
