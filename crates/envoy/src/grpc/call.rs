//! One call: collects its message, and answers `ShouldRateLimit` immediately. A decision that has to wait, an
//! incomplete message and every other method leave this fast path; they wait with a deadline and delay no other call.

use super::activity::Activity;
use super::api_key::{ApiKeyCheck, VerifiedKey};
use super::body::GrpcBody;
use super::deadline;
use super::message::{self, PREFIX, UnaryMessage};
use super::wait::CallWait;
use crate::rls::{CallError, RateLimitService};
use bytes::{Bytes, BytesMut};
use hivemind_core::Timestamp;
use hivemind_core::store::Store;
use hivemind_telemetry::Frontend;
use hivemind_telemetry::trace::DecisionSpan;
use hivemind_tls::access::{AccessGrant, ApiKeys};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower_service::Service;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
/// A header may be one byte on the wire and a hundred in memory, so their number is limited in addition to their
/// size.
const MAX_HEADERS: usize = 128;
/// Responses share memory blocks of this size, so that few of them allocate.
const RESPONSE_BLOCK: usize = 16 << 10;

/// State that all calls of one thread share.
pub(super) struct GrpcWorker<S> {
    service: RateLimitService<S>,
    routes: Routes,
    /// `None` accepts calls without a key.
    keys: Option<Arc<ApiKeys>>,
    timeout: Duration,
    scratch: RefCell<Vec<u8>>,
    response_buffer: RefCell<BytesMut>,
}

impl<S: Store> GrpcWorker<S> {
    pub(super) fn new(
        service: RateLimitService<S>,
        routes: Routes,
        keys: Option<Arc<ApiKeys>>,
        timeout: Duration,
    ) -> Self {
        let response_buffer = RefCell::new(BytesMut::with_capacity(RESPONSE_BLOCK));
        Self { service, routes, keys, timeout, scratch: RefCell::default(), response_buffer }
    }

    /// The framed response to a message; `None` if its decision has to wait.
    fn try_respond(
        &self,
        message: &[u8],
        grant: Option<&AccessGrant>,
        span: Option<&mut DecisionSpan>,
    ) -> Option<Result<Bytes, CallError>> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        scratch.extend_from_slice(&[0; PREFIX]);
        let result = self.service.try_should_rate_limit(message, grant, span, &mut scratch)?;
        Some(result.map(|()| {
            frame(&mut scratch);
            let mut response_buffer = self.response_buffer.borrow_mut();
            response_buffer.extend_from_slice(&scratch);
            // Do not keep the memory of one large response.
            scratch.shrink_to(RESPONSE_BLOCK);
            response_buffer.split().freeze()
        }))
    }

    async fn respond(
        self: Rc<Self>,
        (message, headers): (UnaryMessage, HeaderMap),
        key: Option<Rc<VerifiedKey>>,
        deadline: Timestamp,
        mut span: Option<DecisionSpan>,
    ) -> Result<Bytes, Status> {
        let mut out = vec![0; PREFIX];
        let message = message.read(&headers)?;
        let grant = grant(key.as_ref());
        let result = self
            .service
            .should_rate_limit(message, (grant, Frontend::Grpc), Some(deadline), span.as_mut(), &mut out)
            .await;
        end_span(span, result.map_err(|error| status(&error)))?;
        frame(&mut out);
        Ok(out.into())
    }
}

/// Ends the trace of a call.
#[inline]
fn end_span<T>(span: Option<DecisionSpan>, result: Result<T, Status>) -> Result<T, Status> {
    if let Some(mut span) = span {
        span.record_grpc_status(result.as_ref().err().map_or(Code::Ok, Status::code));
    }
    result
}

fn grant(key: Option<&Rc<VerifiedKey>>) -> Option<&AccessGrant> {
    key.map(|key| &*key.grant)
}

/// Writes the message length into the frame prefix.
fn frame(out: &mut [u8]) {
    let length = u32::try_from(out.len() - PREFIX).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(1..PREFIX) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

fn status(error: &CallError) -> Status {
    let text = error.to_string();
    match error {
        CallError::Malformed => Status::internal(text),
        CallError::DomainNotAllowed => Status::permission_denied(text),
        _ => Status::invalid_argument(text),
    }
}

/// Answers the calls of one connection.
pub(super) struct CallService<S> {
    pub(super) worker: Rc<GrpcWorker<S>>,
    pub(super) activity: Rc<Activity>,
    pub(super) key_check: ApiKeyCheck,
}

impl<S: Store + 'static> hyper::service::Service<Request<Incoming>> for CallService<S> {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = Call<S>;

    fn call(&self, request: Request<Incoming>) -> Call<S> {
        self.activity.record_call();
        if request.headers().len() > MAX_HEADERS {
            return self.new_call(CallState::Rejected(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        let worker = &self.worker;
        let admitted = match &worker.keys {
            None => Ok(None),
            Some(keys) => self.key_check.admit(keys, request.uri().path(), request.headers()),
        };
        let key = match admitted {
            Ok(key) => {
                if key.is_some() {
                    self.activity.record_authenticated();
                }
                key
            }
            Err(why) => {
                worker.service.0.stats().access.unauthenticated.fetch_add(1, Ordering::Relaxed);
                return self.new_call(CallState::Unauthenticated(why));
            }
        };
        if request.uri().path() != SHOULD_RATE_LIMIT {
            // tonic handles all other methods.
            let grpc_timeout = request.headers().get(deadline::HEADER).cloned();
            let headers = grpc_timeout.map(|value| (deadline::HEADER, value)).into_iter().collect();
            let mut tonic = worker.routes.clone();
            // Called when first polled, where a panic ends the call and not the connection.
            let routed = Box::pin(async move { tonic.call(request).await });
            return Call { headers, key, ..self.new_call(CallState::Routed(routed)) };
        }
        let (Parts { method, headers, .. }, body) = request.into_parts();
        if let Some(code) = http_error(&method, &headers) {
            return Call { headers, key, ..self.new_call(CallState::Rejected(code)) };
        }
        // The trace starts here, because the headers of a waiting call are dropped.
        let span = worker.service.sample(&headers, Frontend::Grpc);
        Call {
            headers,
            key,
            span,
            ..self.new_call(CallState::Reading { body, message: UnaryMessage::default() })
        }
    }
}

impl<S> CallService<S> {
    /// A call with only a state.
    fn new_call(&self, state: CallState) -> Call<S> {
        let (worker, activity) = (Rc::clone(&self.worker), Rc::clone(&self.activity));
        Call { worker, activity, headers: HeaderMap::new(), key: None, wait: None, span: None, state }
    }
}

/// The HTTP error of a call, if it has one.
fn http_error(method: &Method, headers: &HeaderMap) -> Option<StatusCode> {
    if method != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content_type = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    match content_type.split_at_checked(GRPC.len()) {
        Some((grpc, [] | [b'+' | b';', ..])) if grpc.eq_ignore_ascii_case(GRPC.as_bytes()) => None,
        _ => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

pub(super) struct Call<S> {
    worker: Rc<GrpcWorker<S>>,
    activity: Rc<Activity>,
    headers: HeaderMap,
    /// The caller's key, if keys are required.
    key: Option<Rc<VerifiedKey>>,
    /// Set when the call leaves the fast path.
    wait: Option<CallWait>,
    /// Set if the call is traced.
    span: Option<DecisionSpan>,
    state: CallState,
}

enum CallState {
    Reading {
        body: Incoming,
        message: UnaryMessage,
    },
    Deciding(Pin<Box<dyn Future<Output = Result<Bytes, Status>>>>),
    Routed(Pin<Box<dyn Future<Output = Result<Response<tonic::body::Body>, Infallible>>>>),
    Rejected(StatusCode),
    /// The caller's key is missing or unknown.
    Unauthenticated(&'static str),
}

impl<S: Store + 'static> Future for Call<S> {
    type Output = Result<Response<GrpcBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(response) = self.advance(cx) {
            return Poll::Ready(Ok(response));
        }
        let buffered = match &mut self.state {
            CallState::Reading { message, .. } => message.detach(),
            _ => 0,
        };
        let wait = self.wait();
        if let Err(status) = wait.set_buffered(buffered) {
            return Poll::Ready(Ok(self.end(status)));
        }
        if wait.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let timed_out = Status::deadline_exceeded("the call's deadline passed before it was answered");
        Poll::Ready(Ok(self.end(timed_out)))
    }
}

impl<S: Store + 'static> Call<S> {
    /// Its timeout starts when it first has to wait.
    fn wait(&mut self) -> &mut CallWait {
        let Self { worker, activity, headers, wait, .. } = self;
        wait.get_or_insert_with(|| {
            let time_limit = deadline::call_timeout(headers)
                .map_or(worker.timeout, |time_limit| time_limit.min(worker.timeout));
            // Headers are small on the wire and large in memory: a waiting call must not hold them.
            *headers = message::retained_headers(headers);
            CallWait::new(activity, time_limit)
        })
    }

    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Response<GrpcBody>> {
        loop {
            match &mut self.state {
                CallState::Reading { body, message } => match ready!(poll_message(body, message, cx)) {
                    Ok(()) => {
                        let message = std::mem::take(message);
                        if let Some(response) = self.decide(message) {
                            return Poll::Ready(response);
                        }
                    }
                    Err(status) => return Poll::Ready(self.end(status)),
                },
                CallState::Deciding(decision) => {
                    let result = ready!(decision.as_mut().poll(cx));
                    return Poll::Ready(self.respond(result));
                }
                CallState::Routed(routed) => {
                    self.activity.is_stream.set(true);
                    let Ok(response) = ready!(routed.as_mut().poll(cx));
                    return Poll::Ready(response.map(GrpcBody::Routed));
                }
                CallState::Rejected(code) => {
                    let mut response = Response::new(GrpcBody::default());
                    *response.status_mut() = *code;
                    return Poll::Ready(response);
                }
                CallState::Unauthenticated(why) => {
                    return Poll::Ready(Status::unauthenticated(*why).into_http());
                }
            }
        }
    }

    /// Ends the call without a decision.
    fn end(&mut self, status: Status) -> Response<GrpcBody> {
        // A cancelled call is not an error of ours, and tonic's methods are not decisions.
        if status.code() != Code::Cancelled && !matches!(self.state, CallState::Routed(_)) {
            self.worker.service.record_error(self.wait.as_ref().map(CallWait::elapsed).unwrap_or_default());
        }
        into_response(end_span(self.span.take(), Err(status)))
    }

    /// The response to a decision. A successful call authenticates its connection if keys are not required.
    fn respond(&self, result: Result<Bytes, Status>) -> Response<GrpcBody> {
        if result.is_ok() {
            self.activity.record_authenticated();
        }
        into_response(result)
    }

    /// Answers immediately, or starts to wait for the decision.
    fn decide(&mut self, message: UnaryMessage) -> Option<Response<GrpcBody>> {
        let outcome = match message.read(&self.headers) {
            // A panic in one decision must not end the other calls.
            Ok(bytes) => {
                let (grant, span) = (grant(self.key.as_ref()), self.span.as_mut());
                catch_unwind(AssertUnwindSafe(|| self.worker.try_respond(bytes, grant, span)))
            }
            Err(status) => return Some(self.end(status)),
        };
        match outcome {
            Ok(Some(result)) => {
                let result = end_span(self.span.take(), result.map_err(|error| status(&error)));
                Some(self.respond(result))
            }
            Ok(None) => {
                let deadline = self.wait().deadline;
                let input = (message, std::mem::take(&mut self.headers));
                let (key, span) = (self.key.take(), self.span.take());
                let decision = Rc::clone(&self.worker).respond(input, key, deadline, span);
                self.state = CallState::Deciding(Box::pin(decision));
                None
            }
            Err(_) => {
                tracing::error!("a decision panicked; its caller receives INTERNAL");
                Some(self.end(Status::internal("the decision panicked; the log contains the location")))
            }
        }
    }
}

fn into_response(result: Result<Bytes, Status>) -> Response<GrpcBody> {
    match result {
        Ok(message) => {
            let mut response = Response::new(GrpcBody::Message(message));
            response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
            response
        }
        Err(status) => status.into_http(),
    }
}

/// Reads the available part of a message; ready when it is complete or invalid.
fn poll_message(
    body: &mut Incoming,
    message: &mut UnaryMessage,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Status>> {
    while !body.is_end_stream() {
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                // Request trailers are ignored.
                if let Ok(piece) = frame.into_data() {
                    message.add(piece)?;
                }
            }
            Some(Err(error)) => return Poll::Ready(Err(Status::cancelled(error.to_string()))),
            None => break,
        }
    }
    Poll::Ready(Ok(()))
}
