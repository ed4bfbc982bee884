//! The answer to come. The usual way, a store that answers at once and a service that
//! is ready, allocates nothing here; who has to wait for something waits in a box.

use crate::decision::Decision;
use crate::response_body::ResponseBody;
use http::Response;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub(crate) type Answered<B, E> = Result<Response<ResponseBody<B>>, E>;
pub(crate) type Waiting<B, E> = Pin<Box<dyn Future<Output = Answered<B, E>> + Send>>;

pin_project! {
    /// The answer of a service behind a rate limit.
    ///
    /// ```
    /// use hivemind_tower::{Limits, RateLimitLayer, response::ResponseFuture};
    /// use http::{Request, Response};
    /// use std::convert::Infallible;
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let hello = service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new("hello")) });
    /// let mut limited = RateLimitLayer::new(Limits::new())?.layer(hello);
    /// let ready = runtime.block_on(limited.ready())?;
    /// let answer: ResponseFuture<_, &str, Infallible> = ready.call(Request::new(()));
    /// assert_eq!(runtime.block_on(answer)?.status(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "an answer comes only to who awaits it"]
    pub struct ResponseFuture<F, B, E> {
        #[pin]
        state: State<F, B, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B, E> {
        Passed { #[pin] inner: F, decision: Option<Decision> },
        Refused { response: Option<Response<ResponseBody<B>>> },
        Waiting { waiting: Waiting<B, E> },
    }
}

impl<F, B, E> ResponseFuture<F, B, E> {
    pub(crate) fn passed(inner: F, decision: Option<Decision>) -> Self {
        Self { state: State::Passed { inner, decision } }
    }

    pub(crate) fn refused(response: Response<ResponseBody<B>>) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }

    pub(crate) fn waiting(waiting: Waiting<B, E>) -> Self {
        Self { state: State::Waiting { waiting } }
    }
}

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for ResponseFuture<F, B, E> {
    type Output = Answered<B, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Passed { inner, decision } => {
                let response = ready!(inner.poll(cx))?;
                Poll::Ready(Ok(told(response, decision.as_ref())))
            }
            StateProjection::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending, // Asked again after its answer, which no caller may do.
            },
            StateProjection::Waiting { waiting } => waiting.as_mut().poll(cx),
        }
    }
}

/// The service's answer, with what was decided in its headers.
pub(crate) fn told<B>(response: Response<B>, decision: Option<&Decision>) -> Response<ResponseBody<B>> {
    let mut response = response.map(ResponseBody::inner);
    if let Some(decision) = decision {
        decision.shared().answers.tell(response.headers_mut(), decision);
    }
    response
}
