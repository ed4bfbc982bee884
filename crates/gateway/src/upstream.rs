//! Upstreams and their connection pools. Each thread has its own pool: connections never move between cores, and each
//! lock is only taken by its own thread.

use super::dial::{DialContext, DialError, DialFailure, Dialer, Fresh, UpstreamAddress};
use super::failure::Failure;
use super::request_body::RequestBody;
use super::send_failure::{SendFailure, is_untouched};
use hivemind_core::Timestamp;
use hivemind_telemetry::log_throttle::LogThrottle;
use http::header::HeaderValue;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum idle connections per thread and upstream. More would rarely be used.
const MAX_IDLE: usize = 64;
/// Idle timeout: less than the 5 s of Node and uvicorn, so that few connections are found closed.
const LONGEST_IDLE: Duration = Duration::from_secs(4);
/// Maximum streams per HTTP/2 connection: the minimum that the standard recommends for servers, or fewer if the
/// upstream announces fewer. Also the maximum of such connections per thread: further requests wait for a stream.
const MAX_STREAMS: usize = 100;
const MAX_HTTP2: usize = 8;
/// Maximum requests in progress at one upstream. With HTTP/1.1 each needs a connection, and there are 28,000
/// ephemeral ports; more would not help an overloaded upstream.
const MAX_ACTIVE: usize = 8_192;
/// How long an unreachable or failing upstream is skipped while others exist: doubled each time; after each period
/// one request probes it.
const SHORTEST_SKIP: Duration = Duration::from_secs(1);
const LONGEST_SKIP: Duration = Duration::from_secs(30);

/// Caused by this process, so shared by all upstreams.
static OUT_OF_DESCRIPTORS: LogThrottle = LogThrottle::new();

pub(super) struct Upstream {
    pub(super) address: UpstreamAddress,
    /// Its host and port, for the `Host` header.
    pub(super) authority: HeaderValue,
    dialer: Dialer,
    pools: Box<[Mutex<ConnectionPool>]>,
    active: AtomicUsize,
    skipped_until: AtomicU64,
    /// Consecutive failures.
    consecutive_failures: AtomicU32,
    /// Whether its outage was logged.
    is_outage_logged: AtomicBool,
    /// Invalid responses.
    failures: LogThrottle,
}

/// The connection pool of one thread.
#[derive(Default)]
struct ConnectionPool {
    idle: Vec<IdleHttp1>,
    http2: Vec<Http2Connection>,
}

/// An HTTP/2 connection. Its users are the clones of the token, except for the pool's own.
#[derive(Clone)]
struct Http2Connection {
    sender: http2::SendRequest<RequestBody>,
    token: Arc<()>,
    /// The maximum number of streams that the upstream announces.
    most: Arc<AtomicUsize>,
}

struct IdleHttp1 {
    sender: http1::SendRequest<RequestBody>,
    since: Timestamp,
}

/// A request in progress, with its connection.
pub(super) struct UpstreamSlot {
    upstream: Arc<Upstream>,
    pool: usize,
    connection: Option<UpstreamConnection>,
    is_fresh: bool,
}

enum UpstreamConnection {
    Http1(http1::SendRequest<RequestBody>),
    Http2(Http2Connection),
}

impl Upstream {
    pub(super) fn new(
        address: UpstreamAddress,
        dial_context: &DialContext,
        pools: usize,
    ) -> Result<Self, DialError> {
        let of = &address.upstream;
        let host = if of.host.contains(':') { format!("[{}]", of.host) } else { of.host.clone() };
        let is_usual = of.port == if of.is_tls { 443 } else { 80 };
        let authority = if is_usual { host } else { format!("{host}:{}", of.port) };
        let authority = HeaderValue::from_str(&authority).unwrap_or_else(|_| HeaderValue::from_static(""));
        Ok(Self {
            dialer: Dialer::new(&address, dial_context)?,
            address,
            authority,
            pools: (0..pools).map(|_| Mutex::default()).collect(),
            active: AtomicUsize::new(0),
            skipped_until: AtomicU64::new(0),
            consecutive_failures: AtomicU32::new(0),
            is_outage_logged: AtomicBool::new(false),
            failures: LogThrottle::new(),
        })
    }

    pub(super) fn load(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    pub(super) fn is_skipped(&self, now: Timestamp) -> bool {
        self.skipped_until.load(Ordering::Relaxed) > now.as_nanos()
    }

    /// Records a failed connection attempt; logged once until it succeeds again.
    pub(super) fn record_unreachable(&self, why: &DialFailure) {
        if why.is_ours() {
            if let Some(times) = OUT_OF_DESCRIPTORS.record(super::now()) {
                tracing::error!(
                    times,
                    "cannot connect to an upstream: {why}; raise `ulimit -n` or LimitNOFILE"
                );
            }
            return;
        }
        self.skip();
        if !self.is_outage_logged.swap(true, Ordering::Relaxed) {
            let authority = self.authority.to_str().unwrap_or_default();
            tracing::warn!("upstream {authority} unreachable: {why}");
        }
    }

    /// Skips this upstream for a while, if there are others.
    fn skip(&self) {
        let consecutive_failures = self.consecutive_failures.fetch_add(1, Ordering::Relaxed);
        let until = super::now().saturating_add(skip_period(consecutive_failures));
        self.skipped_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    /// Records an invalid response, logs it now and then, and returns the failure for the client. The upstream is
    /// skipped for a while: one that fails immediately has the least load, and would be chosen by every request.
    pub(super) fn fails(&self, why: &dyn fmt::Display) -> Failure {
        self.skip();
        if let Some(times) = self.failures.record(super::now()) {
            let authority = self.authority.to_str().unwrap_or_default();
            tracing::warn!(times, "upstream {authority} sent no valid response: {why}");
        }
        Failure::UpstreamFailed
    }

    /// Records a response.
    pub(super) fn answers(&self) {
        if self.skipped_until.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.skipped_until.store(0, Ordering::Relaxed);
        self.consecutive_failures.store(0, Ordering::Relaxed);
        if self.is_outage_logged.swap(false, Ordering::Relaxed) {
            tracing::info!("upstream {} reachable again", self.authority.to_str().unwrap_or_default());
        }
    }

    /// After a skip period, this request probes the upstream while others still skip it.
    fn probe(&self) {
        let until = self.skipped_until.load(Ordering::Relaxed);
        if until == 0 {
            return;
        }
        let now = super::now();
        if until <= now.as_nanos() {
            let next = now.saturating_add(skip_period(self.consecutive_failures.load(Ordering::Relaxed)));
            let order = Ordering::Relaxed;
            // If another thread was faster, that one probes.
            let _ = self.skipped_until.compare_exchange(until, next.as_nanos(), order, order);
        }
    }

    pub(super) const fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Registers one more request.
    pub(super) fn slot(self: &Arc<Self>, pool: usize) -> Result<UpstreamSlot, Failure> {
        self.probe();
        // The slot decrements it on drop, also over the limit.
        let before = self.active.fetch_add(1, Ordering::Relaxed);
        let slot = UpstreamSlot { upstream: Arc::clone(self), pool, connection: None, is_fresh: false };
        if before < MAX_ACTIVE { Ok(slot) } else { Err(Failure::UpstreamBusy) }
    }

    fn pool(&self, pool: usize) -> Option<MutexGuard<'_, ConnectionPool>> {
        Some(self.pools.get(pool)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The skip period after this number of consecutive failures.
fn skip_period(consecutive_failures: u32) -> Duration {
    SHORTEST_SKIP.saturating_mul(1 << consecutive_failures.min(5)).min(LONGEST_SKIP)
}

impl ConnectionPool {
    /// Takes an open and fresh connection from the pool.
    fn take(&mut self, now: Timestamp) -> Option<UpstreamConnection> {
        self.http2.retain(|connection| !connection.sender.is_closed());
        if let Some(connection) = self.http2.iter().max_by_key(|connection| connection.room())
            && (connection.has_room() || self.http2.len() >= MAX_HTTP2)
        {
            return Some(UpstreamConnection::Http2(connection.clone()));
        }
        self.sweep(now);
        // The most recent one is most likely still open, and the others can expire.
        while let Some(idle) = self.idle.pop() {
            if idle.sender.is_ready() {
                return Some(UpstreamConnection::Http1(idle.sender));
            }
        }
        None
    }

    fn put(&mut self, sender: http1::SendRequest<RequestBody>, now: Timestamp) {
        self.sweep(now);
        if self.idle.len() >= MAX_IDLE {
            self.idle.remove(0);
        }
        self.idle.push(IdleHttp1 { sender, since: now });
    }

    /// Closes expired connections; the oldest are in front.
    fn sweep(&mut self, now: Timestamp) {
        let is_old = |idle: &IdleHttp1| now.since(idle.since) > LONGEST_IDLE;
        if self.idle.first().is_some_and(is_old) {
            let old = self.idle.partition_point(is_old);
            self.idle.drain(..old);
        }
    }

    /// Adds an HTTP/2 connection to the pool, if there is room.
    fn share(&mut self, connection: &Http2Connection) {
        if self.http2.len() < MAX_HTTP2 {
            self.http2.push(connection.clone());
        }
    }
}

impl Http2Connection {
    /// The number of streams that may still be opened.
    fn room(&self) -> usize {
        self.most.load(Ordering::Relaxed).min(MAX_STREAMS).saturating_sub(self.users())
    }

    fn has_room(&self) -> bool {
        self.room() > 0
    }

    fn users(&self) -> usize {
        Arc::strong_count(&self.token).saturating_sub(1)
    }
}

impl UpstreamSlot {
    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Takes a connection from the pool; returns whether there was one.
    pub(super) fn take_pooled(&mut self) -> bool {
        self.connection = self.upstream.pool(self.pool).and_then(|mut pool| pool.take(super::now()));
        self.is_fresh = false;
        self.connection.is_some()
    }

    /// Opens a new connection.
    pub(super) async fn open(&mut self, most: Duration) -> Result<(), DialFailure> {
        self.is_fresh = true;
        let fresh = self.upstream.dialer.dial(most).await?;
        match fresh {
            Fresh::Http1(sender) => self.connection = Some(UpstreamConnection::Http1(sender)),
            Fresh::Http2(sender, most) => {
                let connection = Http2Connection { sender, token: Arc::default(), most };
                if let Some(mut pool) = self.upstream.pool(self.pool) {
                    pool.share(&connection);
                }
                self.connection = Some(UpstreamConnection::Http2(connection));
            }
        }
        Ok(())
    }

    pub(super) const fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    pub(super) const fn is_http2(&self) -> bool {
        matches!(self.connection, Some(UpstreamConnection::Http2(_)))
    }

    /// Sends a request; returns it in the error if nothing of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendFailure> {
        let answered = match &mut self.connection {
            Some(UpstreamConnection::Http1(sender)) => {
                sender.try_send_request(request).await.map_err(|error| SendFailure::new(error, |_| true))
            }
            Some(UpstreamConnection::Http2(connection)) => {
                let sent = connection.sender.try_send_request(request);
                sent.await.map_err(|error| SendFailure::new(error, is_untouched))
            }
            None => Err(SendFailure { unsent: Some(request), may_be_repeated: true, why: String::new() }),
        };
        if answered.is_ok() {
            self.upstream.answers();
        }
        answered
    }

    /// Returns the connection to the pool after a complete response.
    pub(super) fn return_to_pool(&mut self) {
        if let Some(UpstreamConnection::Http1(sender)) = self.connection.take()
            && !sender.is_closed()
            && let Some(mut pool) = self.upstream.pool(self.pool)
        {
            pool.put(sender, super::now());
        }
    }
}

impl Drop for UpstreamSlot {
    fn drop(&mut self) {
        self.upstream.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
