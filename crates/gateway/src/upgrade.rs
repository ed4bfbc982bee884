//! WebSocket upgrades: the handshake is forwarded like any request, over a separate connection; after both sides
//! agree, the two connections are spliced. A client over its limit may be accepted only to receive a close frame, if
//! the service is configured so.

use super::access_log::Line;
use super::dial::Stream;
use super::exchange::{Attempt, left, shorter, try_each};
use super::failure::Failure;
use super::framing::relay;
use super::proxy::Way;
use super::reply::{Content, Relayed, Waiting};
use super::request_body::RequestBody;
use super::upstream::{Lease, Upstream};
use crate::websocket::{SpliceSummary, accept_key, is_handshake, refuse_with_close, splice};
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
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// Whether a handshake is valid and has no body, which one side would read as frames. Upgrades other than WebSocket
/// are not supported: their headers are removed, and the upstream responds without an upgrade.
fn is_sound(parts: &Parts) -> bool {
    let mut lengths = parts.headers.get_all(CONTENT_LENGTH).iter();
    is_handshake(parts)
        && lengths.all(|length| length == "0")
        && !parts.headers.contains_key(TRANSFER_ENCODING)
}

/// What an upgraded connection becomes.
pub(super) enum Ticket {
    Spliced(Box<Tunnel>),
    Refused(Close),
}

pub(super) struct Tunnel {
    upstream: oneshot::Receiver<(Box<dyn Stream>, Bytes)>,
    limiter: MessageLimiter,
    idle: Duration,
    _lease: Lease,
}

impl Ticket {
    /// Serves an upgraded connection to its end.
    pub(super) async fn run<T>(self, client: T, stopped: watch::Receiver<bool>)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        match self {
            Self::Refused(close) => refuse_with_close(client, &close).await,
            Self::Spliced(tunnel) => {
                // The upstream connection arrives as soon as its response is read, which has happened by now.
                let Ok((upstream, ahead)) = tunnel.upstream.await else { return };
                let upstream = super::rewound::Rewound::new(upstream, ahead);
                // Without message counting the limiter is still kept, because it holds the permit of the open
                // connection.
                let counts = tunnel.limiter.is_counting();
                let (limiter, _kept) =
                    if counts { (Some(tunnel.limiter), None) } else { (None, Some(tunnel.limiter)) };
                let summary = splice(client, upstream, limiter, tunnel.idle, stopped).await;
                let SpliceSummary { end, to_upstream, to_client, messages } = summary;
                tracing::debug!(ended = ?end, to_upstream, to_client, messages, "a WebSocket ended");
            }
        }
    }
}

/// Opens a WebSocket, or returns the upstream's response if it declines.
pub(super) async fn open(
    way: &Way<'_>,
    guard: &ConnectionGuard,
    mut parts: Parts,
    line: Option<&mut Line>,
) -> Result<Response<Content>, Failure> {
    if !is_sound(&parts) {
        return Err(Failure::Unreadable);
    }
    let limiter = match guard.open() {
        Err(close) => return refuse(way, &parts, close),
        Ok(limiter) => limiter,
    };
    way.prepare(&mut parts);
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let began = way.service.timeouts.total.map(|_| super::now());
    let dial = async |upstream: Arc<Upstream>, parts| {
        let left = match left(way, began) {
            Ok(left) => left,
            Err(failure) => return Attempt::Failed(failure),
        };
        let lease = match upstream.lease(way.visitor.desk.lane) {
            Ok(lease) => lease,
            Err(failure) => return Attempt::Unsent(parts, failure),
        };
        match upstream.dialler().dial_http1(shorter(way.service.timeouts.connect, left)).await {
            Ok(stream) => Attempt::Done((stream, lease, parts)),
            Err(why) => {
                upstream.leave_out(&why);
                Attempt::Unsent(parts, why.failure())
            }
        }
    };
    let (stream, lease, parts) = try_each(way, parts, dial).await?;
    if let Some(line) = line {
        line.goes_to(&lease.upstream().authority);
    }
    let mut request = Request::from_parts(parts, RequestBody::none());
    way.address(&mut request, lease.upstream(), false)?;
    agree(way, stream, request, limiter, lease, began).await
}

/// Sends the handshake, and passes both connections on if it is accepted.
async fn agree(
    way: &Way<'_>,
    stream: Box<dyn Stream>,
    request: Request<RequestBody>,
    limiter: MessageLimiter,
    lease: Lease,
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
    let timeouts = &way.service.timeouts;
    let most = shorter(timeouts.response, left(way, began)?);
    let answered = timeout(most, sender.send_request(request)).await;
    let response = answered.map_err(|_| Failure::UpstreamTooSlow)?;
    let response = response.map_err(|error| lease.upstream().fails(&error))?;
    lease.upstream().answers();
    let has_agreed = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let (mut head, body) = response.into_parts();
    relay(head.status, &mut head.headers)?;
    if !has_agreed {
        let waiting = Waiting { idle: timeouts.idle, left: left(way, began)?, upload: None };
        let relayed = Relayed::begun(body, lease, waiting).await;
        let relayed = relayed.map_err(|_| Failure::UpstreamFailed)?;
        return Ok(Response::from_parts(head, Content::Relayed(relayed)));
    }
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    let tunnel = Tunnel { upstream, limiter, idle: timeouts.idle, _lease: lease };
    way.visitor.ticket.replace(Some(Ticket::Spliced(Box::new(tunnel))));
    Ok(Response::from_parts(head, Content::own(Bytes::new())))
}

/// Accepts a WebSocket only to close it, because scripts in a browser cannot read an HTTP error.
fn refuse(way: &Way<'_>, parts: &Parts, close: Close) -> Result<Response<Content>, Failure> {
    let key = parts.headers.get(SEC_WEBSOCKET_KEY).and_then(accept_key).ok_or(Failure::Unreadable)?;
    let mut response = Response::new(Content::own(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, key);
    way.visitor.ticket.replace(Some(Ticket::Refused(close)));
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
