//! WebSocket limits: connections, open connections and messages, with an axum server and a tungstenite client.

use crate::events::EventLog;
use crate::support::{HANDSHAKE, Server, api, bucket, clock, limiter};
use axum::Extension;
use axum::Router;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use hivemind_tower::websocket::{Close, ConnectionGuard};
use hivemind_tower::{Algorithm, Limits, PartialLimit, RateLimiter, ServiceLimits};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message as Sent};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn echo(upgrade: WebSocketUpgrade, Extension(guard): Extension<ConnectionGuard>) -> Response {
    upgrade.on_upgrade(move |mut socket| async move {
        if let Err(close) = serve(&mut socket, &guard).await {
            let close = CloseFrame { code: close.code, reason: close.reason.as_ref().into() };
            let _ = socket.send(Message::Close(Some(close))).await;
        }
    })
}

async fn serve(socket: &mut WebSocket, guard: &ConnectionGuard) -> Result<(), Close> {
    let mut limiter = guard.open()?;
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Text(_) | Message::Binary(_)) {
            limiter.check()?;
            let _ = socket.send(message).await;
        }
    }
    Ok(())
}

async fn start(limiter: &RateLimiter) -> Server {
    Server::serve(Router::new().route("/", get(echo)).layer(limiter.layer("api"))).await
}

async fn connect(server: &Server) -> Result<Client, u16> {
    connect_as(server, "").await
}

/// Connects with this API key id; an empty one is ignored.
async fn connect_as(server: &Server, key: &str) -> Result<Client, u16> {
    let mut request = format!("ws://{}/", server.address).into_client_request().unwrap();
    request.headers_mut().insert("x-api-key-id", key.parse().unwrap());
    match connect_async(request).await {
        Ok((client, _)) => Ok(client),
        Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
        Err(other) => panic!("{other}"),
    }
}

/// Sends a message; returns its echo, or the code and reason of the close.
async fn say(client: &mut Client, message: Sent) -> Result<String, (u16, String)> {
    let _ = client.send(message).await;
    loop {
        match client.next().await.unwrap().unwrap() {
            Sent::Text(text) => return Ok(text.to_string()),
            Sent::Close(Some(frame)) => return Err((frame.code.into(), frame.reason.to_string())),
            _ => {}
        }
    }
}

fn service() -> ServiceLimits {
    ServiceLimits::new("api").websocket("/").limit(bucket(1, 1))
}

#[tokio::test]
async fn connections_and_requests_have_separate_limits() {
    let limits = Limits::new().service(service().ws_connection(bucket(1, 2)));
    let server = start(&limiter(limits, &clock())).await;
    // Requests spend the service's burst, which does not affect connections.
    assert_eq!(server.statuses(2, "/").await, [400, 429]);
    assert!(connect(&server).await.is_ok());
    assert!(connect(&server).await.is_ok());
    assert_eq!(connect(&server).await.err(), Some(429));
}

#[tokio::test]
async fn connection_over_limit_can_be_closed_with_4429() {
    let limits = api(PartialLimit::new()).service(service().ws_connection(bucket(1, 1)).close_on_limit());
    let server = start(&limiter(limits, &clock())).await;
    assert!(connect(&server).await.is_ok());
    let mut second = connect(&server).await.unwrap();
    let closed = say(&mut second, Sent::text("hello")).await.unwrap_err();
    assert_eq!(closed, (4429, "Rate limit exceeded. Retry after 1 second.".to_owned()));
}

/// Fails when the slot is released after the handshake.
#[tokio::test]
async fn closed_connection_frees_an_open_slot() {
    let service = service().ws_connection(bucket(9_999, 9_999)).max_open_connections(1);
    let server = start(&limiter(Limits::new().service(service), &clock())).await;
    let mut first = connect(&server).await.unwrap();
    assert_eq!(say(&mut first, Sent::text("open")).await.as_deref(), Ok("open"));
    assert_eq!(connect(&server).await.err(), Some(429));
    first.close(None).await.unwrap();
    // The handler ends asynchronously, so connecting is retried until a deadline.
    let again = async {
        while connect(&server).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), again).await.unwrap();
}

/// Fails when only the client's own connections are counted.
#[tokio::test]
async fn open_connections_per_address_are_ten_times_the_limit() {
    for (has_guard, eleventh) in [(true, Some(429)), (false, None)] {
        let limits = Limits::new().service(service().ws_connection(bucket(100, 100)).max_open_connections(1));
        let wide = bucket(100, 100);
        let limits = if has_guard { limits.ip_guard(wide) } else { limits.without_ip_guard() };
        let server = start(&limiter(limits, &clock())).await;
        let mut open = Vec::new();
        for index in 0..10 {
            let mut client = connect_as(&server, &format!("key-{index}")).await.unwrap();
            assert!(say(&mut client, Sent::text("open")).await.is_ok());
            open.push(client);
        }
        assert_eq!(connect_as(&server, "key-11").await.err(), eleventh);
        assert!(connect(&server).await.is_ok(), "a client without a key has its own count");
    }
}

#[tokio::test]
async fn excess_message_closes_connection_and_next_one_starts_fresh() {
    let clock = clock();
    let service = service().ws_connection(bucket(1, 9)).ws_message(bucket(2, 3));
    let server = start(&limiter(Limits::new().service(service), &clock)).await;
    for _ in 0..2 {
        let mut client = connect(&server).await.unwrap();
        for text in ["one", "two", "three"] {
            client.send(Sent::Ping(text.into())).await.unwrap();
            assert_eq!(say(&mut client, Sent::text(text)).await.as_deref(), Ok(text));
        }
        clock.advance(Duration::from_millis(500));
        let fragments = [("fo", false), ("ur", true)];
        assert_eq!(say_in_fragments(&mut client, fragments).await.as_deref(), Ok("four"));
        let (code, reason) = say(&mut client, Sent::text("five")).await.unwrap_err();
        assert_eq!((code, reason.len() < 124), (4429, true), "{reason}");
    }
}

async fn say_in_fragments(client: &mut Client, parts: [(&str, bool); 2]) -> Result<String, (u16, String)> {
    use tungstenite::protocol::frame::Frame;
    use tungstenite::protocol::frame::coding::{Data, OpCode};
    for (index, (part, is_last)) in parts.into_iter().enumerate() {
        let data = if index == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(part.to_owned(), OpCode::Data(data), is_last);
        client.send(Sent::Frame(frame)).await.unwrap();
    }
    say(client, Sent::Ping("are you there".into())).await
}

/// Fails when continuations are charged.
#[tokio::test]
async fn guard_opens_once_and_frames_are_charged_by_opcode() {
    let limits = Limits::new().service(service().ws_message(bucket(1, 2)));
    let handler = |Extension(guard): Extension<ConnectionGuard>| async move {
        let mut limiter = guard.open().unwrap();
        assert_eq!(guard.open().unwrap_err().code, 1011);
        // Text, its fragments and a ping between them, then binary: two messages.
        for opcode in [0x1, 0x0, 0x9, 0x0, 0xA, 0x2, 0x0] {
            limiter.check_frame(opcode).unwrap();
        }
        let close = limiter.check_frame(0x1).unwrap_err();
        assert!(limiter.check_frame(0x8).is_ok(), "a close is free");
        close.to_string()
    };
    let limiter = limiter(limits, &clock());
    let server = Server::serve(Router::new().route("/", get(handler)).layer(limiter.layer("api"))).await;
    let answer = server.ask("GET /", &HANDSHAKE).await;
    assert_eq!(answer.body, "4429: Rate limit exceeded. Retry after 1 second.");
}

/// Fails with 500 when the guard is missing in the extensions.
#[tokio::test]
async fn disabled_limiter_opens_connections_without_counting() {
    let limits = |enabled| {
        let strict = service().ws_connection(bucket(1, 1)).ws_message(bucket(1, 1)).max_open_connections(1);
        Limits::new().service(strict).enabled(enabled)
    };
    let limiter = limiter(limits(false), &clock());
    let server = start(&limiter).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = connect(&server).await.unwrap();
        for text in ["one", "two", "three"] {
            assert_eq!(say(&mut client, Sent::text(text)).await.as_deref(), Ok(text));
        }
        open.push(client);
    }
    limiter.reload(&limits(true)).unwrap();
    let mut last = connect(&server).await.unwrap();
    assert_eq!(say(&mut last, Sent::text("one")).await.as_deref(), Ok("one"));
    assert_eq!(connect(&server).await.err(), Some(429));
    assert_eq!(
        say(&mut open[0], Sent::text("four")).await.as_deref(),
        Ok("four"),
        "its first counted message"
    );
    assert_eq!(say(&mut open[0], Sent::text("five")).await.unwrap_err().0, 4429);
    limiter.reload(&limits(false)).unwrap();
    assert!(connect(&server).await.is_ok());
    assert_eq!(say(&mut last, Sent::text("two")).await.as_deref(), Ok("two"));
}

/// Fails when the limit of the handshake is kept, and when a window reads the count of a bucket.
#[tokio::test]
async fn reload_applies_to_messages_of_open_connections() {
    let limits = |message| Limits::new().service(service().ws_connection(bucket(1, 9)).ws_message(message));
    let limiter = limiter(limits(bucket(1, 50)), &clock());
    let server = start(&limiter).await;
    let [mut first, mut second] = [connect(&server).await.unwrap(), connect(&server).await.unwrap()];
    for client in [&mut first, &mut second] {
        assert_eq!(say(client, Sent::text("one")).await.as_deref(), Ok("one"));
    }
    limiter.reload(&limits(bucket(1, 1))).unwrap();
    assert_eq!(say(&mut first, Sent::text("two")).await.as_deref(), Ok("two"), "49 tokens are cut to one");
    assert_eq!(say(&mut first, Sent::text("three")).await.unwrap_err().0, 4429);
    let window = PartialLimit::per_second(2).algorithm(Algorithm::FixedWindow);
    limiter.reload(&limits(window)).unwrap();
    for text in ["two", "three"] {
        assert_eq!(say(&mut second, Sent::text(text)).await.as_deref(), Ok(text), "a new count");
    }
    assert_eq!(say(&mut second, Sent::text("four")).await.unwrap_err().0, 4429);
}

/// Fails when the event is missing.
#[tokio::test]
async fn excess_message_is_logged_and_dry_run_is_marked() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    for dry_run in [false, true] {
        let limits = Limits::new().service(service().ws_message(bucket(2, 1).dry_run(dry_run)));
        let server = start(&limiter(limits, &clock())).await;
        let mut client = connect(&server).await.unwrap();
        assert!(say(&mut client, Sent::text("one")).await.is_ok());
        assert_eq!(say(&mut client, Sent::text("two")).await.is_ok(), dry_run);
        let events = events_log.lines("RateLimitExceeded");
        let expected = format!(
            r#"hivemind::security event="RateLimitExceeded" client="ip:127.0.0.1" service="api" endpoint="*" type="ws_message" limit=2 retry_after=1 dry_run={dry_run} left_out=0"#
        );
        assert_eq!(events.last(), Some(&expected), "{events:?}");
    }
}
