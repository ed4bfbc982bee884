#![expect(clippy::print_stdout, reason = "an example prints its address")]

//! A WebSocket chat with a message limit: `cargo run --features axum --example websocket_chat`.

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::{Router, response::Response, routing::get};
use hivemind_tower::websocket::{Close, ConnectionGuard};
use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::timeout;

type Room = broadcast::Sender<Message>;

async fn join(
    upgrade: WebSocketUpgrade,
    State(room): State<Room>,
    Extension(guard): Extension<ConnectionGuard>,
) -> Response {
    upgrade.on_upgrade(move |mut socket| async move {
        if let Err(Close { code, reason, .. }) = chat(&mut socket, &room, &guard).await {
            let frame = CloseFrame { code, reason: reason.as_ref().into() };
            let _ = socket.send(Message::Close(Some(frame))).await;
            // Reads what is still on its way. Dropping the socket with unread data would reset the connection,
            // and the client might never see the code.
            let rest = async { while let Some(Ok(_)) = socket.recv().await {} };
            let _ = timeout(Duration::from_secs(1), rest).await;
        }
    })
}

/// Passes messages on until the client leaves or exceeds its limit.
async fn chat(socket: &mut WebSocket, room: &Room, guard: &ConnectionGuard) -> Result<(), Close> {
    let (mut messages, mut incoming) = (guard.open()?, room.subscribe());
    loop {
        tokio::select! {
            received = socket.recv() => match received {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    messages.check()?;
                    let _ = room.send(message);
                }
                Some(Ok(_)) => {} // Pings and pongs are free; axum answers them.
                Some(Err(_)) | None => return Ok(()),
            },
            Ok(message) = incoming.recv() => {
                let _ = socket.send(message).await;
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let messages = PartialLimit::new().requests(1).burst(3);
    let chat = ServiceLimits::new("chat").websocket("/").ws_message(messages).close_on_limit();
    let limiter = RateLimiter::new(Limits::new().service(chat))?;

    let router = Router::new().route("/", get(join)).with_state(broadcast::channel(16).0);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    let service = router.layer(limiter.layer("chat")).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}
