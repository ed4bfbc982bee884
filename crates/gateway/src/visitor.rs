//! Contexts of threads and connections.

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

/// State that all threads share.
pub(super) struct Shared {
    pub(super) table: ArcSwap<Table>,
    pub(super) log: Option<AccessLog>,
    /// `None` without tracing.
    pub(super) tracer: Option<Arc<Tracer>>,
    pub(super) decisions: Arc<DecisionLog>,
    pub(super) counting: Counting,
    /// Trusted proxies.
    pub(super) clients: ClientAddress,
    /// HTTP/2 limits only the total size of headers.
    pub(super) max_headers: usize,
    /// Whether another process has taken over: idle connections would otherwise be closed between two requests.
    pub(super) sees_off: AtomicBool,
}

/// State of one thread.
pub(super) struct Desk {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: usize,
    pub(super) roll: Roll,
    pub(super) dice: Dice,
}

/// The client of one connection.
pub(super) struct Visitor {
    pub(super) desk: Rc<Desk>,
    pub(super) presence: Rc<Presence>,
    pub(super) origin: Origin,
    /// What the connection becomes after its upgrade response is written.
    pub(super) ticket: RefCell<Option<Ticket>>,
}

impl Visitor {
    /// Logs a message that could not be parsed as a request.
    pub(super) fn was_unheard(&self, failure: Failure) {
        if let Some(log) = &self.desk.shared.log {
            log.unheard(self.origin.address, failure.status());
        }
    }

    /// The callback that logs such messages; `None` without an access log.
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
