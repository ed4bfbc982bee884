//! The gateway: a reverse proxy that limits. A thread for each core, connections dealt out to them, and
//! all that a request needs (its upstream's connections too) in the thread that serves it.
//!
//! What is forwarded is written anew from what was understood, never copied: so no two servers can read
//! one request as two. See docs/decisions/010.

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
mod streams;
mod target;
mod traced;
mod unanswered;
mod upgrade;
mod upstream;
mod visitor;

use crate::config::gateway::{self as settings, Routing};
use access_log::AccessLog;
use arc_swap::ArcSwap;
use connection::Manner;
pub(crate) use counted::Counting;
pub(crate) use crowd::{Crowd, Seat};
use dial::{DialError, Outside};
use hivemind_core::{Clock, MonotonicClock, Timestamp};
use hivemind_telemetry::trace::Tracer;
use hivemind_tls::Trust;
use hivemind_tls::workers::{Ended, Workers};
use hivemind_tower::error::LimitsError;
use hivemind_tower::operator::EffectiveLimit;
use hivemind_tower::{RateLimiter, RefusalLog};
pub(crate) use limits::{Limiting, limiter};
use presence::{Limits, Roll};
use route::{Dice, Table};
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

/// How long the end of the logs waits for their disk.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A connection on its way to the thread that serves it.
pub(crate) struct Arrival {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) seat: Seat,
}

/// The gateway, to be told of new routes.
pub(crate) struct Gateway {
    shared: Arc<Shared>,
    limiter: RateLimiter,
    outside: Outside,
    refusals: Arc<RefusalLog>,
    lanes: usize,
    /// Told when nobody is waited for any more.
    cut: watch::Sender<bool>,
}

impl Gateway {
    /// Starts its threads. Connections come to them by the workers that this gives back.
    pub(crate) async fn start(
        settings: &settings::Gateway,
        Limiting { limiter, refusals, decisions }: Limiting,
        tls: Option<TlsAcceptor>,
        (tracer, counting): (Option<Arc<Tracer>>, Counting),
        count: NonZeroUsize,
        stopped: &watch::Receiver<bool>,
    ) -> Result<(Self, Workers<Arrival>, Ended), GatewayError> {
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

    /// What limits whoever comes.
    pub(crate) const fn limiter(&self) -> &RateLimiter {
        &self.limiter
    }

    /// Whom its upstreams' certificates are checked with.
    pub(crate) const fn trust(&self) -> &Arc<Trust> {
        &self.outside.trust
    }

    /// Its limits in force.
    pub(crate) fn effective_limits(&self) -> Vec<EffectiveLimit> {
        self.limiter.effective_limits()
    }

    /// Who may connect, with these settings.
    pub(crate) fn crowd(&self, front: &settings::Front) -> Crowd {
        Crowd::of(front, self.shared.clients.clone())
    }

    /// Tells everybody with their next answer to come anew: another gateway listens where this one did.
    pub(crate) fn sees_off(&self) {
        self.shared.sees_off.store(true, Ordering::Relaxed);
    }

    /// Cuts off whoever is still there.
    pub(crate) fn cut(&self) {
        // Nobody listens any more only if everything has ended already.
        let _ = self.cut.send(true);
    }

    /// Waits until the logs hold all that was told, or their disk does not answer.
    pub(crate) async fn flush(&self) {
        if let Some(log) = &self.shared.log
            && !log.flush(LAST_WAIT).await
        {
            tracing::warn!("the last requests are missing in the access log: its disk does not answer");
        }
        let refusals = Arc::clone(&self.refusals);
        // Where it is not written in time, the log itself says so as it ends.
        let _ = tokio::task::spawn_blocking(move || refusals.flush(LAST_WAIT)).await;
    }

    /// Puts other services in force, from the next request on. Those under way end as they began.
    /// All of it, or nothing, and at once: a table's gates have the limits that it was made with.
    pub(crate) fn put_in_force(&self, routing: &Routing) -> Result<(), GatewayError> {
        let before = self.shared.table.load();
        // Made twice: once to see that it can be, and once with gates that have the new limits.
        let made = Table::new(routing, &self.limiter, Some(&before), &self.outside, self.lanes)?;
        self.limiter.reload(&routing.limits())?;
        let table = Table::new(routing, &self.limiter, Some(&made), &self.outside, self.lanes)?;
        self.shared.table.store(Arc::new(table));
        self.shared.counting.keep(|id| routing.services.iter().any(|service| service.id == id));
        Ok(())
    }
}

/// Why a gateway cannot be started, or not be put in another shape.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayError {
    #[error("gateway.services: {0}")]
    Upstream(#[from] DialError),
    #[error(transparent)]
    Limits(#[from] LimitsError),
    // The cause is told after it, as that of every error.
    #[error("gateway.access_log: cannot be appended to; make its folder, and let this process write there")]
    AccessLog(#[source] io::Error),
    #[error("the threads of the gateway cannot be started; allow this process more of them")]
    Threads(#[source] io::Error),
}

/// Now, for all that may take so long and no longer: not by the wall clock, which may be set meanwhile.
fn now() -> Timestamp {
    MonotonicClock.now()
}
