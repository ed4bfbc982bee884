//! A request's way through the gateway: routed, limited, forwarded, answered.

use super::access_log::Line;
use super::exchange::{Exchange, exchange, is_conversation};
use super::failure::Failure;
use super::framing::{is_chunked_alone, relay, write_length_anew};
use super::hop_by_hop;
use super::reply::{Content, Relayed, Reply};
use super::request_body::RequestBody;
use super::route::{Host, Service};
use super::target::Target;
use super::traced::{comes_to, is_decided};
use super::upgrade;
use super::upstream::Upstream;
use super::visitor::Visitor;
use hivemind_telemetry::trace::{Check, Door, Stage};
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

/// Answers a request, whatever becomes of it.
pub(super) async fn answer(
    visitor: Rc<Visitor>,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Infallible> {
    let (parts, body) = request.into_parts();
    let visit = visitor.presence.visit(!body.is_end_stream());
    // Who has more to say than was listened to is not kept: the rest could be read as a request.
    let is_http2 = parts.version == Version::HTTP_2;
    let is_unread = !body.is_end_stream() && !is_http2;
    let log = visitor.desk.shared.log.as_ref();
    let mut line = log.map(|log| log.begin(&parts, visitor.origin.address));
    let mut idle = None;
    let tracer = visitor.desk.shared.tracer.as_ref();
    let mut check = tracer.and_then(|tracer| tracer.check(&parts.headers, Door::Gateway));
    let mut response = match admit(&visitor, &parts, line.as_mut(), check.as_mut()).await {
        Err(failure) => failure.answer(is_unread),
        Ok(Admitted::Refused(response)) => response,
        Ok(Admitted::Passed(service, target, pass)) => {
            idle = is_http2.then_some(service.timeouts.idle);
            let (host, check) = (target.host.as_ref(), check.as_ref());
            let way = Way { visitor: &visitor, service: &service, host, pass: &pass, check };
            let mut response = match way.serve(parts, body, line.as_mut()).await {
                Ok(response) => response,
                Err(failure) => failure.answer(is_unread),
            };
            pass.write_headers(response.headers_mut());
            response
        }
    };
    // HTTP/2 has a farewell of its own.
    if !is_http2 && visitor.desk.shared.sees_off.load(Ordering::Relaxed) {
        see_off(&mut response);
    }
    if let Some(line) = &mut line {
        line.is_answered(response.status());
    }
    if let Some(check) = &mut check {
        check.is_answered_with(response.status());
    }
    Ok(response.map(|content| Reply::new(content, line, visit, idle)))
}

/// Ends the connection with this answer, unless it becomes another by it.
fn see_off(response: &mut Response<Content>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

#[expect(clippy::large_enum_variant, reason = "it is there for a moment; a box would cost every request")]
enum Admitted {
    Refused(Response<Content>),
    Passed(Arc<Service>, Target, AdmittedRequest),
}

/// Which service it is for, and whether it may go on.
async fn admit(
    visitor: &Visitor,
    parts: &Parts,
    mut line: Option<&mut Line>,
    mut check: Option<&mut Check>,
) -> Result<Admitted, Failure> {
    if let Some(check) = &mut check {
        check.asks_by(&parts.method);
        check.comes_to(Stage::Reads);
    }
    if parts.method == Method::CONNECT {
        return Err(Failure::NotSupported);
    }
    // `post` is no POST to limits, and one to applications that write methods in capital letters.
    if parts.method.as_str().bytes().any(|letter| letter.is_ascii_lowercase()) {
        return Err(Failure::BadMethod);
    }
    // Over HTTP/1.1 hyper has counted them already; over HTTP/2 it knows only how large they are in all.
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
    let note = |stage| comes_to(&mut check, stage);
    let counting = &visitor.desk.shared.counting;
    let from = counting.begin();
    let passage = service.gate.admit_with_observer(parts, Some(visitor.origin.address), note).await;
    if let Some(check) = check {
        is_decided(check, &service.gate, &passage);
    }
    counting.count(&passage, from);
    match passage {
        Admission::Admitted(pass) => {
            visitor.desk.shared.decisions.tell_of_gateway(pass.decision());
            if let Some(line) = line {
                line.is_decided(pass.decision());
            }
            Ok(Admitted::Passed(service, target, pass))
        }
        Admission::Refused(decision, answer) => {
            visitor.desk.shared.decisions.tell_of_gateway(decision.as_ref());
            if let Some(line) = line {
                line.is_decided(decision.as_ref());
            }
            Ok(Admitted::Refused(answer.map(Content::own)))
        }
        // As hivemind-tower may come to say more.
        _ => Err(Failure::UpstreamBusy),
    }
}

/// An admitted request's way.
pub(super) struct Way<'a> {
    pub(super) visitor: &'a Visitor,
    pub(super) service: &'a Arc<Service>,
    pub(super) host: Option<&'a HeaderValue>,
    pub(super) pass: &'a AdmittedRequest,
    /// Where it is followed.
    pub(super) check: Option<&'a Check>,
}

impl Way<'_> {
    async fn serve(
        &self,
        mut parts: Parts,
        body: Incoming,
        line: Option<&mut Line>,
    ) -> Result<Response<Content>, Failure> {
        let service = self.service;
        // The guard says what a WebSocket is, so that nothing is one to the limiter and none to us. Where there
        // is no guard nothing is counted, and the request goes on without what asks for an upgrade.
        if let Some(guard) = self.pass.guard() {
            // In a box: it is rare, and every connection keeps room for what is not.
            return Box::pin(upgrade::open(self, guard, parts, line)).await;
        }
        // Whom the limiter lets through to be closed is not let through to anything else.
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
            // Nobody asked for it.
            return Err(upstream.fails(&"it switches to a protocol that it was not asked for"));
        }
        let (mut head, body) = response.into_parts();
        let outcome = relay(head.status, &mut head.headers);
        outcome.map_err(|_| upstream.fails(&"its answer's length can be read in two ways"))?;
        head.version = Version::HTTP_11;
        let relayed = Relayed::begun(body, lease, waiting).await;
        let relayed = relayed.map_err(|error| upstream.fails(&error))?;
        Ok(Response::from_parts(head, Content::Relayed(relayed)))
    }

    /// Makes a request that came one for the upstream, in all that does not depend on which one.
    pub(super) fn prepare(&self, parts: &mut Parts) {
        let headers = &mut parts.headers;
        hop_by_hop::remove(headers);
        // The client is told to go on when its body is asked for, which is after all that may refuse it.
        headers.remove(EXPECT);
        let believed = self.visitor.desk.shared.clients.header();
        self.visitor.origin.tell(headers, self.host, self.service.forwarded, believed);
        if parts.version == Version::HTTP_2 {
            join_cookies(headers);
        }
        if let Some(check) = self.check {
            check.tell(headers);
        }
        parts.extensions.clear();
    }

    /// Addresses a request to an upstream.
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
            // Most of the time it is there already.
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

/// HTTP/2 may send cookies in several lines, which are one in HTTP/1.1 (RFC 9113, 8.2.3).
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
