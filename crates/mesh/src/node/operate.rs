//! What an operator does to one counter. A request is decided with what there is when its owner does not answer; an
//! operator is told what the owner says, or that it says nothing.

use super::decide::{Attempt, Try};
use super::remote::Stage;
use super::{Decided, Node, Ticket, Waiting};
use crate::batch::Owed;
use crate::options::Consistency;
use crate::page::Side;
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Context, LocalStore};
use std::time::Duration;

/// How often as long as a request an operator waits for an answer, and how long at least: nobody is held up by it, and a busy
/// machine is no reason to say that an owner is silent.
const PATIENCE: u32 = 4;
const LEAST: Duration = Duration::from_millis(500);

impl Node {
    /// Gives back to one counter, as its owner has it; none where that cannot be asked. What is to come is a decision,
    /// or that nobody has answered: then a refund is told until it is heard, and what it comes to is not known.
    /// What a verdict has `remaining` beyond `available` is what came back.
    /// To look at one is for [`Node::look`].
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, Op};
    /// # use hivemind_mesh::{Decided, Node};
    /// /// What is left once so much was given back, where this node knows at once.
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
            return true; // Each node goes by what it knows.
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
