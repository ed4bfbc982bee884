//! One client connection, from its first byte to its end: protocol detection, timeouts, and drain.

use super::Arrival;
use super::client_stream::ClientStream;
use super::connection_activity::{ConnectionActivity, ConnectionTimeouts, Order};
use super::context::{ClientConnection, WorkerState};
use super::failure::Failure;
use super::forwarding::PeerOrigin;
use super::http2_streams::StreamTasks;
use super::proxy::answer;
use super::read_ahead::ReadAhead;
use super::upgraded_connection::UpgradedConnection;
use bytes::Bytes;
use hivemind_tls::accept;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// The preface of an HTTP/2 client.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum open streams per connection, as in most servers.
const MAX_STREAMS: u32 = 128;
/// Flow control windows for request bodies, per stream and per connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Response bytes buffered per stream for a slow client.
const SEND_BUFFER: usize = 64 << 10;
/// Maximum streams that a client may open and reset: more is an attack (CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 64;
/// hyper's buffer per connection; its own minimum, and enough for any head.
const MIN_BUFFER: usize = 64 << 10;
/// hyper's default maximum number of headers.
const DEFAULT_HEADERS: usize = 100;
/// An idle HTTP/2 peer is pinged, and aborted if it does not answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(10);
/// After an early error response the client's remaining bytes are read for this long (between two bytes, and in
/// total), and up to this many, so that it receives the response: closing a socket with unread bytes discards what it
/// has sent.
const LINGER_SILENT: Duration = Duration::from_secs(5);
const LINGER: Duration = Duration::from_secs(30);
const LINGER_BYTES: usize = 32 << 20;

/// How connections are served.
#[derive(Clone)]
pub(super) struct ConnectionOptions {
    pub(super) timeouts: ConnectionTimeouts,
    pub(super) max_header_bytes: usize,
    pub(super) max_headers: usize,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) stopped: watch::Receiver<bool>,
}

/// Serves a connection to its end.
pub(super) async fn serve(
    arrival: Arrival,
    worker: Rc<WorkerState>,
    options: Rc<ConnectionOptions>,
) -> io::Result<()> {
    let Arrival { stream, peer, permit } = arrival;
    let permit = Rc::new(permit);
    let stream = TcpStream::from_std(stream)?;
    let activity = worker.registry.enter(Rc::downgrade(&permit));
    let is_trusted = worker.gateway.clients.trusts(Some(peer.ip()));
    let origin = PeerOrigin::new(peer.ip(), is_trusted, options.tls.is_some());
    let origin = origin.keeping_overrides(worker.gateway.keeps_override_headers);
    let connection = Rc::new(ClientConnection { worker, activity, origin, upgraded_to: None.into() });
    match &options.tls {
        None => detect_and_serve(stream, false, connection, &options).await,
        Some(acceptor) => {
            // Boxed, because it ends before the rest starts. Failures are logged there.
            let handshake = Box::pin(async {
                tokio::select! {
                    () = permit.evicted() => None,
                    handshake = accept(stream, acceptor, options.timeouts.head) => handshake.ok(),
                }
            });
            if let Some((stream, negotiated)) = handshake.await {
                Box::pin(detect_and_serve(stream, negotiated.is_http2, connection, &options)).await;
            }
        }
    }
    Ok(())
}

/// Detects the HTTP version, and serves it.
async fn detect_and_serve<T>(
    mut io: T,
    is_http2: bool,
    connection: Rc<ClientConnection>,
    options: &ConnectionOptions,
) where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut first = Vec::new();
    let activity = Rc::clone(&connection.activity);
    let is_http2 = is_http2 || {
        let opening = while_open(&activity, opening(&mut io, &mut first)).await;
        let Some(Ok(is_http2)) = opening else { return };
        is_http2
    };
    // Boxed, so that a connection does not reserve memory for the larger of both.
    if is_http2 {
        let stream = TokioIo::new(ClientStream::new(io, &first, activity, None));
        return Box::pin(http2(stream, connection, options)).await;
    }
    loop {
        let stream =
            TokioIo::new(ClientStream::new(io, &first, Rc::clone(&activity), connection.unparsed_callback()));
        let Some(idle) = Box::pin(http1(stream, Rc::clone(&connection), options)).await else { return };
        (io, first) = (idle.io, idle.ahead);
        // From here on it is HTTP/1.1, whatever the bytes look like.
        if first.is_empty()
            && !matches!(while_open(&activity, opening(&mut io, &mut first)).await, Some(Ok(_)))
        {
            return;
        }
        activity.clear_rest();
        activity.record_received();
    }
}

/// An idle connection between two requests: clients may keep it for long, and hyper's state for it is twenty times
/// what waiting needs.
struct IdleConnection<T> {
    io: T,
    /// A copy, because a slice would keep hyper's read buffer in memory.
    ahead: Vec<u8>,
}

/// Awaits a future for as long as the connection may stay open.
async fn while_open<F: Future>(activity: &ConnectionActivity, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match activity.order(cx) {
        Order::Stay | Order::Rest => future.as_mut().poll(cx).map(Some),
        Order::Drain | Order::Abort => Poll::Ready(None),
    })
    .await
}

/// Reads until it is known whether this is HTTP/2: usually the first byte is enough.
async fn opening(io: &mut (impl AsyncRead + Unpin), first: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; PREFACE.len()];
    let mut known = 0;
    loop {
        let read = io.read(bytes.get_mut(known..).unwrap_or_default()).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        known += read;
        let said = bytes.get(..known).unwrap_or_default();
        if !PREFACE.starts_with(said) || known == PREFACE.len() {
            first.extend_from_slice(said);
            return Ok(said == PREFACE);
        }
    }
}

/// Serves HTTP/1.1 until the connection ends, or is idle for a while.
async fn http1<T>(
    stream: TokioIo<ClientStream<T>>,
    connection: Rc<ClientConnection>,
    options: &ConnectionOptions,
) -> Option<IdleConnection<T>>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let activity = Rc::clone(&connection.activity);
    let served = Rc::clone(&connection);
    // An idle connection has no hyper state, although hyper reserves memory for a response.
    let service = service_fn(move |request| answer(Rc::clone(&served), request));
    let mut builder = http1::Builder::new();
    builder.max_buf_size(options.max_header_bytes.max(MIN_BUFFER)).max_header_size(options.max_header_bytes);
    // With an explicit maximum, hyper initializes that many headers for each request, even for its default.
    if options.max_headers != DEFAULT_HEADERS {
        builder.max_headers(options.max_headers);
    }
    let mut http = builder.serve_connection(stream, service);
    let mut is_draining = false;
    let outcome = poll_fn(|cx| {
        match activity.order(cx) {
            Order::Abort => return Poll::Ready(Http1End::Aborted),
            Order::Rest if activity.is_at_rest() => return Poll::Ready(Http1End::Idle),
            Order::Rest => activity.clear_rest(),
            Order::Drain if !is_draining => {
                is_draining = true;
                Pin::new(&mut http).graceful_shutdown();
            }
            _ => {}
        }
        Pin::new(&mut http).poll(cx).map(Http1End::Ended)
    })
    .await;
    let ended = match outcome {
        Http1End::Aborted => {
            if activity.is_within_head() && !activity.is_evicted() {
                connection.log_unparsed(Failure::ClientTooSlow);
            }
            return None;
        }
        Http1End::Idle => {
            let parts = http.into_parts();
            return Some(IdleConnection {
                io: parts.io.into_inner().into_inner(),
                ahead: parts.read_buf.to_vec(),
            });
        }
        Http1End::Ended(ended) => ended,
    };
    if let Err(error) = &ended {
        tracing::debug!("a connection ended: {error}");
        // A truncated response must not look complete.
        if error.is_user() {
            return None;
        }
    }
    let parts = http.into_parts();
    let io = parts.io.into_inner().into_inner();
    drop(parts.service);
    let upgraded_to = connection.upgraded_to.take().filter(|_| ended.is_ok());
    drop(connection);
    match upgraded_to {
        Some(upgraded_to) => Box::pin(serve_upgraded(upgraded_to, io, parts.read_buf, options)).await,
        None => linger(io, is_draining, &options.stopped).await,
    }
    None
}

enum Http1End {
    Aborted,
    Idle,
    Ended(hyper::Result<()>),
}

async fn serve_upgraded<T>(upgraded_to: UpgradedConnection, io: T, ahead: Bytes, options: &ConnectionOptions)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    upgraded_to.run(ReadAhead::new(io, ahead), options.stopped.clone()).await;
}

/// Reads what the client still sends, so that it receives the response; with a time limit, and only while the gateway
/// runs.
async fn linger(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    is_draining: bool,
    stopped: &watch::Receiver<bool>,
) {
    let silent = if is_draining { LINGER_SILENT / 5 } else { LINGER_SILENT };
    let heard = async {
        // A client that has disconnected needs no shutdown.
        if !matches!(timeout(silent, io.shutdown()).await, Ok(Ok(()))) {
            return;
        }
        let (mut waste, mut left) = ([0; 1_024], LINGER_BYTES);
        while let Ok(Ok(read)) = timeout(silent, io.read(&mut waste)).await
            && read > 0
            && left > read
        {
            left -= read;
        }
    };
    let mut stopped = stopped.clone();
    let until_stopped = async {
        tokio::select! {
            biased;
            () = heard => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    };
    // Boxed, because it comes after everything that needs memory.
    let _ = Box::pin(timeout(LINGER, until_stopped)).await;
}

async fn http2<T>(
    stream: TokioIo<ClientStream<T>>,
    connection: Rc<ClientConnection>,
    options: &ConnectionOptions,
) where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let activity = Rc::clone(&connection.activity);
    activity.set_http2();
    let service = service_fn(move |request| answer(Rc::clone(&connection), request));
    let mut builder = http2::Builder::new(StreamTasks);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    let mut http = Box::pin(builder.serve_connection(stream, service));
    let mut is_draining = false;
    let ended = poll_fn(|cx| {
        match activity.order(cx) {
            Order::Abort => {
                if activity.is_evicted() {
                    // The next poll writes GOAWAY.
                    http.as_mut().graceful_shutdown();
                    let _ = http.as_mut().poll(cx);
                }
                return Poll::Ready(Ok(()));
            }
            Order::Drain if !is_draining => {
                is_draining = true;
                http.as_mut().graceful_shutdown();
            }
            _ => {}
        }
        http.as_mut().poll(cx)
    })
    .await;
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

#[cfg(test)]
mod tests;
