//! Request exchange with an upstream that may be slow or unreachable. A request is retried only if that cannot take
//! effect twice: nothing of it was sent, or it is idempotent, has no body, and not a byte of a response arrived. Then
//! a kept connection was stale, or another upstream can serve it.

use super::failure::Failure;
use super::request_body::{RequestBody, Upload};
use super::request_context::RequestContext;
use super::response_body::ResponseTimeouts;
use super::send_failure::SendFailure;
use super::upstream::{Upstream, UpstreamSlot};
use hivemind_core::Timestamp;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use smallvec::SmallVec;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of upstreams per request: more would take longer than clients wait.
const MAX_TRIED: usize = 3;

/// The context of a request.
pub(super) struct Exchange<'a> {
    pub(super) context: &'a RequestContext<'a>,
    pub(super) upload: Option<Arc<Upload>>,
    /// Its arrival time, if the service has a total timeout.
    pub(super) began: Option<Timestamp>,
}

/// A response, the slot of its connection, and the timeouts for the rest.
pub(super) type Answered = (Response<Incoming>, UpstreamSlot, ResponseTimeouts);

/// Sends a request to an upstream of its service, and waits for the response head.
pub(super) async fn exchange(with: Exchange<'_>, request: Request<RequestBody>) -> Result<Answered, Failure> {
    let attempt = async |upstream, request| with.attempt(&upstream, request).await;
    let (response, slot) = try_each(with.context, request, attempt).await?;
    Ok((response, slot, with.rest()?))
}

/// The outcome of one attempt.
pub(super) enum AttemptResult<T, R> {
    Done(T),
    /// Nothing was sent: another upstream may get it.
    Unsent(R, Failure),
    Failed(Failure),
}

/// Tries the upstreams of a service in turn until one accepts the request.
pub(super) async fn try_each<T, R>(
    context: &RequestContext<'_>,
    mut request: R,
    attempt: impl AsyncFn(Arc<Upstream>, R) -> AttemptResult<T, R>,
) -> Result<T, Failure> {
    let mut tried = SmallVec::<[Arc<Upstream>; 1]>::new();
    let mut failure = Failure::UpstreamFailed;
    while tried.len() < MAX_TRIED
        && let Some(upstream) = context.service.choose(&context.connection.worker.random, &tried)
    {
        match attempt(Arc::clone(upstream), request).await {
            AttemptResult::Done(done) => return Ok(done),
            AttemptResult::Failed(failure) => return Err(failure),
            AttemptResult::Unsent(unsent, why) => (request, failure) = (unsent, why),
        }
        tried.push(Arc::clone(upstream));
    }
    Err(failure)
}

/// The time left for a request that arrived then; `None` without a total timeout.
pub(super) fn left(
    context: &RequestContext<'_>,
    began: Option<Timestamp>,
) -> Result<Option<Duration>, Failure> {
    let (Some(total), Some(began)) = (context.service.timeouts.total, began) else { return Ok(None) };
    let left = total.saturating_sub(super::now().since(began));
    if left.is_zero() { Err(Failure::UpstreamTooSlow) } else { Ok(Some(left)) }
}

/// The shorter of a timeout and the time left.
pub(super) fn shorter(most: Duration, left: Option<Duration>) -> Duration {
    left.map_or(most, |left| left.min(most))
}

impl Exchange<'_> {
    async fn attempt(
        &self,
        upstream: &Arc<Upstream>,
        mut request: Request<RequestBody>,
    ) -> AttemptResult<(Response<Incoming>, UpstreamSlot), Request<RequestBody>> {
        let mut slot = match upstream.slot(self.context.connection.worker.index) {
            Ok(slot) => slot,
            Err(failure) => return AttemptResult::Unsent(request, failure),
        };
        let mut may_be_pooled = true;
        loop {
            if !(may_be_pooled && slot.take_pooled()) {
                let left = match left(self.context, self.began) {
                    Ok(left) => left,
                    Err(failure) => return AttemptResult::Failed(failure),
                };
                let most = shorter(self.context.service.timeouts.connect, left);
                if let Err(why) = slot.open(most).await {
                    upstream.record_unreachable(&why);
                    return AttemptResult::Unsent(request, why.failure());
                }
            }
            if let Err(failure) = self.context.address(&mut request, upstream, slot.is_http2()) {
                return AttemptResult::Failed(failure);
            }
            // A kept connection may fail because it is stale; after a failure on a new one only another upstream can
            // help.
            let is_last = slot.is_fresh() && self.context.service.has_one_upstream();
            let again = if is_last { None } else { copy(&request) };
            let failed = match self.wait_for(&mut slot, request).await {
                Ok(response) => return AttemptResult::Done((response, slot)),
                Err(WaitError::Failed(unanswered)) => unanswered,
                Err(WaitError::TooLong) => return AttemptResult::Failed(Failure::UpstreamTooSlow),
            };
            if let Some(failure) = self.upload.as_ref().and_then(|upload| upload.failure()) {
                return AttemptResult::Failed(failure);
            }
            let again = again.filter(|_| failed.may_be_repeated);
            request = match (failed.unsent.or(again), slot.is_fresh()) {
                (Some(request), false) => request,
                (Some(request), true) => return AttemptResult::Unsent(request, upstream.fails(&failed.why)),
                (None, _) => return AttemptResult::Failed(upstream.fails(&failed.why)),
            };
            may_be_pooled = false;
        }
    }

    /// Waits for the response head, with a timeout that starts when the request is completely sent. Until then the
    /// body has its own timeout for the client, and this has one for an upstream that does not read it.
    async fn wait_for(
        &self,
        slot: &mut UpstreamSlot,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, WaitError> {
        let timeouts = &self.context.service.timeouts;
        let mut sent = pin!(slot.send(request));
        let mut moves = None;
        loop {
            let left = left(self.context, self.began).map_err(|_| WaitError::TooLong)?;
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
                (Ok(Some(answered)), _) => return answered.map_err(WaitError::Failed),
                (Ok(None), _) => {}
                (Err(_), Some(upload)) if upload.waits_for_client() => {}
                (Err(_), Some(upload)) if moves != Some(upload.moves()) => moves = Some(upload.moves()),
                (Err(_), _) => return Err(WaitError::TooLong),
            }
        }
    }

    /// The timeouts for the rest of a response that has begun.
    fn rest(&self) -> Result<ResponseTimeouts, Failure> {
        let upload = self.upload.clone();
        if let Some(upload) = &upload {
            upload.may_trickle();
        }
        Ok(ResponseTimeouts {
            idle: self.context.service.timeouts.idle,
            left: left(self.context, self.began)?,
            upload,
        })
    }
}

#[expect(
    clippy::large_enum_variant,
    reason = "short-lived on the stack; a box would allocate for every request"
)]
enum WaitError {
    Failed(SendFailure),
    TooLong,
}

/// Whether both sides may send at any time, as in gRPC: then a body may be silent for long. gRPC-Web is excluded,
/// because it sends its body at once.
pub(super) fn is_conversation(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// A copy of the request, if it may be sent twice.
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
