//! An upstream, and the connections to it that are kept. Each thread has its own: none is ever handed from
//! core to core, and the lock around them is only ever taken by their own thread.

use super::dial::{Dialler, Fresh, NoLine};
use super::failure::Failure;
use super::request_body::RequestBody;
use crate::config::gateway as settings;
use hivemind_core::{Clock, SystemClock, Timestamp};
use http::header::HeaderValue;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections that each thread keeps for later, for each upstream. More would be idle more often than not.
const MOST_IDLE: usize = 64;
/// How long one is kept: less than most servers keep theirs, so that few are found closed.
const LONGEST_IDLE: Duration = Duration::from_secs(50);
/// Requests under way at one upstream. Over HTTP/1.1 each has a connection, and there are 28,000 ports
/// to connect from; an upstream that is that far behind is not helped by more.
const MOST_UNDER_WAY: usize = 8_192;
/// How long an upstream that could not be reached is left out, as long as there are others.
const LEFT_OUT: Duration = Duration::from_secs(1);

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
}

/// What one thread keeps.
#[derive(Default)]
struct Lane {
    idle: Vec<Idle>,
    http2: Option<http2::SendRequest<RequestBody>>,
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
    Http2(http2::SendRequest<RequestBody>),
}

impl Upstream {
    pub(super) fn new(address: Address, lanes: usize) -> Result<Self, super::dial::DialError> {
        let of = &address.upstream;
        let host = if of.host.contains(':') { format!("[{}]", of.host) } else { of.host.clone() };
        let is_usual = of.port == if of.is_tls { 443 } else { 80 };
        let authority = if is_usual { host } else { format!("{host}:{}", of.port) };
        let authority = HeaderValue::from_str(&authority).unwrap_or_else(|_| HeaderValue::from_static(""));
        Ok(Self {
            dialler: Dialler::new(&address)?,
            address,
            authority,
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            under_way: AtomicUsize::new(0),
            left_out_until: AtomicU64::new(0),
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
        let until = SystemClock.now().saturating_add(LEFT_OUT);
        if self.left_out_until.swap(until.as_nanos(), Ordering::Relaxed) == 0 {
            let authority = self.authority.to_str().unwrap_or_default();
            tracing::warn!("the upstream {authority} cannot be reached: {why}");
        }
    }

    fn is_reached(&self) {
        if self.left_out_until.load(Ordering::Relaxed) != 0 {
            self.left_out_until.store(0, Ordering::Relaxed);
            tracing::info!("the upstream {} is reached again", self.authority.to_str().unwrap_or_default());
        }
    }

    pub(super) const fn dialler(&self) -> &Dialler {
        &self.dialler
    }

    /// A place for one more request.
    pub(super) fn lease(self: &Arc<Self>, lane: usize) -> Result<Lease, Failure> {
        // The lease puts it back, also where there was no place.
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let lease = Lease { upstream: Arc::clone(self), lane, line: None, is_fresh: false };
        if before < MOST_UNDER_WAY { Ok(lease) } else { Err(Failure::UpstreamBusy) }
    }

    fn lane(&self, lane: usize) -> Option<MutexGuard<'_, Lane>> {
        Some(self.lanes.get(lane)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lane {
    /// A connection that is kept and still open.
    fn take(&mut self) -> Option<Line> {
        if let Some(sender) = &self.http2 {
            if !sender.is_closed() {
                return Some(Line::Http2(sender.clone()));
            }
            self.http2 = None;
        }
        // The last that came is the likeliest to be open still, and lets the others grow old.
        while let Some(idle) = self.idle.pop() {
            if idle.sender.is_ready() {
                return Some(Line::Http1(idle.sender));
            }
        }
        None
    }

    fn put(&mut self, sender: http1::SendRequest<RequestBody>) {
        let since = SystemClock.now();
        // The oldest are in front; one look for each that is put keeps them from piling up.
        if self.idle.first().is_some_and(|oldest| since.since(oldest.since) > LONGEST_IDLE)
            || self.idle.len() >= MOST_IDLE
        {
            self.idle.remove(0);
        }
        self.idle.push(Idle { sender, since });
    }
}

impl Lease {
    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Takes a connection that is kept; says whether there was one.
    pub(super) fn take_kept(&mut self) -> bool {
        self.line = self.upstream.lane(self.lane).and_then(|mut lane| lane.take());
        self.is_fresh = false;
        self.line.is_some()
    }

    /// Opens a connection.
    pub(super) async fn open(&mut self, most: Duration) -> Result<(), NoLine> {
        self.is_fresh = true;
        let fresh = self.upstream.dialler.dial(most).await?;
        self.upstream.is_reached();
        match fresh {
            Fresh::Http1(sender) => self.line = Some(Line::Http1(sender)),
            Fresh::Http2(sender) => {
                if let Some(mut lane) = self.upstream.lane(self.lane) {
                    lane.http2 = Some(sender.clone());
                }
                self.line = Some(Line::Http2(sender));
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
    ) -> Result<Response<Incoming>, Option<Request<RequestBody>>> {
        let unsent = |mut error: TrySendError<Request<RequestBody>>| {
            let message = error.take_message();
            tracing::debug!("an upstream did not answer: {}", error.into_error());
            message
        };
        match &mut self.line {
            Some(Line::Http1(sender)) => sender.try_send_request(request).await.map_err(unsent),
            Some(Line::Http2(sender)) => sender.try_send_request(request).await.map_err(unsent),
            None => Err(Some(request)),
        }
    }

    /// The answer is whole: the connection may serve others.
    pub(super) fn give_back(&mut self) {
        if let Some(Line::Http1(sender)) = self.line.take()
            && !sender.is_closed()
            && let Some(mut lane) = self.upstream.lane(self.lane)
        {
            lane.put(sender);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.upstream.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
