//! Response future of a limited service.
//!
//! In the common case, a store that decides immediately and a ready service, it allocates nothing. Otherwise it
//! is a boxed future.

use crate::decision::Decision;
use crate::response_body::ResponseBody;
use http::Response;
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub(crate) type ServiceResult<B, E> = Result<Response<ResponseBody<B>>, E>;
pub(crate) type ResponseBoxFuture<B, E> = Pin<Box<dyn Future<Output = ServiceResult<B, E>> + Send>>;

pin_project! {
    /// The response future of a limited service.
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
    /// let response: ResponseFuture<_, &str, Infallible> = ready.call(Request::new(()));
    /// assert_eq!(runtime.block_on(response)?.status(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, B, E> {
        #[pin]
        state: ResponseState<F, B, E>,
    }
}

pin_project! {
    #[project = ResponseStateProjection]
    enum ResponseState<F, B, E> {
        Passed { #[pin] inner: F, decision: Option<Decision> },
        Refused { response: Option<Response<ResponseBody<B>>> },
        Boxed { future: ResponseBoxFuture<B, E> },
    }
}

impl<F, B, E> ResponseFuture<F, B, E> {
    pub(crate) fn passed(inner: F, decision: Option<Decision>) -> Self {
        Self { state: ResponseState::Passed { inner, decision } }
    }

    pub(crate) fn refused(response: Response<ResponseBody<B>>) -> Self {
        Self { state: ResponseState::Refused { response: Some(response) } }
    }

    pub(crate) fn boxed(future: ResponseBoxFuture<B, E>) -> Self {
        Self { state: ResponseState::Boxed { future } }
    }
}

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for ResponseFuture<F, B, E> {
    type Output = ServiceResult<B, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            ResponseStateProjection::Passed { inner, decision } => {
                let response = ready!(inner.poll(cx))?;
                Poll::Ready(Ok(with_limit_headers(response, decision.as_ref())))
            }
            ResponseStateProjection::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending, // Polled after completion, which the contract of `Future` forbids.
            },
            ResponseStateProjection::Boxed { future } => future.as_mut().poll(cx),
        }
    }
}

/// The service's response, with the decision in its headers.
pub(crate) fn with_limit_headers<B>(
    response: Response<B>,
    decision: Option<&Decision>,
) -> Response<ResponseBody<B>> {
    let mut response = response.map(ResponseBody::inner);
    if let Some(decision) = decision {
        decision.write_headers(response.headers_mut());
    }
    response
}
