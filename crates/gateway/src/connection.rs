//! One client connection, from its first byte to its end: protocol detection, timeouts, and drain.

use super::Arrival;
use super::failure::Failure;
use super::forwarding::Origin;
use super::line::Line;
use super::presence::{Limits, Order, Presence};
use super::proxy::answer;
use super::rewound::Rewound;
use super::streams::StreamTasks;
use super::upgrade::Ticket;
use super::visitor::{Desk, Visitor};
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
const MOST_STREAMS: u32 = 128;
/// Flow control windows for request bodies, per stream and per connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Response bytes buffered per stream for a slow client.
const SEND_BUFFER: usize = 64 << 10;
/// Maximum streams that a client may open and reset: more is an attack (CVE-2023-44487).
const MOST_TAKEN_BACK: usize = 64;
/// hyper's buffer per connection; its own minimum, and enough for any head.
const LEAST_BUFFER: usize = 64 << 10;
/// hyper's default maximum number of headers.
const USUAL_HEADERS: usize = 100;
/// An idle HTTP/2 peer is pinged, and aborted if it does not answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(10);
/// After an early error response the client's remaining bytes are read for this long (between two bytes, and in
/// total), so that it receives the response: closing a socket with unread bytes discards what it has sent.
const LINGER_SILENT: Duration = Duration::from_secs(5);
const LINGER: Duration = Duration::from_secs(30);

/// How connections are served.
#[derive(Clone)]
pub(super) struct Manner {
    pub(super) limits: Limits,
    pub(super) max_header_bytes: usize,
    pub(super) max_headers: usize,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) stopped: watch::Receiver<bool>,
}

/// Serves a connection to its end.
pub(super) async fn serve(arrival: Arrival, desk: Rc<Desk>, manner: Rc<Manner>) -> io::Result<()> {
    let Arrival { stream, peer, seat: _seat } = arrival;
    let stream = TcpStream::from_std(stream)?;
    let presence = desk.roll.enter();
    let is_trusted = desk.shared.clients.trusts(Some(peer.ip()));
    let origin = Origin::new(peer.ip(), is_trusted, manner.tls.is_some());
    let visitor = Rc::new(Visitor { desk, presence, origin, ticket: None.into() });
    match &manner.tls {
        None => speak(stream, false, visitor, &manner).await,
        Some(acceptor) => {
            // Boxed, because it ends before the rest starts. Failures are logged there.
            let shaken = Box::pin(accept(stream, acceptor, manner.limits.head)).await;
            if let Ok((stream, negotiated)) = shaken {
                Box::pin(speak(stream, negotiated.is_http2, visitor, &manner)).await;
            }
        }
    }
    Ok(())
}

/// Detects the HTTP version, and serves it.
async fn speak<T>(mut io: T, is_http2: bool, visitor: Rc<Visitor>, manner: &Manner)
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut first = Vec::new();
    let presence = Rc::clone(&visitor.presence);
    let is_http2 = is_http2 || {
        let opening = attended(&presence, opening(&mut io, &mut first)).await;
        let Some(Ok(is_http2)) = opening else { return };
        is_http2
    };
    // Boxed, so that a connection does not reserve memory for the larger of both.
    if is_http2 {
        let line = TokioIo::new(Line::new(io, &first, presence, None));
        return Box::pin(http2(line, visitor, manner)).await;
    }
    loop {
        let line = TokioIo::new(Line::new(io, &first, Rc::clone(&presence), visitor.unheard()));
        let Some(resting) = Box::pin(http1(line, Rc::clone(&visitor), manner)).await else { return };
        (io, first) = (resting.io, resting.ahead);
        // From here on it is HTTP/1.1, whatever the bytes look like.
        if first.is_empty() && !matches!(attended(&presence, opening(&mut io, &mut first)).await, Some(Ok(_)))
        {
            return;
        }
        presence.stays();
        presence.hears();
    }
}

/// An idle connection between two requests: clients may keep it for long, and hyper's state for it is twenty times
/// what waiting needs.
struct Resting<T> {
    io: T,
    /// A copy, because a slice would keep hyper's read buffer in memory.
    ahead: Vec<u8>,
}

/// Awaits a future for as long as the connection may stay open.
async fn attended<F: Future>(presence: &Presence, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match presence.order(cx) {
        Order::Stay | Order::Rest => future.as_mut().poll(cx).map(Some),
        Order::Leave | Order::Cut => Poll::Ready(None),
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
async fn http1<T>(line: TokioIo<Line<T>>, visitor: Rc<Visitor>, manner: &Manner) -> Option<Resting<T>>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let presence = Rc::clone(&visitor.presence);
    let served = Rc::clone(&visitor);
    // An idle connection has no hyper state, although hyper reserves memory for a response.
    let service = service_fn(move |request| answer(Rc::clone(&served), request));
    let mut builder = http1::Builder::new();
    builder.max_buf_size(manner.max_header_bytes.max(LEAST_BUFFER)).max_header_size(manner.max_header_bytes);
    // With an explicit maximum, hyper initializes that many headers for each request, even for its default.
    if manner.max_headers != USUAL_HEADERS {
        builder.max_headers(manner.max_headers);
    }
    let mut connection = builder.serve_connection(line, service);
    let mut is_leaving = false;
    let outcome = poll_fn(|cx| {
        match presence.order(cx) {
            Order::Cut => return Poll::Ready(Outcome::Cut),
            Order::Rest if presence.is_at_rest() => return Poll::Ready(Outcome::Rests),
            Order::Rest => presence.stays(),
            Order::Leave if !is_leaving => {
                is_leaving = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            _ => {}
        }
        Pin::new(&mut connection).poll(cx).map(Outcome::Ended)
    })
    .await;
    let ended = match outcome {
        Outcome::Cut => {
            if presence.is_within_head() {
                visitor.was_unheard(Failure::ClientTooSlow);
            }
            return None;
        }
        Outcome::Rests => {
            let parts = connection.into_parts();
            return Some(Resting { io: parts.io.into_inner().into_inner(), ahead: parts.read_buf.to_vec() });
        }
        Outcome::Ended(ended) => ended,
    };
    if let Err(error) = &ended {
        tracing::debug!("a connection ended: {error}");
        // A truncated response must not look complete.
        if error.is_user() {
            return None;
        }
    }
    let parts = connection.into_parts();
    let io = parts.io.into_inner().into_inner();
    drop(parts.service);
    let ticket = visitor.ticket.take().filter(|_| ended.is_ok());
    drop(visitor);
    match ticket {
        Some(ticket) => Box::pin(upgraded(ticket, io, parts.read_buf, manner)).await,
        None => linger(io, is_leaving, &manner.stopped).await,
    }
    None
}

enum Outcome {
    Cut,
    Rests,
    Ended(hyper::Result<()>),
}

async fn upgraded<T>(ticket: Ticket, io: T, ahead: Bytes, manner: &Manner)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    ticket.run(Rewound::new(io, ahead), manner.stopped.clone()).await;
}

/// Reads what the client still sends, so that it receives the response; with a time limit, and only while the gateway
/// runs.
async fn linger(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    is_leaving: bool,
    stopped: &watch::Receiver<bool>,
) {
    let silent = if is_leaving { LINGER_SILENT / 5 } else { LINGER_SILENT };
    let heard = async {
        // A client that has disconnected needs no shutdown.
        if !matches!(timeout(silent, io.shutdown()).await, Ok(Ok(()))) {
            return;
        }
        let mut waste = [0; 1_024];
        while let Ok(Ok(read)) = timeout(silent, io.read(&mut waste)).await
            && read > 0
        {}
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

async fn http2<T>(line: TokioIo<Line<T>>, visitor: Rc<Visitor>, manner: &Manner)
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let presence = Rc::clone(&visitor.presence);
    presence.speaks_http2();
    let service = service_fn(move |request| answer(Rc::clone(&visitor), request));
    let mut builder = http2::Builder::new(StreamTasks);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(manner.max_header_bytes).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(MOST_TAKEN_BACK)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    let mut connection = Box::pin(builder.serve_connection(line, service));
    let mut is_leaving = false;
    let ended = poll_fn(|cx| {
        match presence.order(cx) {
            Order::Cut => return Poll::Ready(Ok(())),
            Order::Leave if !is_leaving => {
                is_leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            _ => {}
        }
        connection.as_mut().poll(cx)
    })
    .await;
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

#[cfg(test)]
mod tests;
