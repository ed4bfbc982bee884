//! One call: collects its message, and answers `ShouldRateLimit` immediately. A decision that has to wait, an
//! incomplete message and every other method leave this fast path; they wait with a deadline and delay no other call.

use super::activity::Activity;
use super::body::Body;
use super::deadline;
use super::gate::{Gate, Known};
use super::message::{self, Message, PREFIX};
use super::waits::Waits;
use crate::front::rls::{CallError, RateLimitService};
use bytes::{Bytes, BytesMut};
use hivemind_core::Timestamp;
use hivemind_core::store::Store;
use hivemind_telemetry::Frontend;
use hivemind_telemetry::trace::DecisionSpan;
use hivemind_tls::access::{ApiKeys, Grant};
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
const MOST_HEADERS: usize = 128;
/// Responses share memory blocks of this size, so that few of them allocate.
const ANSWERS: usize = 16 << 10;

/// State that all calls of one thread share.
pub(super) struct Desk<S> {
    service: RateLimitService<S>,
    routes: Routes,
    /// `None` accepts calls without a key.
    keys: Option<Arc<ApiKeys>>,
    timeout: Duration,
    scratch: RefCell<Vec<u8>>,
    answers: RefCell<BytesMut>,
}

impl<S: Store> Desk<S> {
    pub(super) fn new(
        service: RateLimitService<S>,
        routes: Routes,
        keys: Option<Arc<ApiKeys>>,
        timeout: Duration,
    ) -> Self {
        let answers = RefCell::new(BytesMut::with_capacity(ANSWERS));
        Self { service, routes, keys, timeout, scratch: RefCell::default(), answers }
    }

    /// The framed response to a message; `None` if its decision has to wait.
    fn answer_at_once(
        &self,
        message: &[u8],
        grant: Option<&Grant>,
        span: Option<&mut DecisionSpan>,
    ) -> Option<Result<Bytes, CallError>> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        scratch.extend_from_slice(&[0; PREFIX]);
        let answered = self.service.answer_at_once(message, grant, span, &mut scratch)?;
        Some(answered.map(|()| {
            frame(&mut scratch);
            let mut answers = self.answers.borrow_mut();
            answers.extend_from_slice(&scratch);
            // Do not keep the memory of one large response.
            scratch.shrink_to(ANSWERS);
            answers.split().freeze()
        }))
    }

    async fn answer(
        self: Rc<Self>,
        (message, headers): (Message, HeaderMap),
        known: Option<Rc<Known>>,
        deadline: Timestamp,
        mut span: Option<DecisionSpan>,
    ) -> Result<Bytes, Status> {
        let mut out = vec![0; PREFIX];
        let message = message.read(&headers)?;
        let grant = grant(known.as_ref());
        let answered = self
            .service
            .answer(message, (grant, Frontend::Grpc), Some(deadline), span.as_mut(), &mut out)
            .await;
        record_status(span, answered.map_err(|error| status(&error)))?;
        frame(&mut out);
        Ok(out.into())
    }
}

/// Ends the trace of a call.
#[inline]
fn record_status<T>(span: Option<DecisionSpan>, answered: Result<T, Status>) -> Result<T, Status> {
    if let Some(mut span) = span {
        span.record_grpc_status(answered.as_ref().err().map_or(Code::Ok, Status::code));
    }
    answered
}

fn grant(known: Option<&Rc<Known>>) -> Option<&Grant> {
    known.map(|known| &*known.grant)
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
        CallError::NotItsDomain => Status::permission_denied(text),
        _ => Status::invalid_argument(text),
    }
}

/// Answers the calls of one connection.
pub(super) struct Calls<S> {
    pub(super) desk: Rc<Desk<S>>,
    pub(super) activity: Rc<Activity>,
    pub(super) gate: Gate,
}

impl<S: Store + 'static> hyper::service::Service<Request<Incoming>> for Calls<S> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Call<S>;

    fn call(&self, request: Request<Incoming>) -> Call<S> {
        self.activity.call_begun();
        if request.headers().len() > MOST_HEADERS {
            return self.begin(State::Refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        let desk = &self.desk;
        let admitted = match &desk.keys {
            None => Ok(None),
            Some(keys) => self.gate.admit(keys, request.uri().path(), request.headers()),
        };
        let known = match admitted {
            Ok(known) => known,
            Err(why) => {
                desk.service.0.stats().access.unauthenticated.fetch_add(1, Ordering::Relaxed);
                return self.begin(State::Unknown(why));
            }
        };
        if request.uri().path() != SHOULD_RATE_LIMIT {
            // tonic handles all other methods.
            let granted = request.headers().get(deadline::HEADER).cloned();
            let headers = granted.map(|value| (deadline::HEADER, value)).into_iter().collect();
            let mut tonic = desk.routes.clone();
            // Called when first polled, where a panic ends the call and not the connection.
            let routed = Box::pin(async move { tonic.call(request).await });
            return Call { headers, known, ..self.begin(State::Routed(routed)) };
        }
        let (Parts { method, headers, .. }, body) = request.into_parts();
        if let Some(code) = unacceptable(&method, &headers) {
            return Call { headers, known, ..self.begin(State::Refused(code)) };
        }
        // The trace starts here, because the headers of a waiting call are dropped.
        let span = desk.service.follow(&headers, Frontend::Grpc);
        Call { headers, known, span, ..self.begin(State::Reading { body, message: Message::default() }) }
    }
}

impl<S> Calls<S> {
    /// A call with only a state.
    fn begin(&self, state: State) -> Call<S> {
        let (desk, activity) = (Rc::clone(&self.desk), Rc::clone(&self.activity));
        Call { desk, activity, headers: HeaderMap::new(), known: None, waits: None, span: None, state }
    }
}

/// The HTTP error of a call, if it has one.
fn unacceptable(method: &Method, headers: &HeaderMap) -> Option<StatusCode> {
    if method != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    match kind.split_at_checked(GRPC.len()) {
        Some((grpc, [] | [b'+' | b';', ..])) if grpc.eq_ignore_ascii_case(GRPC.as_bytes()) => None,
        _ => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

pub(super) struct Call<S> {
    desk: Rc<Desk<S>>,
    activity: Rc<Activity>,
    headers: HeaderMap,
    /// The caller's key, if keys are required.
    known: Option<Rc<Known>>,
    /// Set when the call leaves the fast path.
    waits: Option<Waits>,
    /// Set if the call is traced.
    span: Option<DecisionSpan>,
    state: State,
}

enum State {
    Reading {
        body: Incoming,
        message: Message,
    },
    Deciding(Pin<Box<dyn Future<Output = Result<Bytes, Status>>>>),
    Routed(Pin<Box<dyn Future<Output = Result<Response<tonic::body::Body>, Infallible>>>>),
    Refused(StatusCode),
    /// The caller's key is missing or unknown.
    Unknown(&'static str),
}

impl<S: Store + 'static> Future for Call<S> {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(response) = self.advance(cx) {
            return Poll::Ready(Ok(response));
        }
        let held = match &mut self.state {
            State::Reading { message, .. } => message.hold(),
            _ => 0,
        };
        let waits = self.waits();
        if let Err(status) = waits.gather(held) {
            return Poll::Ready(Ok(self.end(status)));
        }
        if waits.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let late = Status::deadline_exceeded("the call's deadline passed before it was answered");
        Poll::Ready(Ok(self.end(late)))
    }
}

impl<S: Store + 'static> Call<S> {
    /// Its timeout starts when it first has to wait.
    fn waits(&mut self) -> &mut Waits {
        let Self { desk, activity, headers, waits, .. } = self;
        waits.get_or_insert_with(|| {
            let granted =
                deadline::granted(headers).map_or(desk.timeout, |granted| granted.min(desk.timeout));
            // Headers are small on the wire and large in memory: a waiting call must not hold them.
            *headers = message::still_to_read(headers);
            Waits::new(activity, granted)
        })
    }

    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Response<Body>> {
        loop {
            match &mut self.state {
                State::Reading { body, message } => match ready!(read(body, message, cx)) {
                    Ok(()) => {
                        let message = std::mem::take(message);
                        if let Some(response) = self.answer(message) {
                            return Poll::Ready(response);
                        }
                    }
                    Err(status) => return Poll::Ready(self.end(status)),
                },
                State::Deciding(decision) => return decision.as_mut().poll(cx).map(respond),
                State::Routed(routed) => {
                    self.activity.is_stream.set(true);
                    let Ok(response) = ready!(routed.as_mut().poll(cx));
                    return Poll::Ready(response.map(Body::Routed));
                }
                State::Refused(code) => {
                    let mut response = Response::new(Body::default());
                    *response.status_mut() = *code;
                    return Poll::Ready(response);
                }
                State::Unknown(why) => return Poll::Ready(Status::unauthenticated(*why).into_http()),
            }
        }
    }

    /// Ends the call without a decision.
    fn end(&mut self, status: Status) -> Response<Body> {
        // A cancelled call is not an error of ours, and tonic's methods are not decisions.
        if status.code() != Code::Cancelled && !matches!(self.state, State::Routed(_)) {
            self.desk.service.has_failed(self.waits.as_ref().map(Waits::until_now).unwrap_or_default());
        }
        respond(record_status(self.span.take(), Err(status)))
    }

    /// Answers immediately, or starts to wait for the decision.
    fn answer(&mut self, message: Message) -> Option<Response<Body>> {
        let at_once = match message.read(&self.headers) {
            // A panic in one decision must not end the other calls.
            Ok(bytes) => {
                let (grant, span) = (grant(self.known.as_ref()), self.span.as_mut());
                catch_unwind(AssertUnwindSafe(|| self.desk.answer_at_once(bytes, grant, span)))
            }
            Err(status) => return Some(self.end(status)),
        };
        match at_once {
            Ok(Some(answered)) => {
                Some(respond(record_status(self.span.take(), answered.map_err(|error| status(&error)))))
            }
            Ok(None) => {
                let deadline = self.waits().deadline;
                let asked = (message, std::mem::take(&mut self.headers));
                let (known, span) = (self.known.take(), self.span.take());
                let decision = Rc::clone(&self.desk).answer(asked, known, deadline, span);
                self.state = State::Deciding(Box::pin(decision));
                None
            }
            Err(_) => {
                tracing::error!("a decision panicked; its caller receives INTERNAL");
                Some(self.end(Status::internal("the decision panicked; the log contains the location")))
            }
        }
    }
}

fn respond(answered: Result<Bytes, Status>) -> Response<Body> {
    match answered {
        Ok(message) => {
            let mut response = Response::new(Body::Message(message));
            response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
            response
        }
        Err(status) => status.into_http(),
    }
}

/// Reads the available part of a message; ready when it is complete or invalid.
fn read(body: &mut Incoming, message: &mut Message, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
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
