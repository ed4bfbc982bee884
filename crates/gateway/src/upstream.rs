//! Upstreams and their connection pools. Each thread has its own pool: connections never move between cores, and each
//! lock is only taken by its own thread.

use super::dial::{DialError, Dialler, Fresh, NoLine, Outside};
use super::failure::Failure;
use super::request_body::RequestBody;
use super::unanswered::{Unanswered, is_untouched};
use crate::settings;
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
const MOST_IDLE: usize = 64;
/// Idle timeout: less than the 5 s of Node and uvicorn, so that few connections are found closed.
const LONGEST_IDLE: Duration = Duration::from_secs(4);
/// Maximum streams per HTTP/2 connection: the minimum that the standard recommends for servers, or fewer if the
/// upstream announces fewer. Also the maximum of such connections per thread: further requests wait for a stream.
const MOST_STREAMS: usize = 100;
const MOST_HTTP2: usize = 8;
/// Maximum requests in progress at one upstream. With HTTP/1.1 each needs a connection, and there are 28,000
/// ephemeral ports; more would not help an overloaded upstream.
const MOST_UNDER_WAY: usize = 8_192;
/// How long an unreachable or failing upstream is skipped while others exist: doubled each time; after each period
/// one request probes it.
const LEFT_OUT: Duration = Duration::from_secs(1);
const LONGEST_LEFT_OUT: Duration = Duration::from_secs(30);

/// Caused by this process, so shared by all upstreams.
static OUT_OF_DESCRIPTORS: LogThrottle = LogThrottle::new();

/// The identity of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) upstream: settings::Upstream,
    pub(super) http2: bool,
    pub(super) ca: Option<std::path::PathBuf>,
}

pub(super) struct Upstream {
    pub(super) address: Address,
    /// Its host and port, for the `Host` header.
    pub(super) authority: HeaderValue,
    dialler: Dialler,
    lanes: Box<[Mutex<Lane>]>,
    under_way: AtomicUsize,
    left_out_until: AtomicU64,
    /// Consecutive failures.
    misses: AtomicU32,
    /// Whether its outage was logged.
    is_told: AtomicBool,
    /// Invalid responses.
    failures: LogThrottle,
}

/// The connection pool of one thread.
#[derive(Default)]
struct Lane {
    idle: Vec<Idle>,
    http2: Vec<Shared>,
}

/// An HTTP/2 connection. Its users are the clones of the token, except for the pool's own.
#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<RequestBody>,
    token: Arc<()>,
    /// The maximum number of streams that the upstream announces.
    most: Arc<AtomicUsize>,
}

struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Timestamp,
}

/// A request in progress, with its connection.
pub(super) struct Lease {
    upstream: Arc<Upstream>,
    lane: usize,
    line: Option<Line>,
    is_fresh: bool,
}

enum Line {
    Http1(http1::SendRequest<RequestBody>),
    Http2(Shared),
}

impl Upstream {
    pub(super) fn new(address: Address, outside: &Outside, lanes: usize) -> Result<Self, DialError> {
        let of = &address.upstream;
        let host = if of.host.contains(':') { format!("[{}]", of.host) } else { of.host.clone() };
        let is_usual = of.port == if of.is_tls { 443 } else { 80 };
        let authority = if is_usual { host } else { format!("{host}:{}", of.port) };
        let authority = HeaderValue::from_str(&authority).unwrap_or_else(|_| HeaderValue::from_static(""));
        Ok(Self {
            dialler: Dialler::new(&address, outside)?,
            address,
            authority,
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            under_way: AtomicUsize::new(0),
            left_out_until: AtomicU64::new(0),
            misses: AtomicU32::new(0),
            is_told: AtomicBool::new(false),
            failures: LogThrottle::new(),
        })
    }

    pub(super) fn load(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    pub(super) fn is_left_out(&self, now: Timestamp) -> bool {
        self.left_out_until.load(Ordering::Relaxed) > now.as_nanos()
    }

    /// Records a failed connection attempt; logged once until it succeeds again.
    pub(super) fn leave_out(&self, why: &NoLine) {
        if why.is_ours() {
            if let Some(times) = OUT_OF_DESCRIPTORS.record(super::now()) {
                tracing::error!(
                    times,
                    "cannot connect to an upstream: {why}; raise `ulimit -n` or LimitNOFILE"
                );
            }
            return;
        }
        self.set_aside();
        if !self.is_told.swap(true, Ordering::Relaxed) {
            let authority = self.authority.to_str().unwrap_or_default();
            tracing::warn!("upstream {authority} unreachable: {why}");
        }
    }

    /// Skips this upstream for a while, if there are others.
    fn set_aside(&self) {
        let misses = self.misses.fetch_add(1, Ordering::Relaxed);
        let until = super::now().saturating_add(left_out_for(misses));
        self.left_out_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    /// Records an invalid response, logs it now and then, and returns the failure for the client. The upstream is
    /// skipped for a while: one that fails immediately has the least load, and would be chosen by every request.
    pub(super) fn fails(&self, why: &dyn fmt::Display) -> Failure {
        self.set_aside();
        if let Some(times) = self.failures.record(super::now()) {
            let authority = self.authority.to_str().unwrap_or_default();
            tracing::warn!(times, "upstream {authority} sent no valid response: {why}");
        }
        Failure::UpstreamFailed
    }

    /// Records a response.
    pub(super) fn answers(&self) {
        if self.left_out_until.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.left_out_until.store(0, Ordering::Relaxed);
        self.misses.store(0, Ordering::Relaxed);
        if self.is_told.swap(false, Ordering::Relaxed) {
            tracing::info!("upstream {} reachable again", self.authority.to_str().unwrap_or_default());
        }
    }

    /// After a skip period, this request probes the upstream while others still skip it.
    fn probe(&self) {
        let until = self.left_out_until.load(Ordering::Relaxed);
        if until == 0 {
            return;
        }
        let now = super::now();
        if until <= now.as_nanos() {
            let next = now.saturating_add(left_out_for(self.misses.load(Ordering::Relaxed)));
            let order = Ordering::Relaxed;
            // If another thread was faster, that one probes.
            let _ = self.left_out_until.compare_exchange(until, next.as_nanos(), order, order);
        }
    }

    pub(super) const fn dialler(&self) -> &Dialler {
        &self.dialler
    }

    /// Registers one more request.
    pub(super) fn lease(self: &Arc<Self>, lane: usize) -> Result<Lease, Failure> {
        self.probe();
        // The lease decrements it on drop, also over the limit.
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let lease = Lease { upstream: Arc::clone(self), lane, line: None, is_fresh: false };
        if before < MOST_UNDER_WAY { Ok(lease) } else { Err(Failure::UpstreamBusy) }
    }

    fn lane(&self, lane: usize) -> Option<MutexGuard<'_, Lane>> {
        Some(self.lanes.get(lane)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The skip period after this number of consecutive failures.
fn left_out_for(misses: u32) -> Duration {
    LEFT_OUT.saturating_mul(1 << misses.min(5)).min(LONGEST_LEFT_OUT)
}

impl Lane {
    /// Takes an open and fresh connection from the pool.
    fn take(&mut self, now: Timestamp) -> Option<Line> {
        self.http2.retain(|shared| !shared.sender.is_closed());
        if let Some(shared) = self.http2.iter().max_by_key(|shared| shared.room())
            && (shared.has_room() || self.http2.len() >= MOST_HTTP2)
        {
            return Some(Line::Http2(shared.clone()));
        }
        self.sweep(now);
        // The most recent one is most likely still open, and the others can expire.
        while let Some(idle) = self.idle.pop() {
            if idle.sender.is_ready() {
                return Some(Line::Http1(idle.sender));
            }
        }
        None
    }

    fn put(&mut self, sender: http1::SendRequest<RequestBody>, now: Timestamp) {
        self.sweep(now);
        if self.idle.len() >= MOST_IDLE {
            self.idle.remove(0);
        }
        self.idle.push(Idle { sender, since: now });
    }

    /// Closes expired connections; the oldest are in front.
    fn sweep(&mut self, now: Timestamp) {
        let is_old = |idle: &Idle| now.since(idle.since) > LONGEST_IDLE;
        if self.idle.first().is_some_and(is_old) {
            let old = self.idle.partition_point(is_old);
            self.idle.drain(..old);
        }
    }

    /// Adds an HTTP/2 connection to the pool, if there is room.
    fn share(&mut self, shared: &Shared) {
        if self.http2.len() < MOST_HTTP2 {
            self.http2.push(shared.clone());
        }
    }
}

impl Shared {
    /// The number of streams that may still be opened.
    fn room(&self) -> usize {
        self.most.load(Ordering::Relaxed).min(MOST_STREAMS).saturating_sub(self.users())
    }

    fn has_room(&self) -> bool {
        self.room() > 0
    }

    fn users(&self) -> usize {
        Arc::strong_count(&self.token).saturating_sub(1)
    }
}

impl Lease {
    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Takes a connection from the pool; returns whether there was one.
    pub(super) fn take_kept(&mut self) -> bool {
        self.line = self.upstream.lane(self.lane).and_then(|mut lane| lane.take(super::now()));
        self.is_fresh = false;
        self.line.is_some()
    }

    /// Opens a new connection.
    pub(super) async fn open(&mut self, most: Duration) -> Result<(), NoLine> {
        self.is_fresh = true;
        let fresh = self.upstream.dialler.dial(most).await?;
        match fresh {
            Fresh::Http1(sender) => self.line = Some(Line::Http1(sender)),
            Fresh::Http2(sender, most) => {
                let shared = Shared { sender, token: Arc::default(), most };
                if let Some(mut lane) = self.upstream.lane(self.lane) {
                    lane.share(&shared);
                }
                self.line = Some(Line::Http2(shared));
            }
        }
        Ok(())
    }

    pub(super) const fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    pub(super) const fn is_http2(&self) -> bool {
        matches!(self.line, Some(Line::Http2(_)))
    }

    /// Sends a request; returns it in the error if nothing of it was sent.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let answered = match &mut self.line {
            Some(Line::Http1(sender)) => {
                sender.try_send_request(request).await.map_err(|error| Unanswered::new(error, |_| true))
            }
            Some(Line::Http2(shared)) => {
                let sent = shared.sender.try_send_request(request);
                sent.await.map_err(|error| Unanswered::new(error, is_untouched))
            }
            None => Err(Unanswered { unsent: Some(request), may_be_repeated: true, why: String::new() }),
        };
        if answered.is_ok() {
            self.upstream.answers();
        }
        answered
    }

    /// Returns the connection to the pool after a complete response.
    pub(super) fn give_back(&mut self) {
        if let Some(Line::Http1(sender)) = self.line.take()
            && !sender.is_closed()
            && let Some(mut lane) = self.upstream.lane(self.lane)
        {
            lane.put(sender, super::now());
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.upstream.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
