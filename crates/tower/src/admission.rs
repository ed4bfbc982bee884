//! Admission of a request: identify the client, find its limit, charge the counters, conclude.

use crate::active_limits::ActiveLimits;
use crate::backend::BackendReply;
use crate::bucket::Bucket;
use crate::charge_plan::ChargePlan;
use crate::client::Client;
use crate::decision::Decision;
use crate::limiter::LimiterInner;
use crate::open_connections::OpenConnection;
use crate::refusal_log::{LimitExceeded, Refusal};
use crate::websocket::{ConnectionContext, ConnectionGuard, is_handshake};
use hivemind_core::store::{Op, Outcome, StoreError, Verdict, Verdicts};
use hivemind_core::{Cost, Timestamp};
use http::header;
use http::request::Parts;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The interval between warnings about a failing store.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// A request whose charges the store has to decide.
pub(crate) struct PendingDecision {
    plan: ChargePlan,
    upgrade: Option<Upgrade>,
    now: Timestamp,
}

/// Whether a request needs a decision of the store.
#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack for a moment; a box would cost every request"
)]
pub(crate) enum DecisionPlan {
    /// Limits are disabled. A WebSocket upgrade gets its guard nevertheless.
    Skip(Option<ConnectionGuard>),
    Decide(PendingDecision),
}

/// The additional state of a WebSocket upgrade.
struct Upgrade {
    connection: ConnectionContext,
    /// The limit on open connections of a client, and that of its address.
    open_limit: Option<(Arc<Bucket>, Option<u32>)>,
    open: Option<OpenConnection>,
    closes: bool,
}

impl Upgrade {
    fn guard(self) -> ConnectionGuard {
        ConnectionGuard::new(self.connection, self.open)
    }
}

/// The result of an admission.
pub(crate) enum Conclusion {
    Passed { decision: Option<Decision>, guard: Option<ConnectionGuard> },
    Refused(Decision),
    Undecided,
}

impl LimiterInner {
    /// Plans the charges of a request. It reads one snapshot of the limits, so a reload never gives a request a
    /// mix of old and new ones.
    #[inline]
    pub(crate) fn prepare(
        &self,
        limits: &ActiveLimits,
        name: &Arc<str>,
        parts: &Parts,
        peer: impl FnOnce() -> Option<IpAddr>,
    ) -> DecisionPlan {
        if !limits.enabled {
            // The guard of an upgrade counts nothing until limits are enabled.
            let connection =
                is_handshake(parts).then(|| self.connection(name, self.identity.identify(parts, peer())));
            return DecisionPlan::Skip(connection.map(|connection| ConnectionGuard::new(connection, None)));
        }
        let client = self.identity.identify(parts, peer());
        let service = limits.service(name);
        let now = self.state.clock.now();
        let plan = |bucket| ChargePlan::new(client, name, bucket, limits.guard.as_ref());
        // The path has to match as well: by the headers alone a client could move any request to another limit.
        if !is_handshake(parts) || !service.websockets.contains(parts.uri.path()) {
            let plan = plan(service.find(&parts.method, parts.uri.path()));
            return DecisionPlan::Decide(PendingDecision { plan, upgrade: None, now });
        }
        let open_limit =
            service.open.as_ref().map(|limit| (Arc::clone(limit), limits.open_per_address(limit)));
        let connection = self.connection(name, client);
        let upgrade = Upgrade { connection, open_limit, open: None, closes: service.close_4429 };
        let plan = plan(service.find_connection(&parts.method, parts.uri.path()));
        DecisionPlan::Decide(PendingDecision { plan, upgrade: Some(upgrade), now })
    }

    pub(crate) fn decide(&self, pending: &PendingDecision) -> BackendReply {
        let state = &self.state;
        state.backend.decide(&pending.plan, Op::Spend, [Cost::ONE; 2], state.context(pending.now))
    }

    /// Turns the verdicts of the store into a conclusion.
    pub(crate) fn conclude(
        &self,
        pending: PendingDecision,
        verdicts: Result<Verdicts, StoreError>,
        parts: &Parts,
    ) -> Conclusion {
        let PendingDecision { plan, mut upgrade, now } = pending;
        // Open connections are counted here even if the store failed.
        if verdicts.as_ref().map_or(!self.fails_closed, |verdicts| verdicts.committed)
            && let Some(upgrade) = &mut upgrade
            && let Some((limit, address_limit)) = &upgrade.open_limit
        {
            upgrade.open = self.open.acquire(plan.slots(limit, *address_limit));
            if upgrade.open.is_none() {
                return self.refuse_open_connection(plan, upgrade, parts, now);
            }
        }
        let decision = match verdicts.and_then(|verdicts| Decision::new(plan, &self.state, &verdicts, now)) {
            Ok(decision) => Some(decision),
            Err(error) => {
                self.warn_store_failure(&error, now);
                if self.fails_closed {
                    return Conclusion::Undecided;
                }
                None
            }
        };
        match decision {
            Some(decision) if !decision.is_allowed() => self.refuse(decision, upgrade.as_ref(), parts),
            decision => {
                if let Some(decision) = decision.as_ref().filter(|decision| decision.is_dry_run_refusal()) {
                    self.log_refusal(decision, parts);
                }
                Conclusion::Passed { decision, guard: upgrade.map(Upgrade::guard) }
            }
        }
    }

    /// Refuses an upgrade because its client has too many connections open. The attempt stays charged, so that
    /// it cannot be repeated without end. `Retry-After` is a second, since the end of a connection cannot be
    /// predicted.
    fn refuse_open_connection(
        &self,
        plan: ChargePlan,
        upgrade: &Upgrade,
        parts: &Parts,
        now: Timestamp,
    ) -> Conclusion {
        let retry_after = Duration::from_secs(1);
        let outcome = Outcome::Refused { retry_after: Some(retry_after) };
        let verdict = Verdict { outcome, available: 0, remaining: 0, reset_after: retry_after };
        let plan = upgrade.open_limit.iter().map(|(limit, _)| limit).fold(plan, ChargePlan::with_bucket);
        match Decision::new(plan, &self.state, &Verdicts::new(false, [verdict]), now) {
            Ok(decision) => self.refuse(decision, Some(upgrade), parts),
            Err(_) => Conclusion::Undecided,
        }
    }

    fn refuse(&self, decision: Decision, upgrade: Option<&Upgrade>, parts: &Parts) -> Conclusion {
        self.log_refusal(&decision, parts);
        // Refusals by the guard are never passed on to close with 4429: it protects against clients that make up
        // names, which should not reach the handler at all.
        if upgrade.is_some_and(|upgrade| upgrade.closes) && !decision.is_guard_refusal() {
            let guard = Some(ConnectionGuard::closed(decision.retry_after()));
            return Conclusion::Passed { decision: Some(decision), guard };
        }
        Conclusion::Refused(decision)
    }

    /// Emits the security event and, unless the limit is in dry run, the refusal line for fail2ban.
    fn log_refusal(&self, decision: &Decision, parts: &Parts) {
        let log = &self.state.log;
        log.record_exceeded(&LimitExceeded {
            client: decision.client(),
            service: decision.service(),
            endpoint: decision.endpoint(),
            bucket: decision.bucket(),
            retry_after: decision.retry_after(),
            is_dry_run: decision.is_dry_run_refusal(),
            at: decision.at(),
        });
        // A client that a dry run admits must not be banned.
        if !decision.is_allowed() {
            let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
            let (address, path, at) = (decision.client().address(), parts.uri.path(), decision.at());
            log.record(&Refusal { address, host: host.unwrap_or_default(), path, at });
        }
    }

    fn warn_store_failure(&self, error: &StoreError, now: Timestamp) {
        let due = self.next_warning_at.load(Ordering::Relaxed);
        let next = now.saturating_add(WARNING_INTERVAL).as_nanos();
        let is_due = now.as_nanos() >= due;
        // Only the thread that moves the due time logs the warning.
        let ordering = Ordering::Relaxed;
        if is_due && self.next_warning_at.compare_exchange(due, next, ordering, ordering).is_ok() {
            let action = if self.fails_closed { "refused with 503" } else { "passed uncounted" };
            tracing::warn!(%error, "rate limit store failed; requests are {action} until it recovers");
        }
    }

    fn connection(&self, service: &Arc<str>, client: Client) -> ConnectionContext {
        ConnectionContext { state: Arc::clone(&self.state), service: Arc::clone(service), client }
    }

    pub(crate) fn peer(&self, parts: &Parts) -> Option<IpAddr> {
        let peer = (self.peer)(&parts.extensions);
        if peer.is_none() && !self.missing_peer_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "request without its peer's address: all such requests share the client `ip:unknown`; on axum \
                 serve with `into_make_service_with_connect_info::<SocketAddr>()` and enable the feature \
                 `axum`, elsewhere insert a `hivemind_tower::Peer` into the request's extensions"
            );
        }
        peer
    }
}
