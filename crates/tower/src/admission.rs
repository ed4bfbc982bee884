//! From a request to what becomes of it: identify, resolve, decide, tell.

use crate::backend::Deciding;
use crate::bucket::Bucket;
use crate::decision::Decision;
use crate::limiter::Shared;
use crate::open_connections::OpenConnection;
use crate::order::Order;
use crate::refusal_log::Refusal;
use crate::retry_after::RetryAfter;
use crate::websocket::ConnectionGuard;
use hivemind_core::store::{Op, Outcome, StoreError, Verdict, Verdicts};
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
    messages: Arc<Bucket>,
    most: Option<Arc<Bucket>>,
    open: Option<OpenConnection>,
    closes: bool,
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
    pub(crate) fn ask(self: &Arc<Self>, name: &Arc<str>, parts: &Parts) -> Option<Asked> {
        let limits = self.limits.load();
        if !limits.enabled {
            return None;
        }
        let peer = self.peer(parts);
        let client = self.identity.identify(parts, peer);
        let service = limits.service(name);
        let now = self.clock.now();
        let order = |bucket| Order::new(client, name, bucket, limits.guard.as_ref());
        // A header alone says nothing: it would take any request out of its limit.
        if !is_upgrade(parts) || !service.websockets.has(parts.uri.path()) {
            let order = order(service.find(&parts.method, parts.uri.path()));
            return Some(Asked { order, upgrade: None, now });
        }
        let (messages, most) = (Arc::clone(&service.ws_message), service.open.clone());
        let upgrade = Upgrade { messages, most, open: None, closes: service.close_4429 };
        Some(Asked { order: order(&service.ws_connection), upgrade: Some(upgrade), now })
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
    ) -> Admission {
        let Asked { order, mut upgrade, now } = asked;
        // Whom the store does not know of is counted here all the same.
        if verdicts.as_ref().map_or(!self.fails_closed, |verdicts| verdicts.committed)
            && let Some(upgrade) = &mut upgrade
            && let Some(most) = &upgrade.most
        {
            upgrade.open = self.open.take(order.key(), most.limit.requests());
            if upgrade.open.is_none() {
                return self.crowded(order, upgrade, parts, now);
            }
        }
        let decision = match verdicts.and_then(|verdicts| Decision::new(order, self, &verdicts, now)) {
            Ok(decision) => Some(decision),
            Err(error) => {
                self.warn_of(&error, now);
                if self.fails_closed {
                    return Admission::Undecided;
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
                let guard = upgrade.map(|upgrade| {
                    ConnectionGuard::new(upgrade.messages, upgrade.open, Arc::clone(&self.clock))
                });
                Admission::Passed { decision, guard }
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
    ) -> Admission {
        let soon = Duration::from_secs(1);
        let outcome = Outcome::Refused { retry_after: Some(soon) };
        let verdict = Verdict { outcome, available: 0, remaining: 0, reset_after: soon };
        let order = upgrade.most.iter().fold(order, Order::of);
        match Decision::new(order, self, &Verdicts::new(false, [verdict]), now) {
            Ok(decision) => self.refused(decision, Some(upgrade), parts),
            Err(_) => Admission::Undecided,
        }
    }

    fn refused(&self, decision: Decision, upgrade: Option<&Upgrade>, parts: &Parts) -> Admission {
        self.tell_of(&decision, parts);
        // The guard is there against who makes up names: a handler shall not even close what it refuses.
        if upgrade.is_some_and(|upgrade| upgrade.closes) && !decision.guard_refuses() {
            let guard = Some(ConnectionGuard::closed(decision.retry_after()));
            return Admission::Passed { decision: Some(decision), guard };
        }
        Admission::Refused(decision)
    }

    /// The event for those who watch for floods, and the line for fail2ban.
    fn tell_of(&self, decision: &Decision, parts: &Parts) {
        let retry_after = match decision.retry_after() {
            Some(RetryAfter::Seconds(seconds)) => Some(seconds.get()),
            _ => None,
        };
        tracing::warn!(
            target: "hivemind::security",
            event = "RateLimitExceeded",
            client = decision.client().name(),
            service = decision.service(),
            endpoint = decision.endpoint(),
            r#type = decision.kind().name(),
            limit = decision.limit().requests(),
            retry_after,
            dry_run = decision.is_dry_run_refusal(),
        );
        // Whom a dry run passes shall not be banned for it.
        if let Some(log) = self.log.as_ref().filter(|_| !decision.is_allowed()) {
            let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
            let (address, path, at) = (decision.client().address(), parts.uri.path(), decision.at());
            log.refused(&Refusal { address, host: host.unwrap_or_default(), path, at });
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
