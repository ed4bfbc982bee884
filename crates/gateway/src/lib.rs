//! The gateway: a rate limiting reverse proxy. It runs one thread per core; each connection stays on one thread,
//! together with everything its requests need, including upstream connections. Terms: `docs/GLOSSARY.md`.
//!
//! Forwarded requests are serialized from parsed values, never copied: so no two servers can read one request as two.
//! See docs/decisions/010.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

mod access_log;
mod body_pace;
mod client_stream;
mod connection;
mod connection_activity;
mod context;
mod counting;
mod dial;
mod exchange;
mod failure;
mod forwarding;
mod framing;
mod grpc_messages;
mod hop_by_hop;
mod http2_streams;
mod idle_timeout;
mod limits;
mod local_tasks;
mod name_lookup;
mod proxy;
mod read_ahead;
mod request_body;
mod request_context;
mod response_body;
mod routing;
mod send_failure;
pub mod settings;
mod short_writes;
mod target;
mod trace_events;
pub mod unread_body;
mod upgrade;
mod upgraded_connection;
mod upstream;
pub mod websocket;

use access_log::AccessLogger;
use arc_swap::ArcSwap;
use connection::ConnectionOptions;
use connection_activity::{ConnectionRegistry, ConnectionTimeouts};
use context::{GatewayState, WorkerState};
pub use counting::Counting;
use dial::{DialContext, DialError};
use hivemind_core::{Clock, MonotonicClock, Timestamp};
use hivemind_telemetry::trace::Tracer;
use hivemind_tls::TrustStores;
use hivemind_tls::connections::ConnectionPermit;
use hivemind_tls::workers::{WorkerExit, Workers};
use hivemind_tower::error::LimitsError;
use hivemind_tower::operator::EffectiveLimit;
use hivemind_tower::{RateLimiter, RefusalLog};
pub use limits::{Limiting, client_address, limiter};
use routing::{RandomChoice, RoutingTable};
use settings::Routing;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Time limit to write the last log lines to disk.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A connection on its way to its worker thread.
pub struct Arrival {
    pub stream: std::net::TcpStream,
    pub peer: SocketAddr,
    pub permit: ConnectionPermit,
}

/// The running gateway.
pub struct Gateway {
    state: Arc<GatewayState>,
    limiter: RateLimiter,
    dial_context: DialContext,
    refusals: Arc<RefusalLog>,
    worker_count: usize,
    /// Set when remaining connections must be aborted.
    abort: watch::Sender<bool>,
}

impl Gateway {
    /// Starts the worker threads, which receive connections through the returned workers.
    pub async fn start(
        settings: &settings::GatewaySettings,
        Limiting { limiter, refusals, decisions }: Limiting,
        tls: Option<TlsAcceptor>,
        (tracer, counting): (Option<Arc<Tracer>>, Counting),
        count: NonZeroUsize,
        stopped: &watch::Receiver<bool>,
    ) -> Result<(Self, Workers<Arrival>, WorkerExit), GatewayError> {
        let front = &settings.front;
        let worker_count = count.get();
        let dial_context = DialContext::default();
        let table = RoutingTable::new(&settings.routing, &limiter, None, &dial_context, worker_count)?;
        let clients = limiter.identity().address().clone();
        let log = front.access_log.as_ref().map(AccessLogger::open).transpose();
        let log = log.map_err(GatewayError::AccessLog)?;
        let (abort, is_aborted) = watch::channel(false);
        let state = Arc::new(GatewayState {
            table: ArcSwap::from_pointee(table),
            log,
            tracer,
            decisions,
            counting,
            clients,
            keeps_override_headers: front.keeps_override_headers,
            max_headers: front.max_headers,
            requests_reconnect: AtomicBool::new(false),
        });
        let options = ConnectionOptions {
            timeouts: ConnectionTimeouts { head: front.header_timeout, idle: front.idle_timeout },
            max_header_bytes: front.max_header_bytes,
            max_headers: front.max_headers,
            tls,
            stopped: stopped.clone(),
        };
        let serve_with = {
            let state = Arc::clone(&state);
            move |index| {
                let worker = WorkerState {
                    gateway: Arc::clone(&state),
                    index,
                    registry: ConnectionRegistry::default(),
                    random: RandomChoice::new(),
                };
                let (worker, options) = (Rc::new(worker), Rc::new(options.clone()));
                let (watched, timeouts) = (Rc::clone(&worker), options.timeouts);
                let (stopped, abort) = (options.stopped.clone(), is_aborted.clone());
                tokio::task::spawn_local(
                    async move { watched.registry.watch(timeouts, stopped, abort).await },
                );
                move |arrival| connection::serve(arrival, Rc::clone(&worker), Rc::clone(&options))
            }
        };
        let started = Workers::start(count, "gateway", serve_with).await;
        let (workers, ended) = started.map_err(GatewayError::Threads)?;
        Ok((Self { state, limiter, dial_context, refusals, worker_count, abort }, workers, ended))
    }

    /// The rate limiter.
    pub const fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    /// The trust anchors for upstream certificates.
    pub const fn trust(&self) -> &Arc<TrustStores> {
        &self.dial_context.trust
    }

    /// The active limits.
    pub fn effective_limits(&self) -> Vec<EffectiveLimit> {
        self.limiter.effective_limits()
    }

    /// Asks clients to reconnect with their next response: another process listens in place of this one.
    pub fn request_reconnect(&self) {
        self.state.requests_reconnect.store(true, Ordering::Relaxed);
    }

    /// Aborts the remaining connections.
    pub fn abort_connections(&self) {
        // Sending fails only if all connections have ended.
        let _ = self.abort.send(true);
    }

    /// Flushes the logs, unless their disk does not respond.
    pub async fn flush(&self) {
        if let Some(log) = &self.state.log
            && !log.flush(LAST_WAIT).await
        {
            tracing::warn!("the access log lacks the last requests: its disk does not respond");
        }
        let refusals = Arc::clone(&self.refusals);
        // If the disk is too slow, the log reports that itself when it closes.
        let _ = tokio::task::spawn_blocking(move || refusals.flush(LAST_WAIT)).await;
    }

    /// Applies new services and limits from the next request on, completely or not at all. Requests in progress
    /// finish under the old ones. A table is bound to the limits that were active when it was built.
    pub fn apply(&self, routing: &Routing) -> Result<(), GatewayError> {
        let before = self.state.table.load();
        // Built twice: first to validate it, then with the new limits.
        let made =
            RoutingTable::new(routing, &self.limiter, Some(&before), &self.dial_context, self.worker_count)?;
        self.limiter.reload(&routing.limits())?;
        let table =
            RoutingTable::new(routing, &self.limiter, Some(&made), &self.dial_context, self.worker_count)?;
        self.state.table.store(Arc::new(table));
        self.state.counting.keep(|id| routing.services.iter().any(|service| service.id == id));
        Ok(())
    }
}

/// Why the gateway cannot start, or cannot apply new settings.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("gateway.services: {0}")]
    Upstream(#[from] DialError),
    #[error(transparent)]
    ConnectionTimeouts(#[from] LimitsError),
    // The cause follows, as in every error.
    #[error("gateway.access_log: cannot append; create its folder and grant this process write permission")]
    AccessLog(#[source] io::Error),
    #[error("cannot start the gateway's threads; raise the thread limit of this process")]
    Threads(#[source] io::Error),
}

/// The monotonic time, for time limits: the wall clock may be changed.
fn now() -> Timestamp {
    MonotonicClock.now()
}
