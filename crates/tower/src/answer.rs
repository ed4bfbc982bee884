//! What the client gets: the two families of headers, and an answer of few bytes for
//! who is refused. All of it that does not depend on the decision was made when the
//! limit was; a refusal must cost no more than a pass.

use crate::accept::prefers_text;
use crate::bucket::LimitKind;
use crate::decision::Decision;
use crate::problem;
use crate::retry_after::RetryAfter;
use bytes::Bytes;
use hivemind_core::Timestamp;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Which headers tell a client of its limit.
///
/// ```
/// use hivemind_tower::{Headers, Limits, Admission, RateLimiter};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::builder(Limits::new()).headers(Headers::Ietf).build()?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
/// let mut told = http::HeaderMap::new();
/// pass.write_headers(&mut told);
/// assert_eq!(told["ratelimit-policy"], r#""default";q=100;w=60"#);
/// assert_eq!(told["ratelimit"], r#""default";r=99;t=1"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Headers {
    /// `RateLimit-Policy` and `RateLimit`, as the draft of the IETF has them.
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    X,
    /// Both families.
    #[default]
    Both,
    /// None; `Retry-After` is still told.
    Off,
}

const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_DRY_RUN: HeaderName = HeaderName::from_static("x-ratelimit-dry-run");

type Custom = Arc<dyn Fn(&Decision) -> Response<Bytes> + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) enum RefusalBody {
    #[default]
    Problem,
    Text,
    Custom(Custom),
}

/// How clients are answered.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    pub(crate) headers: Headers,
    pub(crate) reset_is_delta: bool,
    pub(crate) body: RefusalBody,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl Answers {
    /// Tells in the headers of an answer what was decided.
    pub(crate) fn tell(&self, headers: &mut HeaderMap, decision: &Decision) {
        if !has_window(decision) {
            return;
        }
        let (policy, verdict) = (&decision.bucket().policy, decision.verdict());
        // Growing the map one by one costs more than filling it; but room for one more than is told would
        // double it where axum's `Content-Length` is in it already, which costs more than all of this.
        headers.reserve(match self.headers {
            Headers::Both => 5,
            Headers::X => 3,
            Headers::Ietf => 2,
            Headers::Off => 0,
        });
        if matches!(self.headers, Headers::Ietf | Headers::Both) {
            headers.insert(RATELIMIT_POLICY, policy.header.clone());
            let left = (verdict.remaining, whole_seconds(verdict.reset_after));
            headers.insert(RATELIMIT, service_limit(&policy.start, left));
        }
        if matches!(self.headers, Headers::X | Headers::Both) {
            headers.insert(X_LIMIT, policy.limit.clone());
            headers.insert(X_REMAINING, number(verdict.remaining));
            headers.insert(X_RESET, number(self.reset(decision)));
        }
        if decision.is_dry_run_refusal() {
            headers.insert(X_DRY_RUN, HeaderValue::from_static("refused"));
        }
    }

    /// The number of `X-RateLimit-Reset`: seconds of the epoch, or from now.
    pub(crate) fn reset(&self, decision: &Decision) -> u64 {
        let after = decision.verdict().reset_after;
        if self.reset_is_delta {
            return whole_seconds(after);
        }
        whole_seconds(decision.at().saturating_add(after).since(Timestamp::EPOCH))
    }

    /// The answer to a request that is refused.
    pub(crate) fn refusal(&self, request: &Parts, decision: &Decision) -> Response<Bytes> {
        let mut response = if is_grpc(request) {
            grpc_refusal(decision)
        } else {
            match &self.body {
                RefusalBody::Custom(custom) => custom(decision),
                RefusalBody::Problem if !prefers_text(&request.headers) => {
                    let reset = has_window(decision).then(|| self.reset(decision));
                    let body = problem::body(reset, decision);
                    let wait = decision.retry_after().filter(|_| reset.is_some());
                    if let (Headers::Both, Some(RetryAfter::Seconds(wait))) = (self.headers, wait) {
                        return self.usual_refusal(decision, wait.get(), body);
                    }
                    answer("application/problem+json", body)
                }
                RefusalBody::Problem | RefusalBody::Text => text_refusal(),
            }
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(RetryAfter::Seconds(seconds)) = decision.retry_after() {
            headers.insert(RETRY_AFTER, number(seconds.get()));
        }
        self.tell(headers, decision);
        response
    }
}

/// Whether the limit has a window and a reset to tell of: how many are open at once has none.
fn has_window(decision: &Decision) -> bool {
    decision.kind() != LimitKind::WsOpen
}

/// Where a decision's values go in the headers of the usual refusal: no other value is one letter.
const LENGTH: &[u8] = b"n";
const WAIT: &[u8] = b"w";
const LEFT: &[u8] = b"l";
const REMAINING: &[u8] = b"r";
const RESET: &[u8] = b"t";

/// The headers of the usual refusal by one limit, made when the limit is.
pub(crate) fn usual_headers(policy: &HeaderValue, limit: &HeaderValue) -> HeaderMap {
    let mark = |mark| HeaderValue::from_bytes(mark).unwrap_or_else(|_| HeaderValue::from_static(""));
    [
        (CONTENT_TYPE, HeaderValue::from_static("application/problem+json")),
        // Told here because axum would add it, and growing the map costs as much as copying it.
        (CONTENT_LENGTH, mark(LENGTH)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (RETRY_AFTER, mark(WAIT)),
        (RATELIMIT_POLICY, policy.clone()),
        (RATELIMIT, mark(LEFT)),
        (X_LIMIT, limit.clone()),
        (X_REMAINING, mark(REMAINING)),
        (X_RESET, mark(RESET)),
    ]
    .into_iter()
    .collect()
}

impl Answers {
    /// The usual refusal: a problem, with both families of headers. They are a copy of those made
    /// before, with the decision's values put in: no name is hashed, and the copy has no room to spare,
    /// which is dear beyond what malloc caches.
    fn usual_refusal(&self, decision: &Decision, wait: u64, body: Bytes) -> Response<Bytes> {
        let (policy, verdict) = (&decision.bucket().policy, decision.verdict());
        let mut headers = policy.refusal.clone();
        for value in headers.values_mut() {
            *value = match value.as_bytes() {
                LENGTH => number(body.len() as u64),
                WAIT => number(wait),
                LEFT => service_limit(&policy.start, (verdict.remaining, whole_seconds(verdict.reset_after))),
                REMAINING => number(verdict.remaining),
                RESET => number(self.reset(decision)),
                _ => continue,
            };
        }
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        *response.headers_mut() = headers;
        response
    }
}

/// The answer where no decision could be made and the limiter fails closed: no refusal, since
/// nothing says that the client did too much.
pub(crate) fn undecided() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(b"Service Unavailable"));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(crate) fn answer(content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    // Room for all headers at once: growing a map costs more than the rest of it.
    response.headers_mut().reserve(12);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn text_refusal() -> Response<Bytes> {
    answer("text/plain; charset=utf-8", Bytes::from_static(b"Too Many Requests"))
}

/// gRPC knows no 429: its clients would take it for an outage. So they are answered in their own
/// tongue, by `RESOURCE_EXHAUSTED` in headers alone.
fn grpc_refusal(decision: &Decision) -> Response<Bytes> {
    let mut response = answer("application/grpc", Bytes::new());
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static("8"));
    let message = decision.retry_after().map(|wait| wait.to_string()).unwrap_or_default();
    if let Ok(message) = HeaderValue::from_str(&message) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    response
}

/// Whether it is a call of gRPC, which is always so: who only says so by a header is told 429 as all are.
fn is_grpc(request: &Parts) -> bool {
    let is_call = request.method == Method::POST && request.version == Version::HTTP_2;
    let content_type = request.headers.get(CONTENT_TYPE).filter(|_| is_call);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

fn whole_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

fn number(value: u64) -> HeaderValue {
    ascii(itoa::Buffer::new().format(value).as_bytes())
}

/// `"api";r=99;t=1`
fn service_limit(start: &str, (remaining, reset): (u64, u64)) -> HeaderValue {
    let mut digits = itoa::Buffer::new();
    let mut text = SmallVec::<[u8; 128]>::new();
    text.extend_from_slice(start.as_bytes());
    text.extend_from_slice(digits.format(remaining).as_bytes());
    text.extend_from_slice(b";t=");
    text.extend_from_slice(digits.format(reset).as_bytes());
    ascii(&text)
}

/// Names are ASCII and numbers are, so this cannot fail; without the value nothing is untrue.
fn ascii(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
