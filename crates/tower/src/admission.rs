//! From a request to what becomes of it: identify, resolve, decide, tell.

use crate::backend::Deciding;
use crate::bucket::Bucket;
use crate::client::Client;
use crate::decision::Decision;
use crate::limiter::Shared;
use crate::open_connections::OpenConnection;
use crate::order::Order;
use crate::refusal_log::{Exceeded, Refusal};
use crate::resolved::Resolved;
use crate::websocket::{Connection, ConnectionGuard, is_handshake};
use hivemind_core::store::{Op, Outcome, StoreError, Verdict, Verdicts};
use hivemind_core::{Cost, Timestamp};
use http::header;
use http::request::Parts;
use std::net::IpAddr;
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

/// Whether the store is asked at all.
#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack for a moment; a box would cost every request"
)]
pub(crate) enum Asking {
    /// Limits are switched off. A request to open a WebSocket has its guard all the same.
    Nothing(Option<ConnectionGuard>),
    Store(Asked),
}

/// What a request to open a WebSocket needs beside.
struct Upgrade {
    connection: Connection,
    /// How many its client may have open, and its address under whatever names.
    most: Option<(Arc<Bucket>, Option<u32>)>,
    open: Option<OpenConnection>,
    closes: bool,
}

impl Upgrade {
    fn guard(self) -> ConnectionGuard {
        ConnectionGuard::new(self.connection, self.open)
    }
}

/// What becomes of a request.
pub(crate) enum Conclusion {
    Passed { decision: Option<Decision>, guard: Option<ConnectionGuard> },
    Refused(Decision),
    Undecided,
}

impl Shared {
    /// What to ask the store for this request; none if limits are switched off. All of it comes from
    /// one view of the limits, so that no request is in the old ones and the new at once.
    #[inline]
    pub(crate) fn ask(
        self: &Arc<Self>,
        limits: &Resolved,
        name: &Arc<str>,
        parts: &Parts,
        peer: impl FnOnce() -> Option<IpAddr>,
    ) -> Asking {
        if !limits.enabled {
            // A handler that asks for a guard gets one: it counts nothing until limits are switched on.
            let connection = is_handshake(parts).then(|| self.connection(name, self.client(parts, peer())));
            return Asking::Nothing(connection.map(|connection| ConnectionGuard::new(connection, None)));
        }
        let client = self.client(parts, peer());
        let service = limits.service(name);
        let now = self.clock.now();
        let order = |bucket| Order::new(client, name, bucket, limits.guard.as_ref());
        // A header alone says nothing: it would take any request out of its limit.
        if !is_handshake(parts) || !service.websockets.has(parts.uri.path()) {
            let order = order(service.find(&parts.method, parts.uri.path()));
            return Asking::Store(Asked { order, upgrade: None, now });
        }
        let most = service.open.as_ref().map(|most| (Arc::clone(most), limits.open_per_address(most)));
        let connection = self.connection(name, client);
        let upgrade = Upgrade { connection, most, open: None, closes: service.close_4429 };
        let order = order(service.find_connection(&parts.method, parts.uri.path()));
        Asking::Store(Asked { order, upgrade: Some(upgrade), now })
    }

    pub(crate) fn decide(&self, asked: &Asked) -> Deciding {
        self.backend.decide(&asked.order, Op::Spend, [Cost::ONE; 2], self.context(asked.now))
    }

    /// What the store's answer means.
    pub(crate) fn conclude(
        self: &Arc<Self>,
        asked: Asked,
        verdicts: Result<Verdicts, StoreError>,
        parts: &Parts,
    ) -> Conclusion {
        let Asked { order, mut upgrade, now } = asked;
        // Whom the store does not know of is counted here all the same.
        if verdicts.as_ref().map_or(!self.fails_closed, |verdicts| verdicts.committed)
            && let Some(upgrade) = &mut upgrade
            && let Some((most, at_address)) = &upgrade.most
        {
            upgrade.open = self.open.take(order.slots(most, *at_address));
            if upgrade.open.is_none() {
                return self.crowded(order, upgrade, parts, now);
            }
        }
        let decision = match verdicts.and_then(|verdicts| Decision::new(order, self, &verdicts, now)) {
            Ok(decision) => Some(decision),
            Err(error) => {
                self.warn_of(&error, now);
                if self.fails_closed {
                    return Conclusion::Undecided;
                }
                None
            }
        };
        match decision {
            Some(decision) if !decision.is_allowed() => self.refused(decision, upgrade.as_ref(), parts),
            decision => {
                if let Some(decision) = decision.as_ref().filter(|decision| decision.is_dry_run_refusal()) {
                    self.tell_of(decision, parts);
                }
                Conclusion::Passed { decision, guard: upgrade.map(Upgrade::guard) }
            }
        }
    }

    /// A client has as many WebSocket connections open as it may. It was charged for this attempt, or it
    /// could repeat it without end; and when one closes nobody knows.
    fn crowded(
        self: &Arc<Self>,
        order: Order,
        upgrade: &Upgrade,
        parts: &Parts,
        now: Timestamp,
    ) -> Conclusion {
        let soon = Duration::from_secs(1);
        let outcome = Outcome::Refused { retry_after: Some(soon) };
        let verdict = Verdict { outcome, available: 0, remaining: 0, reset_after: soon };
        let order = upgrade.most.iter().map(|(most, _)| most).fold(order, Order::of);
        match Decision::new(order, self, &Verdicts::new(false, [verdict]), now) {
            Ok(decision) => self.refused(decision, Some(upgrade), parts),
            Err(_) => Conclusion::Undecided,
        }
    }

    fn refused(&self, decision: Decision, upgrade: Option<&Upgrade>, parts: &Parts) -> Conclusion {
        self.tell_of(&decision, parts);
        // The guard is there against who makes up names: a handler shall not even close what it refuses.
        if upgrade.is_some_and(|upgrade| upgrade.closes) && !decision.guard_refuses() {
            let guard = Some(ConnectionGuard::closed(decision.retry_after()));
            return Conclusion::Passed { decision: Some(decision), guard };
        }
        Conclusion::Refused(decision)
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
            self.log.record(&Refusal { address, host: host.unwrap_or_default(), path, at });
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

    fn client(&self, parts: &Parts, peer: Option<IpAddr>) -> Client {
        self.identity.identify(parts, peer)
    }

    fn connection(self: &Arc<Self>, service: &Arc<str>, client: Client) -> Connection {
        Connection { shared: Arc::clone(self), service: Arc::clone(service), client }
    }

    pub(crate) fn peer(&self, parts: &Parts) -> Option<IpAddr> {
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
