//! The tower service: it decides first, and calls the inner service only for admitted requests.
//!
//! It is ready even while the inner service is not: a refusal does not need the inner service, and a flood must
//! not wait for the capacity that it is kept away from.

use crate::admission::{Conclusion, DecisionPlan};
use crate::backend::BackendReply;
use crate::decision::Decision;
use crate::future::{ResponseBoxFuture, ResponseFuture, ServiceResult, with_limit_headers};
use crate::limiter::{LimiterInner, RateLimiter};
use crate::refusal_response::unavailable;
use crate::response_body::ResponseBody;
use http::request::Parts;
use http::{Request, Response};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_service::Service;

/// A service with a rate limit in front of it.
///
/// ```
/// use hivemind_tower::{Decision, Limits, RateLimit, RateLimitLayer};
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let remaining = service_fn(|request: Request<()>| async move {
///     let decision = request.extensions().get::<Decision>();
///     Ok::<_, std::convert::Infallible>(Response::new(decision.map(Decision::remaining)))
/// });
/// let limited: RateLimit<_> = RateLimitLayer::new(Limits::new())?.layer(remaining);
/// let response = runtime.block_on(limited.oneshot(Request::new(())))?;
/// assert_eq!(response.headers()["x-ratelimit-remaining"], "99");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RateLimit<S> {
    inner: S,
    is_ready: bool,
    limiter: RateLimiter,
    service: Arc<str>,
}

impl<S> RateLimit<S> {
    pub(crate) fn new(inner: S, limiter: RateLimiter, service: Arc<str>) -> Self {
        Self { inner, is_ready: false, limiter, service }
    }
}

impl<S: Clone> Clone for RateLimit<S> {
    /// The clone is not ready: the readiness of the inner service, such as a permit of a concurrency limit, is
    /// not cloned with it.
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.limiter.clone(), Arc::clone(&self.service))
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if !self.is_ready
            && let Poll::Ready(ready) = self.inner.poll_ready(cx)
        {
            ready?;
            self.is_ready = true;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = &self.limiter.0;
        let (parts, body) = request.into_parts();
        let limits = || inner.state.limits.load();
        let pending = match inner.prepare(&limits(), &self.service, &parts, || inner.peer(&parts)) {
            DecisionPlan::Decide(pending) => pending,
            DecisionPlan::Skip(None) => {
                return self.forward(Request::from_parts(parts, body), None, Duration::ZERO);
            }
            DecisionPlan::Skip(guard) => {
                return self.settle(Conclusion::Passed { decision: None, guard }, parts, body);
            }
        };
        match inner.decide(&pending) {
            BackendReply::Ready(verdicts) => {
                let conclusion = inner.conclude(pending, Ok(verdicts), &parts);
                self.settle(conclusion, parts, body)
            }
            BackendReply::Pending(verdicts) => {
                let (limiter, service) = (self.limiter.clone(), self.unready_inner());
                ResponseFuture::boxed(Box::pin(async move {
                    let LimiterInner { state, .. } = &*limiter.0;
                    let verdicts = state.await_verdicts(verdicts).await;
                    let conclusion = limiter.0.conclude(pending, verdicts, &parts);
                    let (request, decision, delay) = match conclusion.disposition(&limiter.0, parts, body) {
                        Disposition::Forward(request, decision, delay) => (request, decision, delay),
                        Disposition::Respond(response) => return Ok(response),
                    };
                    state.pause(delay).await;
                    call_when_ready(service, request, decision).await
                }))
            }
        }
    }
}

impl<S> RateLimit<S> {
    /// Forwards the request, or responds to it, as concluded.
    fn settle<B, R>(
        &mut self,
        conclusion: Conclusion,
        parts: Parts,
        body: B,
    ) -> ResponseFuture<S::Future, R, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        B: Send + 'static,
    {
        match conclusion.disposition(&self.limiter.0, parts, body) {
            Disposition::Forward(request, decision, delay) => self.forward(request, decision, delay),
            Disposition::Respond(response) => ResponseFuture::refused(response),
        }
    }

    fn forward<B, R>(
        &mut self,
        request: Request<B>,
        decision: Option<Decision>,
        delay: Duration,
    ) -> ResponseFuture<S::Future, R, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        B: Send + 'static,
    {
        let is_delayed = !delay.is_zero();
        if self.is_ready && !is_delayed {
            self.is_ready = false;
            return ResponseFuture::passed(self.inner.call(request), decision);
        }
        let inner = if is_delayed { self.unready_inner() } else { self.take_inner() };
        let limiter = self.limiter.clone();
        let future: ResponseBoxFuture<R, S::Error> = Box::pin(async move {
            limiter.0.state.pause(delay).await;
            call_when_ready(inner, request, decision).await
        });
        ResponseFuture::boxed(future)
    }

    /// Takes the inner service that was polled for readiness, and leaves a clone.
    fn take_inner(&mut self) -> S
    where
        S: Clone,
    {
        let clone = self.inner.clone();
        std::mem::replace(&mut self.inner, clone)
    }

    /// A clone of the inner service that was never polled, for a request that first waits for something else.
    /// Readiness that was acquired already is dropped too: its capacity belongs to requests that can run now.
    fn unready_inner(&mut self) -> S
    where
        S: Clone,
    {
        if std::mem::take(&mut self.is_ready) {
            self.inner = self.inner.clone();
        }
        self.inner.clone()
    }
}

/// Calls the inner service once it is ready.
async fn call_when_ready<S, B, R>(
    mut inner: S,
    request: Request<B>,
    decision: Option<Decision>,
) -> ServiceResult<R, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    std::future::poll_fn(|cx| inner.poll_ready(cx)).await?;
    let response = inner.call(request).await?;
    Ok(with_limit_headers(response, decision.as_ref()))
}

/// What happens to a request after its conclusion.
enum Disposition<B, R> {
    /// The inner service gets it, after the delay.
    Forward(Request<B>, Option<Decision>, Duration),
    /// The client gets this response.
    Respond(Response<ResponseBody<R>>),
}

impl Conclusion {
    /// The request with its decision and its guard in its extensions, or the response to it.
    fn disposition<B, R>(self, limiter: &LimiterInner, mut parts: Parts, body: B) -> Disposition<B, R> {
        let (decision, guard) = match self {
            Self::Passed { decision, guard } => (decision, guard),
            Self::Refused(decision) => {
                let response = limiter.refusal_body.refusal(&parts, &decision);
                return Disposition::Respond(response.map(ResponseBody::refusal));
            }
            Self::Undecided => return Disposition::Respond(unavailable().map(ResponseBody::refusal)),
        };
        let delay = decision.as_ref().map_or(Duration::ZERO, Decision::delay);
        if let Some(decision) = &decision {
            parts.extensions.insert(decision.clone());
        }
        if let Some(guard) = guard {
            parts.extensions.insert(guard);
        }
        Disposition::Forward(Request::from_parts(parts, body), decision, delay)
    }
}
