//! A request and its answer, with an upstream that may be slow, gone or not there. What was sent is sent
//! again only where that cannot do anything twice: nothing of it had left, or it is safe to repeat, has no
//! body, and not a byte of an answer came. Then a connection that had been kept was too old, or another
//! upstream may have what this one has not.

use super::failure::Failure;
use super::proxy::Way;
use super::reply::Waiting;
use super::request_body::{RequestBody, Upload};
use super::unanswered::Unanswered;
use super::upstream::{Lease, Upstream};
use hivemind_core::Timestamp;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
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

/// An answer, what it is on, and how long the rest of it is waited for.
pub(super) type Answered = (Response<Incoming>, Lease, Waiting);

/// Sends a request to an upstream of its service, and waits for the head of its answer.
pub(super) async fn exchange(with: Exchange<'_>, request: Request<RequestBody>) -> Result<Answered, Failure> {
    let attempt = async |upstream, request| with.attempt(&upstream, request).await;
    let (response, lease) = try_each(with.way, request, attempt).await?;
    Ok((response, lease, with.rest()?))
}

/// What came of one attempt.
pub(super) enum Attempt<T, R> {
    Done(T),
    /// Nothing of it was sent: another upstream may have it.
    Unsent(R, Failure),
    Failed(Failure),
}

/// Tries upstreams of a service with a request, one after another, until one has it.
pub(super) async fn try_each<T, R>(
    way: &Way<'_>,
    mut request: R,
    attempt: impl AsyncFn(Arc<Upstream>, R) -> Attempt<T, R>,
) -> Result<T, Failure> {
    let mut tried = SmallVec::<[Arc<Upstream>; 1]>::new();
    let mut failure = Failure::UpstreamFailed;
    while tried.len() < MOST_TRIED
        && let Some(upstream) = way.service.choose(&way.visitor.desk.dice, &tried)
    {
        match attempt(Arc::clone(upstream), request).await {
            Attempt::Done(done) => return Ok(done),
            Attempt::Failed(failure) => return Err(failure),
            Attempt::Unsent(unsent, why) => (request, failure) = (unsent, why),
        }
        tried.push(Arc::clone(upstream));
    }
    Err(failure)
}

/// How long a request that came then may still take; none if there is no end to it.
pub(super) fn left(way: &Way<'_>, began: Option<Timestamp>) -> Result<Option<Duration>, Failure> {
    let (Some(total), Some(began)) = (way.service.timeouts.total, began) else { return Ok(None) };
    let left = total.saturating_sub(super::now().since(began));
    if left.is_zero() { Err(Failure::UpstreamTooSlow) } else { Ok(Some(left)) }
}

/// The shorter of a time-out and what is left of all.
pub(super) fn shorter(most: Duration, left: Option<Duration>) -> Duration {
    left.map_or(most, |left| left.min(most))
}

impl Exchange<'_> {
    async fn attempt(
        &self,
        upstream: &Arc<Upstream>,
        mut request: Request<RequestBody>,
    ) -> Attempt<(Response<Incoming>, Lease), Request<RequestBody>> {
        let mut lease = match upstream.lease(self.way.visitor.desk.lane) {
            Ok(lease) => lease,
            Err(failure) => return Attempt::Unsent(request, failure),
        };
        let mut may_be_kept = true;
        loop {
            if !(may_be_kept && lease.take_kept()) {
                let left = match left(self.way, self.began) {
                    Ok(left) => left,
                    Err(failure) => return Attempt::Failed(failure),
                };
                let most = shorter(self.way.service.timeouts.connect, left);
                if let Err(why) = lease.open(most).await {
                    upstream.leave_out(&why);
                    return Attempt::Unsent(request, why.failure());
                }
            }
            if let Err(failure) = self.way.address(&mut request, upstream, lease.is_http2()) {
                return Attempt::Failed(failure);
            }
            // A kept connection may fail by being old; of a new one only another upstream can do better.
            let is_last = lease.is_fresh() && self.way.service.has_one_upstream();
            let again = if is_last { None } else { copy(&request) };
            let failed = match self.wait_for(&mut lease, request).await {
                Ok(response) => return Attempt::Done((response, lease)),
                Err(Waited::Failed(unanswered)) => unanswered,
                Err(Waited::TooLong) => return Attempt::Failed(Failure::UpstreamTooSlow),
            };
            if let Some(failure) = self.upload.as_ref().and_then(|upload| upload.failure()) {
                return Attempt::Failed(failure);
            }
            let again = again.filter(|_| failed.may_be_repeated);
            request = match (failed.unsent.or(again), lease.is_fresh()) {
                (Some(request), false) => request,
                (Some(request), true) => return Attempt::Unsent(request, upstream.fails(&failed.why)),
                (None, _) => return Attempt::Failed(upstream.fails(&failed.why)),
            };
            may_be_kept = false;
        }
    }

    /// Waits for the head of an answer: so long from when all of the request is sent. Until then its body
    /// has its own patience with the client, and this has as much with an upstream that does not take it.
    async fn wait_for(
        &self,
        lease: &mut Lease,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Waited> {
        let timeouts = &self.way.service.timeouts;
        let mut sent = pin!(lease.send(request));
        let mut moves = None;
        loop {
            let left = left(self.way, self.began).map_err(|_| Waited::TooLong)?;
            let upload = self.upload.as_deref().filter(|upload| upload.is_under_way());
            let most = if upload.is_some() { timeouts.idle } else { timeouts.response };
            let most = shorter(most, left);
            let answered_or_whole = async {
                match upload {
                    None => Some((&mut sent).await),
                    Some(upload) => tokio::select! {
                        biased;
                        answered = &mut sent => Some(answered),
                        () = upload.ended() => None,
                    },
                }
            };
            match (timeout(most, answered_or_whole).await, upload) {
                (Ok(Some(answered)), _) => return answered.map_err(Waited::Failed),
                (Ok(None), _) => {}
                (Err(_), Some(upload)) if upload.waits_for_client() => {}
                (Err(_), Some(upload)) if moves != Some(upload.moves()) => moves = Some(upload.moves()),
                (Err(_), _) => return Err(Waited::TooLong),
            }
        }
    }

    /// How long the rest of an answer is waited for, now that it has begun.
    fn rest(&self) -> Result<Waiting, Failure> {
        let upload = self.upload.clone();
        if let Some(upload) = &upload {
            upload.may_trickle();
        }
        Ok(Waiting { idle: self.way.service.timeouts.idle, left: left(self.way, self.began)?, upload })
    }
}

#[expect(
    clippy::large_enum_variant,
    reason = "it is on the stack for a moment; a box would cost every request"
)]
enum Waited {
    Failed(Unanswered),
    TooLong,
}

/// Whether both sides talk at once, as over gRPC: then a body may have little to say, for long. That of gRPC-Web is
/// another kind, and says all at once.
pub(super) fn is_conversation(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
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
