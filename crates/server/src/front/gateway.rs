//! The gateway: a reverse proxy that limits. A thread for each core, connections dealt out to them, and
//! all that a request needs (its upstream's connections too) in the thread that serves it.
//!
//! What is forwarded is written anew from what was understood, never copied: so no two servers can read
//! one request as two. See docs/decisions/010.

mod access_log;
mod connection;
mod dial;
mod exchange;
mod failure;
mod forwarding;
mod hop_by_hop;
mod limits;
mod line;
mod local;
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
mod upgrade;
mod upstream;
mod visitor;

use super::workers::{Ended, Workers};
use crate::config::gateway::{self as settings, Routing};
use access_log::AccessLog;
use arc_swap::ArcSwap;
use connection::Manner;
use hivemind_core::{Clock, MonotonicClock, Timestamp};
use hivemind_tower::RateLimiter;
pub(crate) use limits::limiter;
use presence::{Limits, Roll};
use route::{Dice, Table};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use visitor::{Desk, Shared};

/// A connection on its way to the thread that serves it.
pub(crate) struct Arrival {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) peer: SocketAddr,
}

/// The gateway, to be told of new routes.
pub(crate) struct Gateway {
    shared: Arc<Shared>,
    limiter: RateLimiter,
    lanes: usize,
}

impl Gateway {
    /// Starts its threads. Connections come to them by the workers that this gives back.
    pub(crate) async fn start(
        settings: &settings::Gateway,
        limiter: RateLimiter,
        tls: Option<TlsAcceptor>,
        count: NonZeroUsize,
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<(Self, Workers<Arrival>, Ended)> {
        let front = &settings.front;
        let lanes = count.get();
        let table = Table::new(&settings.routing, &limiter, None, lanes)?;
        let clients = limiter.identity().address().clone();
        let log = front.access_log.as_ref().map(AccessLog::open).transpose()?;
        let shared = Arc::new(Shared {
            table: ArcSwap::from_pointee(table),
            log,
            clients,
            max_headers: front.max_headers,
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
                let (on_duty, limits, stopped) = (Rc::clone(&desk), manner.limits, manner.stopped.clone());
                tokio::task::spawn_local(async move { on_duty.roll.call(limits, stopped).await });
                move |arrival| connection::serve(arrival, Rc::clone(&desk), Rc::clone(&manner))
            }
        };
        let (workers, ended) = Workers::start(count, "gateway", equip).await?;
        Ok((Self { shared, limiter, lanes }, workers, ended))
    }

    /// Puts other services in force, from the next request on. Those under way end as they began.
    /// All of it, or nothing, and at once: a table's gates have the limits that it was made with.
    pub(crate) fn put_in_force(&self, routing: &Routing) -> anyhow::Result<()> {
        let before = self.shared.table.load();
        // Made twice: once to see that it can be, and once with gates that have the new limits.
        let made = Table::new(routing, &self.limiter, Some(&before), self.lanes)?;
        self.limiter.reload(&routing.limits())?;
        let table = Table::new(routing, &self.limiter, Some(&made), self.lanes)?;
        self.shared.table.store(Arc::new(table));
        Ok(())
    }
}

/// Now, for all that may take so long and no longer: not by the wall clock, which may be set meanwhile.
fn now() -> Timestamp {
    MonotonicClock.now()
}
