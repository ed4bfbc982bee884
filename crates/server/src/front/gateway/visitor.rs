//! Who is at the other end of a connection, and what its requests need of the thread that serves it.

use super::access_log::AccessLog;
use super::counted::Counting;
use super::failure::Failure;
use super::forwarding::Origin;
use super::line::Unheard;
use super::presence::{Presence, Roll};
use super::route::{Dice, Table};
use super::upgrade::Ticket;
use arc_swap::ArcSwap;
use hivemind_telemetry::logging::DecisionLog;
use hivemind_telemetry::trace::Tracer;
use hivemind_tower::ClientAddress;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What all threads share.
pub(super) struct Shared {
    pub(super) table: ArcSwap<Table>,
    pub(super) log: Option<AccessLog>,
    /// None: nothing is traced.
    pub(super) tracer: Option<Arc<Tracer>>,
    pub(super) decisions: Arc<DecisionLog>,
    pub(super) counting: Counting,
    /// Who is believed about those before it.
    pub(super) clients: ClientAddress,
    /// HTTP/2 has no such bound of its own, only one in bytes.
    pub(super) max_headers: usize,
    /// Whether another gateway has taken over: who stays connected would be cut off between two requests.
    pub(super) sees_off: AtomicBool,
}

/// What one thread has.
pub(super) struct Desk {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: usize,
    pub(super) roll: Roll,
    pub(super) dice: Dice,
}

/// One connection's client.
pub(super) struct Visitor {
    pub(super) desk: Rc<Desk>,
    pub(super) presence: Rc<Presence>,
    pub(super) origin: Origin,
    /// What the connection becomes once the answer that says so is written.
    pub(super) ticket: RefCell<Option<Ticket>>,
}

impl Visitor {
    /// Something that it said could not be read as a request, and was refused.
    pub(super) fn was_unheard(&self, failure: Failure) {
        if let Some(log) = &self.desk.shared.log {
            log.unheard(self.origin.address, failure.status());
        }
    }

    /// Who is told of that where it is found; nobody where nothing is logged.
    pub(super) fn unheard(self: &Rc<Self>) -> Option<Unheard> {
        self.desk.shared.log.as_ref()?;
        let visitor = Rc::downgrade(self);
        Some(Rc::new(move |failure| {
            if let Some(visitor) = visitor.upgrade() {
                visitor.was_unheard(failure);
            }
        }))
    }
}
