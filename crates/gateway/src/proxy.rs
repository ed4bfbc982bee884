//! The request path of the gateway: route, limit, forward, respond.

use super::access_log::Line;
use super::exchange::{Exchange, exchange, is_conversation};
use super::failure::Failure;
use super::framing::{is_chunked_alone, relay, write_length_anew};
use super::hop_by_hop;
use super::reply::{Content, Relayed, Reply};
use super::request_body::RequestBody;
use super::route::{Host, Service};
use super::target::Target;
use super::traced::{enter, record_decision};
use super::upgrade;
use super::upstream::Upstream;
use super::visitor::Visitor;
use hivemind_telemetry::Frontend;
use hivemind_telemetry::trace::{DecisionSpan, SpanStage};
use hivemind_tower::{Admission, AdmittedRequest};
use http::header::{CONNECTION, COOKIE, EXPECT, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Answers a request; failures become error responses.
pub(super) async fn answer(
    visitor: Rc<Visitor>,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Infallible> {
    let (parts, body) = request.into_parts();
    let visit = visitor.presence.visit(!body.is_end_stream());
    // A connection with unread request bytes is closed: they could be parsed as a request.
    let is_http2 = parts.version == Version::HTTP_2;
    let is_unread = !body.is_end_stream() && !is_http2;
    let log = visitor.desk.shared.log.as_ref();
    let mut line = log.map(|log| log.begin(&parts, visitor.origin.address));
    let mut idle = None;
    let tracer = visitor.desk.shared.tracer.as_ref();
    let mut span = tracer.and_then(|tracer| tracer.start_span(&parts.headers, Frontend::Gateway));
    let mut response = match admit(&visitor, &parts, line.as_mut(), span.as_mut()).await {
        Err(failure) => failure.answer(is_unread),
        Ok(Admitted::Refused(response)) => response,
        Ok(Admitted::Passed(service, target, pass)) => {
            idle = is_http2.then_some(service.timeouts.idle);
            let (host, span) = (target.host.as_ref(), span.as_ref());
            let way = Way { visitor: &visitor, service: &service, host, pass: &pass, span };
            let mut response = match way.serve(parts, body, line.as_mut()).await {
                Ok(response) => response,
                Err(failure) => failure.answer(is_unread),
            };
            pass.write_headers(response.headers_mut());
            response
        }
    };
    // HTTP/2 uses GOAWAY.
    if !is_http2 && visitor.desk.shared.sees_off.load(Ordering::Relaxed) {
        see_off(&mut response);
    }
    if let Some(line) = &mut line {
        line.is_answered(response.status());
    }
    if let Some(span) = &mut span {
        span.record_http_status(response.status());
    }
    Ok(response.map(|content| Reply::new(content, line, visit, idle)))
}

/// Closes the connection after this response, unless the protocol is switched.
fn see_off(response: &mut Response<Content>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

#[expect(clippy::large_enum_variant, reason = "short-lived; a box would allocate for every request")]
enum Admitted {
    Refused(Response<Content>),
    Passed(Arc<Service>, Target, AdmittedRequest),
}

/// Finds the service of a request, and asks the limiter.
async fn admit(
    visitor: &Visitor,
    parts: &Parts,
    mut line: Option<&mut Line>,
    mut span: Option<&mut DecisionSpan>,
) -> Result<Admitted, Failure> {
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
    if parts.headers.len() > visitor.desk.shared.max_headers {
        return Err(Failure::HeadTooLarge);
    }
    if parts.headers.contains_key(TRANSFER_ENCODING) && !is_chunked_alone(&parts.headers) {
        return Err(Failure::NotSupported);
    }
    let target = Target::of(parts)?;
    let service = {
        let table = visitor.desk.shared.table.load();
        Arc::clone(table.find(target.name(), parts.uri.path())?)
    };
    if let Some(line) = &mut line {
        line.is_for(service.gate.service(), target.host.as_ref());
    }
    let note = |stage| enter(&mut span, stage);
    let counting = &visitor.desk.shared.counting;
    let from = counting.begin();
    let passage = service.gate.admit_with_observer(parts, Some(visitor.origin.address), note).await;
    if let Some(span) = span {
        record_decision(span, &service.gate, &passage);
    }
    counting.count(&passage, from);
    match passage {
        Admission::Admitted(pass) => {
            visitor.desk.shared.decisions.log_gateway(pass.decision());
            if let Some(line) = line {
                line.is_decided(pass.decision());
            }
            Ok(Admitted::Passed(service, target, pass))
        }
        Admission::Refused(decision, answer) => {
            visitor.desk.shared.decisions.log_gateway(decision.as_ref());
            if let Some(line) = line {
                line.is_decided(decision.as_ref());
            }
            Ok(Admitted::Refused(answer.map(Content::own)))
        }
        // For future variants of hivemind-tower.
        _ => Err(Failure::UpstreamBusy),
    }
}

/// The context of an admitted request.
pub(super) struct Way<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) service: &'a Arc<Service>,
    pub(super) host: Option<&'a HeaderValue>,
    pub(super) pass: &'a AdmittedRequest,
    /// Set if the request is traced.
    pub(super) span: Option<&'a DecisionSpan>,
}

impl Way<'_> {
    async fn serve(
        &self,
        mut parts: Parts,
        body: Incoming,
        line: Option<&mut Line>,
    ) -> Result<Response<Content>, Failure> {
        let service = self.service;
        // The guard decides what a WebSocket is, so that limiter and gateway agree. Without a guard nothing is
        // counted, and the request is forwarded without its upgrade headers.
        if let Some(guard) = self.pass.guard() {
            // Boxed, because it is rare, and connections reserve memory for everything unboxed.
            return Box::pin(upgrade::open(self, guard, parts, line)).await;
        }
        // Admitted only to receive a close frame, so anything else is refused.
        if self.pass.decision().is_some_and(|decision| !decision.is_allowed()) {
            return Err(Failure::OverLimit);
        }
        let timeouts = &service.timeouts;
        let is_conversation = is_conversation(&parts.headers);
        let (body, upload) = RequestBody::of(body, service.max_body, timeouts.idle, is_conversation)?;
        self.prepare(&mut parts);
        write_length_anew(&mut parts.headers);
        let request = Request::from_parts(parts, body);
        let with = Exchange { way: self, upload, began: timeouts.total.map(|_| super::now()) };
        let (response, lease, waiting) = exchange(with, request).await?;
        if let Some(line) = line {
            line.goes_to(&lease.upstream().authority);
        }
        let upstream = Arc::clone(lease.upstream());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // The upgrade was not requested.
            return Err(upstream.fails(&"it switched protocols without an upgrade request"));
        }
        let (mut head, body) = response.into_parts();
        let outcome = relay(head.status, &mut head.headers);
        outcome.map_err(|_| upstream.fails(&"the length of its response is ambiguous"))?;
        head.version = Version::HTTP_11;
        let relayed = Relayed::begun(body, lease, waiting).await;
        let relayed = relayed.map_err(|error| upstream.fails(&error))?;
        Ok(Response::from_parts(head, Content::Relayed(relayed)))
    }

    /// Converts a client's request for any upstream of the service.
    pub(super) fn prepare(&self, parts: &mut Parts) {
        let headers = &mut parts.headers;
        hop_by_hop::remove(headers);
        // The client receives 100 Continue when its body is first read, after all checks that may refuse it.
        headers.remove(EXPECT);
        let believed = self.visitor.desk.shared.clients.header();
        self.visitor.origin.tell(headers, self.host, self.service.forwarded, believed);
        if parts.version == Version::HTTP_2 {
            join_cookies(headers);
        }
        if let Some(span) = self.span {
            span.inject(headers);
        }
        parts.extensions.clear();
    }

    /// Sets target and host for an upstream.
    pub(super) fn address(
        &self,
        request: &mut Request<RequestBody>,
        upstream: &Upstream,
        is_http2: bool,
    ) -> Result<(), Failure> {
        let host = match (&self.service.host, self.host) {
            (Host::Set(host), _) => host,
            (Host::Keep, Some(host)) if !host.is_empty() => host,
            (Host::Keep | Host::Upstream, _) => &upstream.authority,
        };
        let target = request.uri().path_and_query().cloned();
        let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let target = self.without_prefix(target);
        if is_http2 {
            let scheme = if upstream.address.upstream.is_tls { Scheme::HTTPS } else { Scheme::HTTP };
            let authority = Authority::from_maybe_shared(bytes::Bytes::copy_from_slice(host.as_bytes()));
            let mut parts = http::uri::Parts::default();
            parts.scheme = Some(scheme);
            parts.authority = Some(authority.map_err(|_| Failure::BadTarget)?);
            parts.path_and_query = Some(target);
            *request.uri_mut() = Uri::from_parts(parts).map_err(|_| Failure::BadTarget)?;
            *request.version_mut() = Version::HTTP_2;
            request.headers_mut().remove(HOST);
        } else {
            *request.uri_mut() = Uri::from(target);
            *request.version_mut() = Version::HTTP_11;
            // Usually it is set already.
            if request.headers().get(HOST) != Some(host) {
                let host = host.clone();
                request.headers_mut().insert(HOST, host);
            }
        }
        Ok(())
    }

    fn without_prefix(&self, target: PathAndQuery) -> PathAndQuery {
        if !self.service.strips_prefix {
            return target;
        }
        let rest = self.service.stripped(target.as_str());
        let path = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        PathAndQuery::try_from(path).unwrap_or(target)
    }
}

/// HTTP/2 may split cookies into several lines, which are one in HTTP/1.1 (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}
