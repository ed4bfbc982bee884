//! HTTP server of the admin and metrics ports: HTTP/1.1 and HTTP/2, with or without TLS. Each connection has its own
//! task from its first byte, and closes when it is idle.

use super::bounded::Bounded;
use super::ending::{Door, Farewell, until};
use crate::admin::Stays;
use axum::Router;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hivemind_tls::{PortTls, accept};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tower_service::Service;

/// For the TLS handshake, and then for the head of the first request.
const FIRST: Duration = Duration::from_secs(10);
/// Idle connections close after this time, at the latest after twice as long. Scrapes are a minute apart.
const IDLE: Duration = Duration::from_secs(90);
/// For handlers without their own time limit; the limits of the others are shorter.
const LONGEST: Duration = Duration::from_secs(40);
/// For a client to read its response during shutdown.
const LINGER: Duration = Duration::from_secs(5);
/// A browser sends a few requests at once, a scraper one.
const MOST_STREAMS: u32 = 16;
/// Flow control windows: unread bytes of one request, and of a connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
const LARGEST_HEADERS: u32 = 16 << 10;
const PING: Duration = Duration::from_secs(30);

/// Serves all clients until the listener closes, and then until the last response is sent.
pub(super) async fn serve<L: Listener>(
    mut listener: Bounded<L>,
    tls: Option<Arc<PortTls>>,
    router: Router,
    (door, farewell): (Door, Farewell),
) {
    let mut connections = JoinSet::new();
    {
        let mut shut = pin!(door.shuts());
        loop {
            tokio::select! { biased;
                () = &mut shut => break,
                Some(_) = connections.join_next() => {}
                Some((io, place, _)) = listener.next() => {
                    let (tls, router, farewell) = (tls.clone(), router.clone(), farewell.clone());
                    connections.spawn(async move {
                        attend(io, tls, router, farewell).await;
                        drop(place);
                    });
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn attend<T>(io: T, tls: Option<Arc<PortTls>>, router: Router, farewell: Farewell)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(tls) = tls else { return visit(io, router, farewell).await };
    let acceptor = tls.acceptor();
    let shaken = tokio::select! { biased;
        () = until(farewell.closed.clone()) => return,
        shaken = accept(io, &acceptor, FIRST) => shaken,
    };
    // A failed handshake is logged there.
    if let Ok((stream, _)) = shaken {
        visit(stream, router, farewell).await;
    }
}

/// The requests of a connection.
#[derive(Default)]
struct Asked {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Responses without an end, such as event streams.
    streams: Stays,
    /// An HTTP/2 response was the last one: HTTP/2 has no header for that, so the connection sends GOAWAY.
    goes: Notify,
}

impl Asked {
    fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn is_waiting(&self) -> bool {
        self.begun() > self.ended.load(Ordering::Relaxed)
    }
}

async fn visit<T>(io: T, router: Router, farewell: Farewell)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::new(Asked::default());
    let counted = Arc::clone(&asked);
    let mut closing = pin!(until(farewell.closed.clone()));
    let service = service_fn(move |request| {
        let (router, asked, farewell) = (router.clone(), Arc::clone(&counted), farewell.clone());
        async move { Ok::<_, Infallible>(answer(router, request, asked, &farewell).await) }
    });
    let builder = settings();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut greeting = pin!(timeout(FIRST, pending::<()>()));
    let mut quiet = interval(IDLE);
    quiet.reset();
    let (mut greeted, mut before) = (false, 0);
    loop {
        tokio::select! { biased;
            () = &mut closing => break,
            _ = &mut greeting, if !greeted => {
                greeted = true;
                if asked.begun() == 0 {
                    return;
                }
            }
            _ = quiet.tick() => {
                let so_far = std::mem::replace(&mut before, asked.begun());
                if before == so_far && !asked.is_waiting() && asked.streams.are_none() {
                    break;
                }
            }
            // Requests in progress are still answered.
            () = asked.goes.notified() => connection.as_mut().graceful_shutdown(),
            _ = &mut connection => return,
        }
    }
    connection.as_mut().graceful_shutdown();
    while timeout(LINGER, &mut connection).await.is_err() && asked.is_waiting() {}
}

async fn answer(
    mut router: Router,
    mut request: hyper::Request<Incoming>,
    asked: Arc<Asked>,
    farewell: &Farewell,
) -> Response {
    asked.begun.fetch_add(1, Ordering::Relaxed);
    request.extensions_mut().insert(asked.streams.clone());
    let is_http2 = request.version() == Version::HTTP_2;
    let ended = Ended(asked);
    let mut answer = match timeout(LONGEST, router.call(request)).await {
        Ok(Ok(answered)) => answered,
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    // A client may send its next request just before the connection closes, so a response announces it.
    match farewell.is_told() {
        true if is_http2 => ended.0.goes.notify_one(),
        true => drop(answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"))),
        false => {}
    }
    answer
}

/// Counts the end of a request, also when the client cancels the stream.
struct Ended(Arc<Asked>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

fn settings() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The timer above limits the wait for a head, for both HTTP versions.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(LARGEST_HEADERS)
        .keep_alive_interval(PING);
    builder
}
