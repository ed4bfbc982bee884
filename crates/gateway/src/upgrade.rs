//! WebSocket upgrades: the handshake is forwarded like any request, over a separate connection; after both sides
//! agree, the two connections are spliced. A client over its limit may be accepted only to receive a close frame, if
//! the service is configured so.

use super::access_log::AccessLogLine;
use super::dial::UpstreamStream;
use super::exchange::{AttemptResult, left, shorter, try_each};
use super::failure::Failure;
use super::framing::relay;
use super::request_body::RequestBody;
use super::request_context::RequestContext;
use super::response_body::{Content, ResponseTimeouts, UpstreamBody};
use super::upgraded_connection::{Tunnel, UpgradedConnection};
use super::upstream::{Upstream, UpstreamSlot};
use crate::websocket::{accept_key, is_handshake};
use bytes::Bytes;
use hivemind_core::Timestamp;
use hivemind_tower::websocket::{Close, ConnectionGuard, MessageLimiter};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, TRANSFER_ENCODING,
    UPGRADE,
};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Whether a handshake is valid and has no body, which one side would read as frames. Upgrades other than WebSocket
/// are not supported: their headers are removed, and the upstream responds without an upgrade.
fn is_sound(parts: &Parts) -> bool {
    let mut lengths = parts.headers.get_all(CONTENT_LENGTH).iter();
    is_handshake(parts)
        && lengths.all(|length| length == "0")
        && !parts.headers.contains_key(TRANSFER_ENCODING)
}

/// Opens a WebSocket, or returns the upstream's response if it declines.
pub(super) async fn open(
    context: &RequestContext<'_>,
    guard: &ConnectionGuard,
    mut parts: Parts,
    line: Option<&mut AccessLogLine>,
) -> Result<Response<Content>, Failure> {
    if !is_sound(&parts) {
        return Err(Failure::Unreadable);
    }
    let limiter = match guard.open() {
        Err(close) => return refuse(context, &parts, close),
        Ok(limiter) => limiter,
    };
    context.prepare(&mut parts);
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let began = context.service.timeouts.total.map(|_| super::now());
    let dial = async |upstream: Arc<Upstream>, parts| {
        let left = match left(context, began) {
            Ok(left) => left,
            Err(failure) => return AttemptResult::Failed(failure),
        };
        let slot = match upstream.slot(context.connection.worker.index) {
            Ok(slot) => slot,
            Err(failure) => return AttemptResult::Unsent(parts, failure),
        };
        match upstream.dialer().dial_http1(shorter(context.service.timeouts.connect, left)).await {
            Ok(stream) => AttemptResult::Done((stream, slot, parts)),
            Err(why) => {
                upstream.record_unreachable(&why);
                AttemptResult::Unsent(parts, why.failure())
            }
        }
    };
    let (stream, slot, parts) = try_each(context, parts, dial).await?;
    if let Some(line) = line {
        line.record_upstream(&slot.upstream().authority);
    }
    let mut request = Request::from_parts(parts, RequestBody::none());
    context.address(&mut request, slot.upstream(), false)?;
    agree(context, stream, request, limiter, slot, began).await
}

/// Sends the handshake, and passes both connections on if it is accepted.
async fn agree(
    context: &RequestContext<'_>,
    stream: Box<dyn UpstreamStream>,
    request: Request<RequestBody>,
    limiter: MessageLimiter,
    slot: UpstreamSlot,
    began: Option<Timestamp>,
) -> Result<Response<Content>, Failure> {
    let handshake = http1::Builder::new().handshake(TokioIo::new(stream));
    let (mut sender, mut connection) = handshake.await.map_err(|_| Failure::UpstreamFailed)?;
    let (handed_over, upstream) = oneshot::channel();
    tokio::task::spawn_local(async move {
        let ended = poll_fn(|cx| Pin::new(&mut connection).poll(cx)).await;
        if ended.is_ok() {
            let parts = connection.into_parts();
            // The receiver is gone if the upstream declined.
            let _ = handed_over.send((parts.io.into_inner(), parts.read_buf));
        }
    });
    let timeouts = &context.service.timeouts;
    let most = shorter(timeouts.response, left(context, began)?);
    let answered = timeout(most, sender.send_request(request)).await;
    let response = answered.map_err(|_| Failure::UpstreamTooSlow)?;
    let response = response.map_err(|error| slot.upstream().fails(&error))?;
    slot.upstream().answers();
    let has_agreed = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let (mut head, body) = response.into_parts();
    relay(head.status, &mut head.headers)?;
    if !has_agreed {
        let waiting = ResponseTimeouts { idle: timeouts.idle, left: left(context, began)?, upload: None };
        let body = UpstreamBody::begun(body, slot, waiting).await;
        let body = body.map_err(|_| Failure::UpstreamFailed)?;
        return Ok(Response::from_parts(head, Content::UpstreamBody(body)));
    }
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let pings_per_second = context.service.pings_per_second;
    let tunnel = Tunnel { upstream, limiter, pings_per_second, idle: timeouts.idle, _slot: slot };
    context.connection.upgraded_to.replace(Some(UpgradedConnection::Spliced(Box::new(tunnel))));
    Ok(Response::from_parts(head, Content::own(Bytes::new())))
}

/// Accepts a WebSocket only to close it, because scripts in a browser cannot read an HTTP error.
fn refuse(context: &RequestContext<'_>, parts: &Parts, close: Close) -> Result<Response<Content>, Failure> {
    let key = parts.headers.get(SEC_WEBSOCKET_KEY).and_then(accept_key).ok_or(Failure::Unreadable)?;
    let mut response = Response::new(Content::own(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, key);
    context.connection.upgraded_to.replace(Some(UpgradedConnection::Refused(close)));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn websocket_handshake_with_a_body_is_rejected() {
        let of = |headers: &[(&str, &str)]| {
            let request = Request::get("/")
                .header("connection", "upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            is_sound(&request.body(()).unwrap().into_parts().0)
        };
        assert!(of(&[]));
        assert!(of(&[("content-length", "0")]));
        assert!(!of(&[("content-length", "5")]));
        assert!(!of(&[("transfer-encoding", "chunked")]));
        assert!(!of(&[("sec-websocket-key", "another")]));
    }
}
