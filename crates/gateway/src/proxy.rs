//! The request path of the gateway: route, limit, forward, respond.

use super::access_log::AccessLogLine;
use super::context::ClientConnection;
use super::exchange::{Exchange, exchange, is_conversation};
use super::failure::Failure;
use super::framing::{is_chunked_alone, normalize_content_length, relay};
use super::request_body::RequestBody;
use super::request_context::RequestContext;
use super::response_body::{Content, ResponseContent, UpstreamBody};
use super::routing::RoutedService;
use super::target::Target;
use super::trace_events::{enter, record_decision};
use super::unread_body::{BodyDrain, RecoverableBody};
use super::upgrade;
use hivemind_telemetry::Frontend;
use hivemind_telemetry::trace::{DecisionSpan, SpanStage};
use hivemind_tower::{Admission, AdmittedRequest};
use http::header::{CONNECTION, EXPECT, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Answers a request; failures become error responses.
pub(super) async fn answer(
    connection: Rc<ClientConnection>,
    request: Request<Incoming>,
) -> Result<Response<ResponseContent>, Infallible> {
    let (parts, body) = request.into_parts();
    let active = connection.activity.begin_request(!body.is_end_stream());
    let is_http2 = parts.version == Version::HTTP_2;
    let (body, remainder) =
        if is_http2 { RecoverableBody::of_http2(body) } else { RecoverableBody::new(body) };
    let expects_continue = parts.headers.contains_key(EXPECT);
    let mut must_close = false;
    let log = connection.worker.gateway.log.as_ref();
    let mut line = log.map(|log| log.begin(&parts, connection.origin.address));
    let mut idle = None;
    let tracer = connection.worker.gateway.tracer.as_ref();
    let mut span = tracer.and_then(|tracer| tracer.start_span(&parts.headers, Frontend::Gateway));
    let mut response = match admit(&connection, &parts, line.as_mut(), span.as_mut()).await {
        Err(failure) => {
            must_close = !failure.keeps_connection();
            drop(body);
            failure.response().map(Content::own)
        }
        Ok(AdmissionResult::Refused(response)) => {
            drop(body);
            response
        }
        Ok(AdmissionResult::Passed(service, target, pass)) => {
            idle = is_http2.then_some(service.timeouts.idle);
            let (host, span) = (target.host.as_ref(), span.as_ref());
            let context =
                RequestContext { connection: &connection, service: &service, host, pass: &pass, span };
            let mut response = match forward(&context, parts, body, line.as_mut()).await {
                Ok(response) => response,
                Err(failure) => {
                    must_close = !failure.keeps_connection() || remainder.is_in_use();
                    failure.response().map(Content::own)
                }
            };
            pass.write_headers(response.headers_mut());
            response
        }
    };
    // HTTP/2 uses GOAWAY.
    if !is_http2 && connection.worker.gateway.requests_reconnect.load(Ordering::Relaxed) {
        close_after(&mut response);
    }
    // Boxed, because most requests leave nothing.
    if remainder.is_tracked()
        && let Some(rest) =
            Box::pin(remainder.settle(response.headers_mut(), expects_continue, must_close)).await
    {
        drain(&connection, rest);
    }
    if let Some(line) = &mut line {
        line.record_status(response.status());
    }
    if let Some(span) = &mut span {
        span.record_http_status(response.status());
    }
    Ok(response.map(|content| ResponseContent::new(content, line, active, idle)))
}

/// Reads the rest of a request body after its response.
fn drain(connection: &ClientConnection, rest: BodyDrain) {
    // The connection is about to end, and then reads on for a while by itself.
    if rest.is_closing() {
        return;
    }
    let activity = Rc::clone(&connection.activity);
    tokio::task::spawn_local(async move {
        let Some(rest) = rest.ready().await else { return };
        // Until the body ends, the connection is not idle, and its bytes are not a head.
        let active = activity.begin_request(true);
        rest.run().await;
        drop(active);
    });
}

/// Closes the connection after this response, unless the protocol is switched.
fn close_after(response: &mut Response<Content>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

#[expect(clippy::large_enum_variant, reason = "short-lived; a box would allocate for every request")]
enum AdmissionResult {
    Refused(Response<Content>),
    Passed(Arc<RoutedService>, Target, AdmittedRequest),
}

/// Finds the service of a request, and asks the limiter.
async fn admit(
    connection: &ClientConnection,
    parts: &Parts,
    mut line: Option<&mut AccessLogLine>,
    mut span: Option<&mut DecisionSpan>,
) -> Result<AdmissionResult, Failure> {
    if let Some(span) = &mut span {
        span.set_method(&parts.method);
        span.enter(SpanStage::Resolve);
    }
    if parts.method == Method::CONNECT {
        return Err(Failure::NotSupported);
    }
    // `post` does not match limits for POST, but applications that normalize the case would treat it as POST.
    if parts.method.as_str().bytes().any(|letter| letter.is_ascii_lowercase()) {
        return Err(Failure::BadMethod);
    }
    // With HTTP/1.1 hyper has checked the number; with HTTP/2 it only checks the total size.
    if parts.headers.len() > connection.worker.gateway.max_headers {
        return Err(Failure::HeadTooLarge);
    }
    if parts.headers.contains_key(TRANSFER_ENCODING) && !is_chunked_alone(&parts.headers) {
        return Err(Failure::NotSupported);
    }
    let target = Target::of(parts)?;
    let service = {
        let table = connection.worker.gateway.table.load();
        Arc::clone(table.find(target.name(), parts.uri.path())?)
    };
    if let Some(line) = &mut line {
        line.record_service(service.gate.service(), target.host.as_ref());
    }
    let note = |stage| enter(&mut span, stage);
    let counting = &connection.worker.gateway.counting;
    let from = counting.begin();
    let passage = service.gate.admit_with_observer(parts, Some(connection.origin.address), note).await;
    if let Some(span) = span {
        record_decision(span, &service.gate, &passage);
    }
    counting.count(&passage, from);
    match passage {
        Admission::Admitted(pass) => {
            connection.worker.gateway.decisions.log_gateway(pass.decision());
            if let Some(line) = line {
                line.record_decision(pass.decision());
            }
            Ok(AdmissionResult::Passed(service, target, pass))
        }
        Admission::Refused(decision, answer) => {
            connection.worker.gateway.decisions.log_gateway(decision.as_ref());
            if let Some(line) = line {
                line.record_decision(decision.as_ref());
            }
            Ok(AdmissionResult::Refused(answer.map(Content::own)))
        }
        // For future variants of hivemind-tower.
        _ => Err(Failure::UpstreamBusy),
    }
}

/// Sends an admitted request to its service, and returns the response.
async fn forward(
    context: &RequestContext<'_>,
    mut parts: Parts,
    body: RecoverableBody,
    line: Option<&mut AccessLogLine>,
) -> Result<Response<Content>, Failure> {
    let service = context.service;
    // The guard decides what a WebSocket is, so that limiter and gateway agree. Without a guard nothing is
    // counted, and the request is forwarded without its upgrade headers.
    if let Some(guard) = context.pass.guard() {
        // Boxed, because it is rare, and connections reserve memory for everything unboxed.
        return Box::pin(upgrade::open(context, guard, parts, line)).await;
    }
    // Admitted only to receive a close frame, so anything else is refused.
    if context.pass.decision().is_some_and(|decision| !decision.is_allowed()) {
        return Err(Failure::OverLimit);
    }
    let timeouts = &service.timeouts;
    let is_conversation = is_conversation(&parts.headers);
    let (body, upload) = RequestBody::of(body, service.max_body, timeouts.idle, is_conversation)?;
    context.prepare(&mut parts);
    normalize_content_length(&mut parts.headers);
    let request = Request::from_parts(parts, body);
    let with = Exchange { context, upload, began: timeouts.total.map(|_| super::now()) };
    let (response, slot, waiting) = exchange(with, request).await?;
    if let Some(line) = line {
        line.record_upstream(&slot.upstream().authority);
    }
    let upstream = Arc::clone(slot.upstream());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // The upgrade was not requested.
        return Err(upstream.fails(&"it switched protocols without an upgrade request"));
    }
    let (mut head, body) = response.into_parts();
    let outcome = relay(head.status, &mut head.headers);
    outcome.map_err(|_| upstream.fails(&"the length of its response is ambiguous"))?;
    head.version = Version::HTTP_11;
    let body = UpstreamBody::begun(body, slot, waiting).await;
    let body = body.map_err(|error| upstream.fails(&error))?;
    Ok(Response::from_parts(head, Content::UpstreamBody(body)))
}
