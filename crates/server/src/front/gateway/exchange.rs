//! A request and its answer, with an upstream that may be slow, gone or not there. What was sent is sent
//! again only where that cannot do anything twice: nothing of it had left, or it is safe to repeat, has no
//! body, and went over a connection that had been kept for too long.

use super::failure::Failure;
use super::proxy::Way;
use super::request_body::{RequestBody, Upload};
use super::upstream::{Lease, Upstream};
use hivemind_core::Timestamp;
use http::{Request, Response};
use hyper::body::Incoming;
use smallvec::SmallVec;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Upstreams that are tried for one request. More would hold a client for longer than it waits.
const MOST_TRIED: usize = 3;

/// What is to be known of a request beside itself.
pub(super) struct Exchange<'a> {
    pub(super) way: &'a Way<'a>,
    pub(super) upload: Option<Arc<Upload>>,
    /// When it came, if there is an end to how long it may take.
    pub(super) began: Option<Timestamp>,
}

/// An answer, what it is on, and how long the rest of it may take.
pub(super) type Answered = (Response<Incoming>, Lease, Option<Duration>);

/// Sends a request to an upstream of its service, and waits for the head of its answer.
pub(super) async fn exchange(
    with: Exchange<'_>,
    mut request: Request<RequestBody>,
) -> Result<Answered, Failure> {
    let (service, desk) = (with.way.service, &with.way.visitor.desk);
    let mut tried = SmallVec::<[Arc<Upstream>; 1]>::new();
    let mut failure = Failure::UpstreamFailed;
    while tried.len() < MOST_TRIED
        && let Some(upstream) = service.choose(&desk.dice, &tried)
    {
        let upstream = Arc::clone(upstream);
        match with.attempt(&upstream, desk.lane, request).await {
            Attempt::Answered(response, lease) => return Ok((response, lease, with.left()?)),
            Attempt::Failed(failure) => return Err(failure),
            Attempt::Unsent(unsent, why) => {
                (request, failure) = (unsent, why);
            }
        }
        tried.push(upstream);
    }
    Err(failure)
}

enum Attempt {
    Answered(Response<Incoming>, Lease),
    /// Nothing of it was sent: another upstream may have it.
    Unsent(Request<RequestBody>, Failure),
    Failed(Failure),
}

impl Exchange<'_> {
    async fn attempt(
        &self,
        upstream: &Arc<Upstream>,
        lane: usize,
        mut request: Request<RequestBody>,
    ) -> Attempt {
        let mut lease = match upstream.lease(lane) {
            Ok(lease) => lease,
            Err(failure) => return Attempt::Unsent(request, failure),
        };
        let mut may_be_kept = true;
        loop {
            if !(may_be_kept && lease.take_kept()) {
                let opened = lease.open(self.way.service.timeouts.connect).await;
                if let Err(why) = opened {
                    upstream.leave_out(&why);
                    return Attempt::Unsent(request, why.failure());
                }
            }
            self.way.address(&mut request, upstream, lease.is_http2());
            // Only a kept connection fails by being old; and only then is there something to repeat.
            let again = if lease.is_fresh() { None } else { copy(&request) };
            let failed = match self.wait_for(&mut lease, request).await {
                Ok(response) => return Attempt::Answered(response, lease),
                Err(Waited::Failed(unsent)) => unsent,
                Err(Waited::TooLong) => return Attempt::Failed(Failure::UpstreamTooSlow),
            };
            if let Some(failure) = self.upload.as_ref().and_then(|upload| upload.failure()) {
                return Attempt::Failed(failure);
            }
            request = match (failed.or(again), lease.is_fresh()) {
                (Some(request), false) => request,
                (Some(request), true) => return Attempt::Unsent(request, Failure::UpstreamFailed),
                (None, _) => return Attempt::Failed(Failure::UpstreamFailed),
            };
            may_be_kept = false;
        }
    }

    /// Waits for the head of an answer: so long from when the request is sent, and while its body goes on.
    async fn wait_for(
        &self,
        lease: &mut Lease,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Waited> {
        let mut sent = pin!(lease.send(request));
        let mut moves = 0;
        loop {
            let most = self.way.service.timeouts.response;
            let left = self.left().map_err(|_| Waited::TooLong)?;
            let most = left.map_or(most, |left| left.min(most));
            if let Ok(answered) = timeout(most, &mut sent).await {
                return answered.map_err(Waited::Failed);
            }
            let upload = self.upload.as_ref().filter(|upload| !upload.is_whole());
            let now = upload.map_or(moves, |upload| upload.moves());
            if now == moves {
                return Err(Waited::TooLong);
            }
            moves = now;
        }
    }

    /// How long it may still take; none if there is no end to it.
    fn left(&self) -> Result<Option<Duration>, Failure> {
        let (Some(total), Some(began)) = (self.way.service.timeouts.total, self.began) else {
            return Ok(None);
        };
        let left = total.saturating_sub(super::now().since(began));
        if left.is_zero() { Err(Failure::UpstreamTooSlow) } else { Ok(Some(left)) }
    }
}

#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack for a moment; a box would cost every request"
)]
enum Waited {
    Failed(Option<Request<RequestBody>>),
    TooLong,
}

/// The same request once more, if it may be sent twice.
fn copy(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let has_body = !http_body::Body::is_end_stream(request.body());
    if has_body || !request.method().is_idempotent() {
        return None;
    }
    let mut copy = Request::new(RequestBody::none());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}
