//! From a request to what becomes of it: identify, resolve, decide, tell.

use crate::backend::Deciding;
use crate::bucket::Bucket;
use crate::client::Client;
use crate::decision::Decision;
use crate::limiter::Shared;
use crate::open_connections::OpenConnection;
use crate::order::Order;
use crate::refusal_log::{Exceeded, Refusal};
use crate::websocket::{Connection, ConnectionGuard};
use hivemind_core::store::{Context, Op, Outcome, StoreError, Verdict, Verdicts};
use hivemind_core::{Cost, Timestamp};
use http::request::Parts;
use http::{Method, header};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a failing store is told of.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// A question to the store, with all that is needed when its answer comes.
pub(crate) struct Asked {
    order: Order,
    upgrade: Option<Upgrade>,
    now: Timestamp,
}

/// What a request to open a WebSocket needs beside.
struct Upgrade {
    connection: Connection,
    open: Option<OpenConnection>,
    closes: bool,
}

impl Upgrade {
    fn guard(self) -> ConnectionGuard {
        ConnectionGuard::new(self.connection, self.open)
    }
}

/// What becomes of a request.
pub(crate) enum Admission {
    Passed { decision: Option<Decision>, guard: Option<ConnectionGuard> },
    Refused(Decision),
    Undecided,
}

impl Shared {
    /// What to ask the store for this request; none if limits are switched off. All of it comes from
    /// one load of the limits, so that no request is in the old ones and the new at once.
    #[inline]
    pub(crate) fn ask(self: &Arc<Self>, name: &Arc<str>, parts: &Parts) -> Option<Result<Asked, Admission>> {
        let limits = self.limits.load();
        if !limits.enabled {
            // A handler that asks for a guard gets one: it counts nothing until limits are switched on.
            let connection = is_upgrade(parts).then(|| self.connection(name, self.client(parts)));
            let guard = connection.map(|connection| ConnectionGuard::new(connection, None))?;
            return Some(Err(Admission::Passed { decision: None, guard: Some(guard) }));
        }
        let client = self.client(parts);
        let service = limits.service(name);
        let now = self.clock.now();
        let order = |bucket| Order::new(client, name, bucket, limits.guard.as_ref());
        if !is_upgrade(parts) {
            let order = order(service.find(&parts.method, parts.uri.path()));
            return Some(Ok(Asked { order, upgrade: None, now }));
        }
        let order = order(&service.ws_connection);
        let connection = self.connection(name, client);
        let mut upgrade = Upgrade { connection, open: None, closes: service.close_4429 };
        if let Some(most) = &service.open {
            let at_address = limits.open_per_address(most);
            upgrade.open = self.open.take(order.slots(most, at_address));
            if upgrade.open.is_none() {
                return Some(Err(self.crowded(order, most, upgrade, parts, now)));
            }
        }
        Some(Ok(Asked { order, upgrade: Some(upgrade), now }))
    }

    pub(crate) fn decide(&self, asked: &Asked) -> Deciding {
        self.backend.decide(&asked.order, Op::Spend, Cost::ONE, Context::at(asked.now))
    }

    /// What the store's answer means.
    pub(crate) fn conclude(
        self: &Arc<Self>,
        asked: Asked,
        verdicts: Result<Verdicts, StoreError>,
        parts: &Parts,
    ) -> Admission {
        let Asked { order, upgrade, now } = asked;
        let decision = match verdicts {
            Ok(verdicts) => Decision::new(order, self, &verdicts, now),
            Err(error) => {
                self.warn_of(&error, now);
                if self.fails_closed {
                    return Admission::Undecided;
                }
                None
            }
        };
        match decision {
            Some(decision) if !decision.verdict().is_admitted() => self.refused(decision, upgrade, parts),
            decision => Admission::Passed { decision, guard: upgrade.map(Upgrade::guard) },
        }
    }

    /// A client has as many WebSocket connections open as it may: nothing was charged, and when one closes nobody knows.
    fn crowded(
        self: &Arc<Self>,
        order: Order,
        most: &Arc<Bucket>,
        upgrade: Upgrade,
        parts: &Parts,
        now: Timestamp,
    ) -> Admission {
        let soon = Duration::from_secs(1);
        let outcome = Outcome::Refused { retry_after: Some(soon) };
        let verdict = Verdict { outcome, available: 0, remaining: 0, reset_after: soon };
        let order = order.of(most);
        match Decision::new(order, self, &Verdicts::new(false, [verdict]), now) {
            Some(decision) => self.refused(decision, Some(upgrade), parts),
            None => Admission::Undecided,
        }
    }

    fn refused(&self, decision: Decision, upgrade: Option<Upgrade>, parts: &Parts) -> Admission {
        self.tell_of(&decision, parts);
        let is_allowed = decision.is_allowed();
        match upgrade {
            Some(Upgrade { closes: true, .. }) if !is_allowed => {
                let guard = Some(ConnectionGuard::closed(decision.retry_after()));
                Admission::Passed { decision: Some(decision), guard }
            }
            Some(upgrade) if is_allowed => {
                Admission::Passed { decision: Some(decision), guard: Some(upgrade.guard()) }
            }
            None if is_allowed => Admission::Passed { decision: Some(decision), guard: None },
            _ => Admission::Refused(decision),
        }
    }

    /// The event for those who watch for floods, and the line for fail2ban.
    fn tell_of(&self, decision: &Decision, parts: &Parts) {
        self.log.exceeded(&Exceeded {
            client: decision.client(),
            service: decision.service(),
            endpoint: decision.endpoint(),
            bucket: decision.bucket(),
            retry_after: decision.retry_after(),
            is_dry_run: decision.is_dry_run_refusal(),
            at: decision.at(),
        });
        // Whom a dry run passes shall not be banned for it.
        if !decision.is_allowed() {
            let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
            let (address, path, at) = (decision.client().address(), parts.uri.path(), decision.at());
            self.log.refused(&Refusal { address, host: host.unwrap_or_default(), path, at });
        }
    }

    fn warn_of(&self, error: &StoreError, now: Timestamp) {
        let due = self.warns_again_at.load(Ordering::Relaxed);
        let next = now.saturating_add(WARNING_INTERVAL).as_nanos();
        let is_due = now.as_nanos() >= due;
        // Of all that see it due, one tells it.
        let order = Ordering::Relaxed;
        if is_due && self.warns_again_at.compare_exchange(due, next, order, order).is_ok() {
            let pass = if self.fails_closed { "refused with 503" } else { "passed uncounted" };
            tracing::warn!(%error, "no limit could be asked; requests are {pass} until the store answers");
        }
    }

    fn client(&self, parts: &Parts) -> Client {
        self.identity.identify(parts, self.peer(parts))
    }

    fn connection(self: &Arc<Self>, service: &Arc<str>, client: Client) -> Connection {
        Connection { shared: Arc::clone(self), service: Arc::clone(service), client }
    }

    fn peer(&self, parts: &Parts) -> Option<std::net::IpAddr> {
        let peer = (self.peer)(&parts.extensions);
        if peer.is_none() && !self.warned_of_peer.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a request without its peer's address: all of these share the client `ip:unknown`; on axum \
                 serve with `into_make_service_with_connect_info::<SocketAddr>()` and enable the feature \
                 `axum`, elsewhere put a `hivemind_tower::Peer` into the request's extensions"
            );
        }
        peer
    }
}

/// Whether a request opens a WebSocket: an upgrade (RFC 6455), or HTTP/2's CONNECT (RFC 8441).
fn is_upgrade(parts: &Parts) -> bool {
    let names_websocket = |value: &http::HeaderValue| {
        let mut names = value.as_bytes().split(|byte| *byte == b',');
        names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"websocket"))
    };
    match parts.method {
        Method::GET => parts.headers.get(header::UPGRADE).is_some_and(names_websocket),
        Method::CONNECT => parts.headers.contains_key(header::SEC_WEBSOCKET_VERSION),
        _ => false,
    }
}
