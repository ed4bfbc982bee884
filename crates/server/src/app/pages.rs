//! Serves the pages of the admin and metrics ports: HTTP/1.1 and HTTP/2, with TLS or without. Whoever connects has a
//! task of its own from its first byte, handshake included, and goes when it has nothing to ask.

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

/// For the handshake, and then for the head of the first request.
const FIRST: Duration = Duration::from_secs(10);
/// Who has asked for nothing for so long, and at most for twice that, goes. Scrapes are a minute apart.
const IDLE: Duration = Duration::from_secs(90);
/// For a request to come and to be answered by pages that have no clock of their own; the others' is shorter.
const LONGEST: Duration = Duration::from_secs(40);
/// For an answer to be taken by whoever is shown out.
const LINGER: Duration = Duration::from_secs(5);
/// A browser asks for a few things at once, a scrape for one.
const MOST_STREAMS: u32 = 16;
/// What may be on its way before anybody reads it, of one request and of a connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
const LARGEST_HEADERS: u32 = 16 << 10;
const PING: Duration = Duration::from_secs(30);

/// Serves all who come until told to close, and then until the last of them has its answer.
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
    // Where it fails, it is told of.
    if let Ok((stream, _)) = shaken {
        visit(stream, router, farewell).await;
    }
}

/// What a connection asks for.
#[derive(Default)]
struct Asked {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Answers that go on and on.
    streams: Stays,
    /// An answer by HTTP/2 was the last: it has no header for that, and the connection says so.
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
            // What is under way is answered, and it goes on until then.
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
    // Who is shown out between two requests may have sent one already, so an answer says it before.
    match farewell.is_told() {
        true if is_http2 => ended.0.goes.notify_one(),
        true => drop(answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"))),
        false => {}
    }
    answer
}

/// However a request ends: a stream that is taken back is dropped.
struct Ended(Arc<Asked>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

fn settings() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Heads are waited for by the one clock above, whichever HTTP they are of.
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
