#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its address")]

//! A WebSocket echo with a message limit, on tungstenite and hyper without a framework:
//! `cargo run --example tungstenite`.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hivemind_tower::websocket::{Close, ConnectionGuard};
use hivemind_tower::{Limits, PartialLimit, Peer, RateLimiter, ServiceLimits};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::error::Error;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tower::{Layer, ServiceBuilder, service_fn};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

async fn upgrade(mut request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, hyper::http::Error> {
    let key = request.headers().get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let guard = request.extensions().get::<ConnectionGuard>().cloned();
    let (Some(key), Some(guard)) = (key, guard) else {
        return Response::builder().status(StatusCode::UPGRADE_REQUIRED).body(Empty::new());
    };
    tokio::spawn(async move {
        let Ok(upgraded) = hyper::upgrade::on(&mut request).await else { return };
        let mut socket = Socket::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        if let Err(Close { code, reason, .. }) = echo(&mut socket, &guard).await {
            let frame = CloseFrame { code: code.into(), reason: reason.as_ref().into() };
            let _ = socket.close(Some(frame)).await;
            // Reads what is still on its way. Dropping the socket with unread data would reset the connection,
            // and the client might never see the code.
            let rest = async { while let Some(Ok(_)) = socket.next().await {} };
            let _ = timeout(Duration::from_secs(1), rest).await;
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_ACCEPT, key)
        .body(Empty::new())
}

/// Echoes messages until the client leaves or exceeds its limit.
async fn echo(socket: &mut Socket, guard: &ConnectionGuard) -> Result<(), Close> {
    let mut messages = guard.open()?;
    while let Some(Ok(message)) = socket.next().await {
        // Pings are free; the socket answers them itself.
        if message.is_text() || message.is_binary() {
            messages.check()?;
            let _ = socket.send(message).await;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let message = PartialLimit::new().requests(1).burst(3);
    let limiter = RateLimiter::new(
        Limits::new().service(ServiceLimits::new("echo").websocket("/").ws_message(message)),
    )?;
    let guarded = limiter.layer("echo").layer(service_fn(upgrade));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        let with_peer = ServiceBuilder::new().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            request
        });
        let service = TowerToHyperService::new(with_peer.service(guarded.clone()));
        let server = hyper::server::conn::http1::Builder::new();
        let connection = server.serve_connection(TokioIo::new(stream), service).with_upgrades();
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}
