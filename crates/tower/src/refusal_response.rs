//! Refusal responses: 429 as a problem document, text or your own, `RESOURCE_EXHAUSTED` for gRPC, and 503.

use crate::accept::prefers_text;
use crate::decision::Decision;
use crate::header_format::Headers;
use crate::policy::{Placeholder, number};
use crate::problem;
use crate::retry_after::RetryAfter;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, Version};
use std::sync::Arc;

type CustomBody = Arc<dyn Fn(&Decision) -> Response<Bytes> + Send + Sync>;

/// The body of a refusal.
#[derive(Clone, Default)]
pub(crate) enum RefusalBody {
    #[default]
    Problem,
    Text,
    Custom(CustomBody),
}

impl RefusalBody {
    /// The response to a refused request.
    pub(crate) fn refusal(&self, request: &Parts, decision: &Decision) -> Response<Bytes> {
        let mut response = if is_grpc(request) {
            grpc_refusal(decision)
        } else {
            match self {
                Self::Custom(custom) => custom(decision),
                Self::Problem if !prefers_text(&request.headers) => {
                    let reset = decision.has_window().then(|| decision.reset());
                    let body = problem::body(reset, decision);
                    let wait = decision.retry_after().filter(|_| reset.is_some());
                    let headers = decision.state().headers.headers;
                    if let (Headers::Both, Some(RetryAfter::Seconds(wait))) = (headers, wait) {
                        return default_refusal(decision, wait.get(), body);
                    }
                    too_many_requests("application/problem+json", body)
                }
                Self::Problem | Self::Text => text_refusal(),
            }
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(RetryAfter::Seconds(seconds)) = decision.retry_after() {
            headers.insert(RETRY_AFTER, number(seconds.get()));
        }
        decision.write_headers(headers);
        response
    }
}

/// The default refusal: a problem document with both header families. Its headers are a copy of the policy's
/// template with the decision's values filled in: no name is hashed, and the copy has no spare room, which is
/// expensive once it exceeds what malloc caches.
fn default_refusal(decision: &Decision, wait: u64, body: Bytes) -> Response<Bytes> {
    let (policy, verdict) = (&decision.bucket().policy, decision.verdict());
    let mut headers = policy.refusal.clone();
    for value in headers.values_mut() {
        *value = match value.as_bytes() {
            Placeholder::CONTENT_LENGTH => number(body.len() as u64),
            Placeholder::RETRY_AFTER => number(wait),
            Placeholder::RATELIMIT => policy.ratelimit(verdict.remaining, verdict.reset_after),
            Placeholder::REMAINING => number(verdict.remaining),
            Placeholder::RESET => number(decision.reset()),
            _ => continue,
        };
    }
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    *response.headers_mut() = headers;
    response
}

/// 503: no decision could be made and the limiter fails closed. It is not a 429, because the client did not
/// necessarily exceed a limit.
pub(crate) fn unavailable() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(b"Service Unavailable"));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn too_many_requests(content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    // Room for all headers at once: growing the map costs more than everything else here.
    response.headers_mut().reserve(12);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn text_refusal() -> Response<Bytes> {
    too_many_requests("text/plain; charset=utf-8", Bytes::from_static(b"Too Many Requests"))
}

/// `RESOURCE_EXHAUSTED` in a trailers-only response: gRPC clients would treat a 429 as an outage.
fn grpc_refusal(decision: &Decision) -> Response<Bytes> {
    let mut response = too_many_requests("application/grpc", Bytes::new());
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static("8"));
    let message = decision.retry_after().map(|wait| wait.to_string()).unwrap_or_default();
    if let Ok(message) = HeaderValue::from_str(&message) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    response
}

/// Whether it is a gRPC call: POST over HTTP/2 with its content type. The content type alone does not count,
/// so other requests that send it get the normal 429.
fn is_grpc(request: &Parts) -> bool {
    let is_call = request.method == Method::POST && request.version == Version::HTTP_2;
    let content_type = request.headers.get(CONTENT_TYPE).filter(|_| is_call);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}
