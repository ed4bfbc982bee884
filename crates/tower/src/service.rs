//! The service: it decides, and only then is the service behind it asked anything.
//!
//! It says that it is ready even while the one behind it is not: a refusal needs
//! nobody else, and a flood must not wait for the room that it is kept out of.

use crate::admission::{Asking, Conclusion};
use crate::answer;
use crate::backend::Deciding;
use crate::decision::Decision;
use crate::future::{Answered, ResponseFuture, Waiting, told};
use crate::limiter::RateLimiter;
use crate::response_body::ResponseBody;
use http::request::Parts;
use http::{Request, Response};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_service::Service;

/// A service behind a rate limit.
///
/// ```
/// use hivemind_tower::{Decision, Limits, RateLimit, RateLimitLayer};
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let left = service_fn(|request: Request<()>| async move {
///     let decision = request.extensions().get::<Decision>();
///     Ok::<_, std::convert::Infallible>(Response::new(decision.map(Decision::remaining)))
/// });
/// let limited: RateLimit<_> = RateLimitLayer::new(Limits::new())?.layer(left);
/// let answer = runtime.block_on(limited.oneshot(Request::new(())))?;
/// assert_eq!(answer.headers()["x-ratelimit-remaining"], "99");
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
    /// Not ready, whatever this one is: what made the service behind ready, like a place among so many, is
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
        let shared = &self.limiter.0;
        let (parts, body) = request.into_parts();
        let asked = match shared.ask(&shared.limits.load(), &self.service, &parts, || shared.peer(&parts)) {
            Asking::Store(asked) => asked,
            Asking::Nothing(None) => {
                return self.pass(Request::from_parts(parts, body), None, Duration::ZERO);
            }
            Asking::Nothing(guard) => {
                return self.settle(Conclusion::Passed { decision: None, guard }, parts, body);
            }
        };
        match shared.decide(&asked) {
            Deciding::Now(verdicts) => {
                let admission = shared.conclude(asked, Ok(verdicts), &parts);
                self.settle(admission, parts, body)
            }
            Deciding::Later(later) => {
                let (limiter, inner) = (self.limiter.clone(), self.unready());
                ResponseFuture::waiting(Box::pin(async move {
                    let verdicts = limiter.0.in_time(later).await;
                    let admission = limiter.0.conclude(asked, verdicts, &parts);
                    let (request, decision, delay) = match admission.settled(&limiter.0, parts, body) {
                        Settled::Request(request, decision, delay) => (request, decision, delay),
                        Settled::Answer(response) => return Ok(response),
                    };
                    limiter.0.pause(delay).await;
                    ask(inner, request, decision).await
                }))
            }
        }
    }
}

impl<S> RateLimit<S> {
    /// Acts on an admission that is there already.
    fn settle<B, R>(
        &mut self,
        admission: Conclusion,
        parts: Parts,
        body: B,
    ) -> ResponseFuture<S::Future, R, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
        S::Future: Send,
        B: Send + 'static,
    {
        match admission.settled(&self.limiter.0, parts, body) {
            Settled::Request(request, decision, delay) => self.pass(request, decision, delay),
            Settled::Answer(response) => ResponseFuture::refused(response),
        }
    }

    fn pass<B, R>(
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
        let is_held_back = !delay.is_zero();
        if self.is_ready && !is_held_back {
            self.is_ready = false;
            return ResponseFuture::passed(self.inner.call(request), decision);
        }
        let inner = if is_held_back { self.unready() } else { self.take() };
        let limiter = self.limiter.clone();
        let waiting: Waiting<R, S::Error> = Box::pin(async move {
            limiter.0.pause(delay).await;
            ask(inner, request, decision).await
        });
        ResponseFuture::waiting(waiting)
    }

    /// The service that was asked whether it is ready and is not yet, with a clone left in its place.
    fn take(&mut self) -> S
    where
        S: Clone,
    {
        let clone = self.inner.clone();
        std::mem::replace(&mut self.inner, clone)
    }

    /// A service that nobody has asked yet, for who has to wait for something else first. Nothing that was
    /// ready stays behind either: a place in the service is for who can use it now.
    fn unready(&mut self) -> S
    where
        S: Clone,
    {
        if std::mem::take(&mut self.is_ready) {
            self.inner = self.inner.clone();
        }
        self.inner.clone()
    }
}

/// Asks the service behind, when it is ready.
async fn ask<S, B, R>(mut inner: S, request: Request<B>, decision: Option<Decision>) -> Answered<R, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    std::future::poll_fn(|cx| inner.poll_ready(cx)).await?;
    let response = inner.call(request).await?;
    Ok(told(response, decision.as_ref()))
}

/// The request on its way, or the answer that it gets instead.
enum Settled<B, R> {
    Request(Request<B>, Option<Decision>, Duration),
    Answer(Response<ResponseBody<R>>),
}

impl Conclusion {
    /// The request on its way with its decision in its extensions and the time to hold it back, or
    /// the answer that it gets instead.
    fn settled<B, R>(self, shared: &crate::limiter::Shared, mut parts: Parts, body: B) -> Settled<B, R> {
        let (decision, guard) = match self {
            Self::Passed { decision, guard } => (decision, guard),
            Self::Refused(decision) => {
                let answer = shared.answers.refusal(&parts, &decision);
                return Settled::Answer(answer.map(ResponseBody::refusal));
            }
            Self::Undecided => return Settled::Answer(answer::undecided().map(ResponseBody::refusal)),
        };
        let delay = decision.as_ref().map_or(Duration::ZERO, Decision::delay);
        if let Some(decision) = &decision {
            parts.extensions.insert(decision.clone());
        }
        if let Some(guard) = guard {
            parts.extensions.insert(guard);
        }
        Settled::Request(Request::from_parts(parts, body), decision, delay)
    }
}
