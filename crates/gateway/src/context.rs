//! State of the gateway, of its worker threads and of their client connections.

use super::access_log::AccessLogger;
use super::client_stream::UnparsedCallback;
use super::connection_activity::{ConnectionActivity, ConnectionRegistry};
use super::counting::Counting;
use super::failure::Failure;
use super::forwarding::PeerOrigin;
use super::routing::{RandomChoice, RoutingTable};
use super::upgraded_connection::UpgradedConnection;
use arc_swap::ArcSwap;
use hivemind_telemetry::logging::DecisionLog;
use hivemind_telemetry::trace::Tracer;
use hivemind_tower::ClientAddress;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// State that all worker threads share.
pub(super) struct GatewayState {
    pub(super) table: ArcSwap<RoutingTable>,
    pub(super) log: Option<AccessLogger>,
    /// `None` without tracing.
    pub(super) tracer: Option<Arc<Tracer>>,
    pub(super) decisions: Arc<DecisionLog>,
    pub(super) counting: Counting,
    /// Trusted proxies.
    pub(super) clients: ClientAddress,
    /// Whether override headers pass from untrusted peers too.
    pub(super) keeps_override_headers: bool,
    /// HTTP/2 limits only the total size of headers.
    pub(super) max_headers: usize,
    /// Whether another process has taken over: idle connections would otherwise be closed between two requests.
    pub(super) requests_reconnect: AtomicBool,
}

/// State of one worker thread.
pub(super) struct WorkerState {
    pub(super) gateway: Arc<GatewayState>,
    pub(super) index: usize,
    pub(super) registry: ConnectionRegistry,
    pub(super) random: RandomChoice,
}

/// One connection of a client.
pub(super) struct ClientConnection {
    pub(super) worker: Rc<WorkerState>,
    pub(super) activity: Rc<ConnectionActivity>,
    pub(super) origin: PeerOrigin,
    /// What the connection becomes after its upgrade response is written.
    pub(super) upgraded_to: RefCell<Option<UpgradedConnection>>,
}

impl ClientConnection {
    /// Logs a message that could not be parsed as a request.
    pub(super) fn log_unparsed(&self, failure: Failure) {
        if let Some(log) = &self.worker.gateway.log {
            log.log_unparsed(self.origin.address, failure.status());
        }
    }

    /// The callback that logs such messages; `None` without an access log.
    pub(super) fn unparsed_callback(self: &Rc<Self>) -> Option<UnparsedCallback> {
        self.worker.gateway.log.as_ref()?;
        let connection = Rc::downgrade(self);
        Some(Rc::new(move |failure| {
            if let Some(connection) = connection.upgrade() {
                connection.log_unparsed(failure);
            }
        }))
    }
}
