//! Redirects from plain HTTP to HTTPS with status 308, which keeps the method of a POST. The client's `Host`
//! is returned to it only if it is a valid host; every other request gets 400.

use crate::authority;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Time limit for the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a connection, which serves one response.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers one request with a redirect and closes. The caller limits the number of connections.
pub async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(io: IO, https_port: u16) {
    let service = service_fn(move |request: Request<_>| {
        let answer = answer(request.method(), request.uri(), request.headers(), https_port);
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(io), service);
    match tokio::time::timeout(PATIENCE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "no redirect"),
        Err(_) => tracing::debug!("no redirect: the client took too long"),
    }
}

fn answer(method: &Method, uri: &Uri, headers: &HeaderMap, https_port: u16) -> Response<Full<Bytes>> {
    let location = location(method, uri, headers, https_port);
    let (status, text) = match location {
        Some(_) => (StatusCode::PERMANENT_REDIRECT, "This is served over HTTPS only.\n"),
        None => (
            StatusCode::BAD_REQUEST,
            "This is served over HTTPS only, at a host that the request has to name.\n",
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response.headers_mut().extend(location.map(|location| (LOCATION, location)));
    response
}

/// The same URL over HTTPS; `None` without a valid one.
fn location(method: &Method, uri: &Uri, headers: &HeaderMap, https_port: u16) -> Option<HeaderValue> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    if hosts.next().is_some() || method == Method::CONNECT {
        return None;
    }
    // The authority of an absolute target has precedence (RFC 9112, 3.2.2).
    let host = authority::host(uri.authority().map_or(host, |authority| authority.as_str()))?;
    // `*` is a valid target, and appended to the host it would change the host.
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path } else { return None };
    let location = match https_port {
        443 => format!("https://{host}{path}"),
        port => format!("https://{host}:{port}{path}"),
    };
    HeaderValue::try_from(location).ok()
}
