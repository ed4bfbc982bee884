//! HTTP server of the admin and metrics ports: HTTP/1.1 and HTTP/2, with or without TLS. Each connection has its own
//! task from its first byte, and closes when it is idle, or when its place is needed and it has not authenticated.

use super::limited_listener::{LimitedListener, PeerAddress};
use super::shutdown::{AcceptGate, DrainSignals, wait_until_set};
use axum::Router;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hivemind_admin::Stays;
use hivemind_gateway::unread_body::RecoverableBody;
use hivemind_tls::connections::ConnectionPermit;
use hivemind_tls::{PortTls, accept};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tower_service::Service;

/// For the TLS handshake, and then for the head of the first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections close after this time, at the latest after twice as long. Scrapes are a minute apart.
const IDLE: Duration = Duration::from_secs(90);
/// For handlers without their own time limit; the limits of the others are shorter.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(40);
/// For a client to read its response during shutdown.
const LINGER: Duration = Duration::from_secs(5);
/// The same when the connection has to close for another one.
const EVICTED_LINGER: Duration = Duration::from_millis(100);
/// A browser sends a few requests at once, a scraper one.
const MAX_STREAMS: u32 = 16;
/// Flow control windows: unread bytes of one request, and of a connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
const MAX_HEADER_BYTES: u32 = 16 << 10;
const PING: Duration = Duration::from_secs(30);

/// Serves all clients until the listener closes, and then until the last response is sent.
pub(super) async fn serve<L: Listener<Addr: PeerAddress>>(
    mut listener: LimitedListener<L>,
    tls: Option<Arc<PortTls>>,
    router: Router,
    (gate, drain): (AcceptGate, DrainSignals),
) {
    let mut connections = JoinSet::new();
    {
        let mut closed = pin!(gate.closed());
        loop {
            tokio::select! { biased;
                () = &mut closed => break,
                Some(_) = connections.join_next() => {}
                (io, permit, _) = listener.next() => {
                    let (tls, router, drain) = (tls.clone(), router.clone(), drain.clone());
                    connections.spawn(serve_connection((io, Arc::new(permit)), tls, router, drain));
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve_connection<T>(
    (io, permit): (T, Arc<ConnectionPermit>),
    tls: Option<Arc<PortTls>>,
    router: Router,
    drain: DrainSignals,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(tls) = tls else { return serve_requests(io, permit, router, drain).await };
    let acceptor = tls.acceptor();
    let handshake = tokio::select! { biased;
        () = wait_until_set(drain.closed.clone()) => return,
        () = permit.evicted() => return,
        handshake = accept(io, &acceptor, FIRST_REQUEST_TIMEOUT) => handshake,
    };
    // A failed handshake is logged there.
    if let Ok((stream, _)) = handshake {
        if tls.knows_its_callers() {
            permit.record_authenticated();
        }
        serve_requests(stream, permit, router, drain).await;
    }
}

/// The requests of a connection.
struct ConnectionState {
    /// Weak, because a request may outlast its connection.
    permit: Weak<ConnectionPermit>,
    started: AtomicU64,
    finished: AtomicU64,
    /// Responses without an end, such as event streams.
    streams: Stays,
    /// An HTTP/2 response was the last one: HTTP/2 has no header for that, so the connection sends GOAWAY.
    drain_now: Notify,
}

impl ConnectionState {
    fn new(permit: &Arc<ConnectionPermit>) -> Self {
        let (permit, streams) = (Arc::downgrade(permit), Stays::new(permit));
        let (started, finished) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { permit, started, finished, streams, drain_now: Notify::new() }
    }

    fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    fn is_waiting(&self) -> bool {
        self.started() > self.finished.load(Ordering::Relaxed)
    }
}

async fn serve_requests<T>(io: T, permit: Arc<ConnectionPermit>, router: Router, drain: DrainSignals)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let state = Arc::new(ConnectionState::new(&permit));
    let counted = Arc::clone(&state);
    let mut closing = pin!(wait_until_set(drain.closed.clone()));
    let service = service_fn(move |request| {
        let (router, state, drain) = (router.clone(), Arc::clone(&counted), drain.clone());
        async move { Ok::<_, Infallible>(respond(router, request, state, &drain).await) }
    });
    let builder = settings();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut first_request = pin!(timeout(FIRST_REQUEST_TIMEOUT, pending::<()>()));
    let mut idle = interval(IDLE);
    idle.reset();
    let (mut is_first_checked, mut before) = (false, 0);
    loop {
        tokio::select! { biased;
            () = &mut closing => break,
            () = permit.evicted() => break,
            _ = &mut first_request, if !is_first_checked => {
                is_first_checked = true;
                if state.started() == 0 {
                    return;
                }
            }
            _ = idle.tick() => {
                let so_far = std::mem::replace(&mut before, state.started());
                if before == so_far && !state.is_waiting() && state.streams.are_none() {
                    break;
                }
            }
            // Requests in progress are still answered.
            () = state.drain_now.notified() => connection.as_mut().graceful_shutdown(),
            _ = &mut connection => return,
        }
    }
    connection.as_mut().graceful_shutdown();
    if permit.is_evicted() {
        // Its place is needed: an idle connection closes immediately.
        let time_limit = if state.is_waiting() { EVICTED_LINGER } else { Duration::ZERO };
        let _ = timeout(time_limit, &mut connection).await;
        return;
    }
    while timeout(LINGER, &mut connection).await.is_err() && state.is_waiting() {}
}

async fn respond(
    mut router: Router,
    mut request: hyper::Request<Incoming>,
    state: Arc<ConnectionState>,
    drain: &DrainSignals,
) -> Response {
    state.started.fetch_add(1, Ordering::Relaxed);
    request.extensions_mut().insert(state.streams.clone());
    if let Some(permit) = state.permit.upgrade() {
        permit.record_call_start();
        request.extensions_mut().insert(Arc::downgrade(&permit));
    }
    let is_http2 = request.version() == Version::HTTP_2;
    let expects_continue = request.headers().contains_key(EXPECT);
    let mut remainder = None;
    let request = request.map(|body| {
        let (body, rest) =
            if is_http2 { RecoverableBody::of_http2(body) } else { RecoverableBody::new(body) };
        remainder = Some(rest);
        body
    });
    let ended = RequestGuard(state);
    let mut answer = match timeout(HANDLER_TIMEOUT, router.call(request)).await {
        Ok(Ok(answered)) => answered,
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    // A client may send its next request just before the connection closes, so a response announces it.
    match drain.is_leaving() {
        true if is_http2 => ended.0.drain_now.notify_one(),
        true => drop(answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"))),
        false => {}
    }
    // The rest of an unread body is read next to the connection, which would otherwise close without notice.
    if let Some(remainder) = remainder
        && let Some(rest) = remainder.settle(answer.headers_mut(), expects_continue, false).await
    {
        tokio::spawn(async move {
            if let Some(rest) = rest.ready().await {
                rest.run().await;
            }
        });
    }
    answer
}

/// Counts the end of a request, also when the client cancels the stream.
struct RequestGuard(Arc<ConnectionState>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.finished.fetch_add(1, Ordering::Relaxed);
        if let Some(permit) = self.0.permit.upgrade() {
            permit.record_call_end();
        }
    }
}

fn settings() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The timer above limits the wait for a head, for both HTTP versions.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(PING);
    builder
}
