//! Operator actions on one counter. A client's request is decided locally when the owner does not reply; an
//! operator gets the owner's answer, or that there is none.

use super::decide::{BatchAttempt, Try};
use super::remote::WaitStage;
use super::{Node, NodeDecision, Ticket, WaitingRequest};
use crate::counter::counter_window::Side;
use crate::node::batch::OwnedCharge;
use crate::options::Consistency;
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Context, LocalStore};
use std::time::Duration;

/// The wait of an operator as a multiple of a request's, and its minimum: it blocks no request, and a busy
/// machine must not make an owner appear silent.
const PATIENCE: u32 = 4;
const LEAST: Duration = Duration::from_millis(500);

impl Node {
    /// Refunds one counter, as its owner has it; none if the owner cannot be asked. The result is a decision,
    /// or that no reply came: then the refund is sent until it is acknowledged, and its effect is unknown. The
    /// difference of `remaining` and `available` in a verdict is what came back. Use [`Node::look`] to inspect
    /// a counter.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, Op};
    /// # use hivemind_mesh::{NodeDecision, Node};
    /// /// What is left after the refund, if this node knows it immediately.
    /// fn given_back(node: &mut Node, charge: Charge<'_>, context: Context) -> Option<u64> {
    ///     match node.operate(&Charge { op: Op::Refund, ..charge }, context)? {
    ///         NodeDecision::Now(verdicts) => verdicts.each().first().map(|verdict| verdict.remaining),
    ///         NodeDecision::Later(_) => None, // Its owner was asked.
    ///     }
    /// }
    /// ```
    pub fn operate(&mut self, charge: &Charge<'_>, context: Context) -> Option<NodeDecision> {
        let batch = std::slice::from_ref(charge);
        let context = self.by_mesh_clock(context);
        if self.is_local(batch) {
            return Some(NodeDecision::Now(self.local.0.decide_now(batch, context)));
        }
        self.table.counters.see(context.now);
        let charges = OwnedCharge::list(batch, &self.options);
        if !self.can_ask(charges.first()?, context.now) {
            return None;
        }
        let ticket = Ticket(self.number());
        Some(match self.attempt(ticket, &charges, context, &WaitStage::Sure, Try::Ask) {
            BatchAttempt::Done(verdicts) => NodeDecision::Now(verdicts),
            BatchAttempt::Wait(stage) => {
                let until = self.patience(context);
                let waiting =
                    WaitingRequest { batch: charges.into_vec(), context, until, stage, is_operators: true };
                self.waiting.insert(ticket, waiting);
                self.flush_urgent(context.now);
                NodeDecision::Later(ticket)
            }
        })
    }

    /// Until when an operator waits for an owner.
    pub(super) fn patience(&self, context: Context) -> Timestamp {
        let timeout = context.now.saturating_add((self.options.ask_timeout * PATIENCE).max(LEAST));
        context.deadline.map_or(timeout, |deadline| deadline.min(timeout))
    }

    /// Whether a counter is here, or its owner can be asked.
    pub(super) fn can_ask(&mut self, charge: &OwnedCharge, now: Timestamp) -> bool {
        let Self { table, membership, options, peers, clock, .. } = self;
        let (key, limit) = (charge.key, &charge.limit);
        let tag = table.tag(membership, options, (key, limit), now);
        let Ok(mut counter) = table.open(membership, options, (key, limit, tag), now) else { return false };
        if charge.consistency == Consistency::Eventual {
            return true; // Each node uses its own state.
        }
        let Some(window) = counter.window(tag) else { return false };
        let slew = clock.slew;
        matches!(window.side, Side::Ledger(_))
            || window
                .view
                .owner(key)
                .is_some_and(|owner| peers.is_heard(owner, now) && !peers.is_apart(&owner.id, limit, slew))
    }
}
