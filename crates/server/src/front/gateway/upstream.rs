//! An upstream, and the connections to it that are kept. Each thread has its own: none is ever handed from
//! core to core, and the lock around them is only ever taken by their own thread.

use super::dial::{DialError, Dialler, Fresh, NoLine, Outside};
use super::failure::Failure;
use super::request_body::RequestBody;
use super::unanswered::{Unanswered, is_untouched};
use crate::config::gateway as settings;
use hivemind_core::Timestamp;
use hivemind_telemetry::seldom::Seldom;
use http::header::HeaderValue;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections that each thread keeps for later, for each upstream. More would be idle more often than not.
const MOST_IDLE: usize = 64;
/// How long one is kept: less than the 5 s that Node and uvicorn keep theirs, so that few are found closed.
const LONGEST_IDLE: Duration = Duration::from_secs(4);
/// Requests on one connection of HTTP/2, which is what the standard asks servers to take at least, where the
/// upstream does not take fewer; and such connections of each thread: what is more waits for a stream to end.
const MOST_STREAMS: usize = 100;
const MOST_HTTP2: usize = 8;
/// Requests under way at one upstream. Over HTTP/1.1 each has a connection, and there are 28,000 ports
/// to connect from; an upstream that is that far behind is not helped by more.
const MOST_UNDER_WAY: usize = 8_192;
/// How long an upstream that could not be reached, or gave no answer, is left out, as long as there are others: twice as long
/// each time, and after each one request finds out whether it is there again.
const LEFT_OUT: Duration = Duration::from_secs(1);
const LONGEST_LEFT_OUT: Duration = Duration::from_secs(30);

/// Nobody's fault but this process's, and so of all upstreams together.
static OUT_OF_DESCRIPTORS: Seldom = Seldom::new();

/// What tells two upstreams apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) upstream: settings::Upstream,
    pub(super) http2: bool,
    pub(super) ca: Option<std::path::PathBuf>,
}

pub(super) struct Upstream {
    pub(super) address: Address,
    /// Its own host and port, as `Host` names it.
    pub(super) authority: HeaderValue,
    dialler: Dialler,
    lanes: Box<[Mutex<Lane>]>,
    under_way: AtomicUsize,
    left_out_until: AtomicU64,
    /// How many times in a row it could not be reached, or gave no answer.
    misses: AtomicU32,
    /// Whether it was told that it cannot be reached.
    is_told: AtomicBool,
    /// Answers that were none.
    failures: Seldom,
}

/// What one thread keeps.
#[derive(Default)]
struct Lane {
    idle: Vec<Idle>,
    http2: Vec<Shared>,
}

/// A connection of HTTP/2. It has one user fewer than its token has holders: one is the lane.
#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<RequestBody>,
    token: Arc<()>,
    /// How many streams the upstream takes on it, as it says.
    most: Arc<AtomicUsize>,
}

struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Timestamp,
}

/// A place among the requests under way, with the connection that it is on.
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
            failures: Seldom::new(),
        })
    }

    pub(super) fn load(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    pub(super) fn is_left_out(&self, now: Timestamp) -> bool {
        self.left_out_until.load(Ordering::Relaxed) > now.as_nanos()
    }

    /// It could not be reached. That is told once, until it can be again.
    pub(super) fn leave_out(&self, why: &NoLine) {
        if why.is_ours() {
            if let Some(times) = OUT_OF_DESCRIPTORS.happens(super::now()) {
                tracing::error!(
                    times,
                    "no connection to an upstream: {why}; raise `ulimit -n` or LimitNOFILE"
                );
            }
            return;
        }
        self.set_aside();
        if !self.is_told.swap(true, Ordering::Relaxed) {
            let authority = self.authority.to_str().unwrap_or_default();
            tracing::warn!("the upstream {authority} cannot be reached: {why}");
        }
    }

    /// Others are asked for a while, as long as there are any.
    fn set_aside(&self) {
        let misses = self.misses.fetch_add(1, Ordering::Relaxed);
        let until = super::now().saturating_add(left_out_for(misses));
        self.left_out_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    /// It was reached, and what it says is no answer. That is told now and then, with what a client is told. It is
    /// set aside, too: one that fails at once has always the least to do, and would be chosen by everybody.
    pub(super) fn fails(&self, why: &dyn fmt::Display) -> Failure {
        self.set_aside();
        if let Some(times) = self.failures.happens(super::now()) {
            let authority = self.authority.to_str().unwrap_or_default();
            tracing::warn!(times, "the upstream {authority} gave no valid answer: {why}");
        }
        Failure::UpstreamFailed
    }

    /// It has answered.
    pub(super) fn answers(&self) {
        if self.left_out_until.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.left_out_until.store(0, Ordering::Relaxed);
        self.misses.store(0, Ordering::Relaxed);
        if self.is_told.swap(false, Ordering::Relaxed) {
            tracing::info!("the upstream {} is reached again", self.authority.to_str().unwrap_or_default());
        }
    }

    /// Where it was left out until now, this request finds out whether it is there: others wait for that.
    fn probe(&self) {
        let until = self.left_out_until.load(Ordering::Relaxed);
        if until == 0 {
            return;
        }
        let now = super::now();
        if until <= now.as_nanos() {
            let next = now.saturating_add(left_out_for(self.misses.load(Ordering::Relaxed)));
            let order = Ordering::Relaxed;
            // Where another was faster, it does the same.
            let _ = self.left_out_until.compare_exchange(until, next.as_nanos(), order, order);
        }
    }

    pub(super) const fn dialler(&self) -> &Dialler {
        &self.dialler
    }

    /// A place for one more request.
    pub(super) fn lease(self: &Arc<Self>, lane: usize) -> Result<Lease, Failure> {
        self.probe();
        // The lease puts it back, also where there was no place.
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let lease = Lease { upstream: Arc::clone(self), lane, line: None, is_fresh: false };
        if before < MOST_UNDER_WAY { Ok(lease) } else { Err(Failure::UpstreamBusy) }
    }

    fn lane(&self, lane: usize) -> Option<MutexGuard<'_, Lane>> {
        Some(self.lanes.get(lane)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How long an upstream is left out that was not reached so many times before.
fn left_out_for(misses: u32) -> Duration {
    LEFT_OUT.saturating_mul(1 << misses.min(5)).min(LONGEST_LEFT_OUT)
}

impl Lane {
    /// A connection that is kept, still open and not too old.
    fn take(&mut self, now: Timestamp) -> Option<Line> {
        self.http2.retain(|shared| !shared.sender.is_closed());
        if let Some(shared) = self.http2.iter().max_by_key(|shared| shared.room())
            && (shared.has_room() || self.http2.len() >= MOST_HTTP2)
        {
            return Some(Line::Http2(shared.clone()));
        }
        self.sweep(now);
        // The last that came is the likeliest to be open still, and lets the others grow old.
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

    /// Closes those that were kept for too long; the oldest are in front.
    fn sweep(&mut self, now: Timestamp) {
        let is_old = |idle: &Idle| now.since(idle.since) > LONGEST_IDLE;
        if self.idle.first().is_some_and(is_old) {
            let old = self.idle.partition_point(is_old);
            self.idle.drain(..old);
        }
    }

    /// Keeps a connection of HTTP/2 for others, if there is room.
    fn share(&mut self, shared: &Shared) {
        if self.http2.len() < MOST_HTTP2 {
            self.http2.push(shared.clone());
        }
    }
}

impl Shared {
    /// How many streams may be opened beside those that are: as many as the upstream says that it takes.
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

    /// Takes a connection that is kept; says whether there was one.
    pub(super) fn take_kept(&mut self) -> bool {
        self.line = self.upstream.lane(self.lane).and_then(|mut lane| lane.take(super::now()));
        self.is_fresh = false;
        self.line.is_some()
    }

    /// Opens a connection.
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

    /// Sends a request; gives it back where nothing of it was sent.
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

    /// The answer is whole: the connection may serve others.
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
