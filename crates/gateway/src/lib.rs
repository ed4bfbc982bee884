//! The gateway: a rate limiting reverse proxy. It runs one thread per core; each connection stays on one thread,
//! together with everything its requests need, including upstream connections.
//!
//! Forwarded requests are serialized from parsed values, never copied: so no two servers can read one request as two.
//! See docs/decisions/010.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

mod access_log;
mod brief;
mod connection;
mod counted;
mod crowd;
mod dial;
mod exchange;
mod failure;
mod forwarding;
mod framing;
mod hop_by_hop;
mod limits;
mod line;
mod local;
mod messages;
mod names;
mod pace;
mod patience;
mod presence;
mod proxy;
mod reply;
mod request_body;
mod rewound;
mod route;
pub mod settings;
mod streams;
mod target;
mod traced;
mod unanswered;
mod upgrade;
mod upstream;
mod visitor;
pub mod websocket;

use access_log::AccessLog;
use arc_swap::ArcSwap;
use connection::Manner;
pub use counted::Counting;
pub use crowd::Crowd;
use crowd::Seat;
use dial::{DialError, Outside};
use hivemind_core::{Clock, MonotonicClock, Timestamp};
use hivemind_telemetry::trace::Tracer;
use hivemind_tls::TrustStores;
use hivemind_tls::workers::{WorkerExit, Workers};
use hivemind_tower::error::LimitsError;
use hivemind_tower::operator::EffectiveLimit;
use hivemind_tower::{RateLimiter, RefusalLog};
pub use limits::{Limiting, limiter};
use presence::{Limits, Roll};
use route::{Dice, Table};
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
use visitor::{Desk, Shared};

/// Time limit to write the last log lines to disk.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A connection on its way to its worker thread.
pub struct Arrival {
    pub stream: std::net::TcpStream,
    pub peer: SocketAddr,
    pub seat: Seat,
}

/// The running gateway.
pub struct Gateway {
    shared: Arc<Shared>,
    limiter: RateLimiter,
    outside: Outside,
    refusals: Arc<RefusalLog>,
    lanes: usize,
    /// Set when remaining connections must be aborted.
    cut: watch::Sender<bool>,
}

impl Gateway {
    /// Starts the worker threads, which receive connections through the returned workers.
    pub async fn start(
        settings: &settings::Gateway,
        Limiting { limiter, refusals, decisions }: Limiting,
        tls: Option<TlsAcceptor>,
        (tracer, counting): (Option<Arc<Tracer>>, Counting),
        count: NonZeroUsize,
        stopped: &watch::Receiver<bool>,
    ) -> Result<(Self, Workers<Arrival>, WorkerExit), GatewayError> {
        let front = &settings.front;
        let lanes = count.get();
        let outside = Outside::default();
        let table = Table::new(&settings.routing, &limiter, None, &outside, lanes)?;
        let clients = limiter.identity().address().clone();
        let log = front.access_log.as_ref().map(AccessLog::open).transpose();
        let log = log.map_err(GatewayError::AccessLog)?;
        let (cut, is_cut) = watch::channel(false);
        let shared = Arc::new(Shared {
            table: ArcSwap::from_pointee(table),
            log,
            tracer,
            decisions,
            counting,
            clients,
            max_headers: front.max_headers,
            sees_off: AtomicBool::new(false),
        });
        let manner = Manner {
            limits: Limits { head: front.header_timeout, idle: front.idle_timeout },
            max_header_bytes: front.max_header_bytes,
            max_headers: front.max_headers,
            tls,
            stopped: stopped.clone(),
        };
        let equip = {
            let shared = Arc::clone(&shared);
            move |lane| {
                let desk =
                    Desk { shared: Arc::clone(&shared), lane, roll: Roll::default(), dice: Dice::new() };
                let (desk, manner) = (Rc::new(desk), Rc::new(manner.clone()));
                let (on_duty, limits) = (Rc::clone(&desk), manner.limits);
                let (stopped, cut) = (manner.stopped.clone(), is_cut.clone());
                tokio::task::spawn_local(async move { on_duty.roll.call(limits, stopped, cut).await });
                move |arrival| connection::serve(arrival, Rc::clone(&desk), Rc::clone(&manner))
            }
        };
        let started = Workers::start(count, "gateway", equip).await;
        let (workers, ended) = started.map_err(GatewayError::Threads)?;
        Ok((Self { shared, limiter, outside, refusals, lanes, cut }, workers, ended))
    }

    /// The rate limiter.
    pub const fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    /// The trust anchors for upstream certificates.
    pub const fn trust(&self) -> &Arc<TrustStores> {
        &self.outside.trust
    }

    /// The active limits.
    pub fn effective_limits(&self) -> Vec<EffectiveLimit> {
        self.limiter.effective_limits()
    }

    /// The limit on connections per client, with these settings.
    pub fn crowd(&self, front: &settings::Front) -> Crowd {
        Crowd::of(front, self.shared.clients.clone())
    }

    /// Asks clients to reconnect with their next response: another process listens in place of this one.
    pub fn sees_off(&self) {
        self.shared.sees_off.store(true, Ordering::Relaxed);
    }

    /// Aborts the remaining connections.
    pub fn cut(&self) {
        // Sending fails only if all connections have ended.
        let _ = self.cut.send(true);
    }

    /// Flushes the logs, unless their disk does not respond.
    pub async fn flush(&self) {
        if let Some(log) = &self.shared.log
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
    pub fn put_in_force(&self, routing: &Routing) -> Result<(), GatewayError> {
        let before = self.shared.table.load();
        // Built twice: first to validate it, then with the new limits.
        let made = Table::new(routing, &self.limiter, Some(&before), &self.outside, self.lanes)?;
        self.limiter.reload(&routing.limits())?;
        let table = Table::new(routing, &self.limiter, Some(&made), &self.outside, self.lanes)?;
        self.shared.table.store(Arc::new(table));
        self.shared.counting.keep(|id| routing.services.iter().any(|service| service.id == id));
        Ok(())
    }
}

/// Why the gateway cannot start, or cannot apply new settings.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error("gateway.services: {0}")]
    Upstream(#[from] DialError),
    #[error(transparent)]
    Limits(#[from] LimitsError),
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
