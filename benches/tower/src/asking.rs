//! Requests to a service: prepared, as a server passes them, and polled on this thread until the response is
//! complete. Preparing requests is not measured; dropping them is, because a service consumes them.

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use hivemind_benches::rounds::Contender;
use hivemind_benches::watch::thread_cpu;
use std::convert::Infallible;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tower::{Service, ServiceExt};

/// Requests prepared before the clock starts: few enough to stay in the cache, as a request that a server just
/// read, and enough to make clock reads cheap.
const BATCH: usize = 128;
/// Requests in one turn: a few milliseconds.
pub const TURN: usize = 40 * BATCH;

/// Sends one request to a clone of the service, as hyper-util does.
pub fn ask<S, B>(service: &S, request: Request<Body>) -> Response<B>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    let mut answer = pin!(service.clone().oneshot(request));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(Ok(response)) = answer.as_mut().poll(&mut context) {
            return response;
        }
    }
}

/// A contender that must respond to all these requests with `status`.
///
/// # Panics
/// If it does not, because the measurement would be wrong.
pub fn asked<'a, S, B>(
    name: &str,
    service: S,
    status: StatusCode,
    mut request: impl FnMut() -> Request<Body> + 'a,
) -> Contender<'a>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + 'a,
{
    Contender::new(name, move |_| {
        let (mut taken, mut as_expected) = (Duration::ZERO, 0);
        let mut batch = Vec::with_capacity(BATCH);
        for _ in 0..TURN / BATCH {
            batch.extend(std::iter::repeat_with(&mut request).take(BATCH));
            let before = thread_cpu();
            for request in batch.drain(..) {
                as_expected += usize::from(black_box(ask(&service, request)).status() == status);
            }
            taken += thread_cpu().saturating_sub(before);
        }
        assert_eq!(as_expected, TURN, "not every response was {status}");
        taken.as_nanos() as f64 / TURN as f64
    })
}

/// The request that curl would send, from this address.
#[must_use]
pub fn request_from(address: Ipv4Addr) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = axum::http::Uri::from_static("/hello");
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_static("example.org"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("curl/8.5.0"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    let peer = SocketAddr::from((address, 40_000));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

/// The usual request, of the one client.
#[must_use]
pub fn request() -> Request<Body> {
    request_from(Ipv4Addr::new(203, 0, 113, 9))
}

/// The same with a token of 43 characters, 256 bits of base64.
#[must_use]
pub fn request_with_token() -> Request<Body> {
    let mut request = request();
    let token = HeaderValue::from_static("Bearer V2hhdCBpcyBtZWFzdXJlZCBpcyBub3QgdG9sZC4-Pz8");
    request.headers_mut().insert(header::AUTHORIZATION, token);
    request
}
