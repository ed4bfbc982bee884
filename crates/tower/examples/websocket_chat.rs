#![expect(clippy::print_stdout, reason = "an example says where it listens")]

//! A chat in which nobody can flood: `cargo run --features axum --example websocket_chat`.

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
            // What is still on its way is read: dropped with it unread, the socket would be reset and the
            // client might never see the code.
            let rest = async { while let Some(Ok(_)) = socket.recv().await {} };
            let _ = timeout(Duration::from_secs(1), rest).await;
        }
    })
}

/// Until the client leaves, or has to.
async fn chat(socket: &mut WebSocket, room: &Room, guard: &ConnectionGuard) -> Result<(), Close> {
    let (mut messages, mut heard) = (guard.open()?, room.subscribe());
    loop {
        tokio::select! {
            said = socket.recv() => match said {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    messages.check()?;
                    let _ = room.send(message);
                }
                Some(Ok(_)) => {} // Pings and pongs are free, and answered by axum.
                Some(Err(_)) | None => return Ok(()),
            },
            Ok(message) = heard.recv() => {
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
