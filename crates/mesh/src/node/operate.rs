//! Operator actions on one counter. A client's request is decided locally when the owner does not reply; an
//! operator gets the owner's answer, or that there is none.

use super::decide::{Attempt, Try};
use super::remote::Stage;
use super::{Decided, Node, Ticket, Waiting};
use crate::batch::Owed;
use crate::options::Consistency;
use crate::page::Side;
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
    /// # use hivemind_mesh::{Decided, Node};
    /// /// What is left after the refund, if this node knows it immediately.
    /// fn given_back(node: &mut Node, charge: Charge<'_>, context: Context) -> Option<u64> {
    ///     match node.operate(&Charge { op: Op::Refund, ..charge }, context)? {
    ///         Decided::Now(verdicts) => verdicts.each().first().map(|verdict| verdict.remaining),
    ///         Decided::Later(_) => None, // Its owner was asked.
    ///     }
    /// }
    /// ```
    pub fn operate(&mut self, charge: &Charge<'_>, context: Context) -> Option<Decided> {
        let batch = std::slice::from_ref(charge);
        let context = self.by_mesh_clock(context);
        if self.is_local(batch) {
            return Some(Decided::Now(self.local.0.decide_now(batch, context)));
        }
        self.shelf.books.see(context.now);
        let owed = Owed::list(batch, &self.options);
        if !self.can_ask(owed.first()?, context.now) {
            return None;
        }
        let ticket = Ticket(self.number());
        Some(match self.attempt(ticket, &owed, context, &Stage::Sure, Try::Ask) {
            Attempt::Done(verdicts) => Decided::Now(verdicts),
            Attempt::Wait(stage) => {
                let until = self.patience(context);
                let waiting = Waiting { batch: owed.into_vec(), context, until, stage, is_operators: true };
                self.waiting.insert(ticket, waiting);
                self.flush_urgent(context.now);
                Decided::Later(ticket)
            }
        })
    }

    /// Until when an operator waits for an owner.
    pub(super) fn patience(&self, context: Context) -> Timestamp {
        let timeout = context.now.saturating_add((self.options.ask_timeout * PATIENCE).max(LEAST));
        context.deadline.map_or(timeout, |deadline| deadline.min(timeout))
    }

    /// Whether a counter is here, or its owner can be asked.
    pub(super) fn can_ask(&mut self, charge: &Owed, now: Timestamp) -> bool {
        let Self { shelf, council, options, peers, clock, .. } = self;
        let (key, limit) = (charge.key, &charge.limit);
        let tag = shelf.tag(council, options, (key, limit), now);
        let Ok(mut book) = shelf.open(council, options, (key, limit, tag), now) else { return false };
        if charge.consistency == Consistency::Eventual {
            return true; // Each node uses its own state.
        }
        let Some(page) = book.page(tag) else { return false };
        let slew = clock.slew;
        matches!(page.side, Side::Till(_))
            || page
                .view
                .owner(key)
                .is_some_and(|owner| peers.is_heard(owner, now) && !peers.is_apart(&owner.id, limit, slew))
    }
}
