//! WebSockets through the gateway: forwarded, counted, and closed with a code that the client can read.

use crate::harness::{Gateway, url};
use futures_util::{SinkExt, StreamExt};
use hivemind_testkit::within;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, accept_async, connect_async};

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// An upstream that echoes each message and closes on `bye`.
pub(crate) async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(mut peer) = accept_async(socket).await else { return };
                while let Some(Ok(message)) = peer.next().await {
                    let is_bye = message == Message::text("bye");
                    let done = match message {
                        _ if is_bye => peer.close(None).await,
                        Message::Text(_) | Message::Binary(_) => peer.send(message).await,
                        _ => Ok(()),
                    };
                    if done.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

async fn gateway(websocket: Value) -> Gateway {
    let service = json!({"id": "app", "upstream": url(echo().await), "websocket": websocket});
    Gateway::with(&json!({"services": [service]})).await
}

/// Limits that only tests of limits reach.
fn plenty() -> Value {
    let much = json!({"requests": 1_000_000, "window": "1s", "burst": 1_000_000});
    json!({"connections": much, "messages": much})
}

async fn open(gateway: &Gateway) -> Result<Client, Error> {
    let opened = within("an answer", connect_async(format!("ws://{}/chat", gateway.listen))).await;
    opened.map(|(client, _)| client)
}

/// Sends a message and expects its echo, or returns the close code.
async fn exchange(client: &mut Client, text: &str) -> Result<(), u16> {
    let _ = client.send(Message::text(text)).await;
    match next(client).await {
        Message::Text(back) => {
            assert_eq!(back.as_str(), text);
            Ok(())
        }
        Message::Close(Some(frame)) => {
            assert!(frame.reason.len() < 124);
            Err(frame.code.into())
        }
        other => panic!("{other:?}"),
    }
}

async fn next(client: &mut Client) -> Message {
    within("a frame", client.next()).await.expect("a frame").unwrap()
}

fn per_day(burst: u32) -> Value {
    json!({"requests": burst, "window": "24h", "burst": burst})
}

#[tokio::test]
async fn messages_of_any_size_and_kind_pass_both_ways() {
    let gateway = gateway(plenty()).await;
    let mut client = open(&gateway).await.unwrap();
    for size in [0, 1, 125, 126, 65_535, 65_536, 3_000_000] {
        let text = "x".repeat(size);
        assert_eq!(exchange(&mut client, &text).await, Ok(()), "{size}");
        let bytes = Message::binary(vec![7; size]);
        client.send(bytes.clone()).await.unwrap();
        assert_eq!(next(&mut client).await, bytes, "{size}");
    }
    client.send(Message::Ping(b"are you there"[..].into())).await.unwrap();
    assert_eq!(next(&mut client).await, Message::Pong(b"are you there"[..].into()));
}

#[tokio::test]
async fn close_from_either_side_is_forwarded() {
    let gateway = gateway(plenty()).await;
    let mut client = open(&gateway).await.unwrap();
    client.send(Message::text("bye")).await.unwrap();
    assert!(matches!(next(&mut client).await, Message::Close(_)), "the upstream's close arrives");
    assert!(within("the end", client.next()).await.is_none_or(|last| last.is_err()));

    let mut client = open(&gateway).await.unwrap();
    client.close(None).await.unwrap();
    while let Some(Ok(_)) = within("the end", client.next()).await {}
}

#[tokio::test]
async fn message_limit_closes_only_its_own_connection() {
    let mut limits = plenty();
    limits["messages"] = per_day(3);
    let gateway = gateway(limits).await;
    let (mut first, mut second) = (open(&gateway).await.unwrap(), open(&gateway).await.unwrap());
    for number in 0..3 {
        assert_eq!(exchange(&mut first, "hello").await, Ok(()), "{number}");
    }
    assert_eq!(exchange(&mut second, "hello").await, Ok(()), "another connection counts by itself");
    assert_eq!(exchange(&mut first, "one too many").await, Err(4429));
    assert_eq!(exchange(&mut second, "hello").await, Ok(()));
}

#[tokio::test]
async fn fragmented_message_counts_once_and_pings_are_free() {
    let mut limits = plenty();
    limits["messages"] = per_day(2);
    let gateway = gateway(limits).await;
    let mut client = open(&gateway).await.unwrap();
    for number in 0..2 {
        let part = |opcode, last| Message::Frame(Frame::message(&b"abc"[..], OpCode::Data(opcode), last));
        client.send(part(Data::Text, false)).await.unwrap();
        for _ in 0..10 {
            client.send(Message::Ping(b"p"[..].into())).await.unwrap();
            client.send(part(Data::Continue, false)).await.unwrap();
        }
        client.send(part(Data::Continue, true)).await.unwrap();
        loop {
            match next(&mut client).await {
                Message::Pong(_) => {}
                Message::Text(text) => break assert_eq!(text.as_str(), "abc".repeat(12)),
                other => panic!("{number}: {other:?}"),
            }
        }
    }
    assert_eq!(exchange(&mut client, "third").await, Err(4429));
}

#[tokio::test]
async fn upstream_messages_are_not_counted() {
    let mut limits = plenty();
    limits["messages"] = per_day(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let talk = tokio::spawn(async move {
        let mut peer = accept_async(listener.accept().await.unwrap().0).await.unwrap();
        for number in 0..50 {
            peer.send(Message::text(number.to_string())).await.unwrap();
        }
        while let Some(Ok(_)) = peer.next().await {}
    });
    let gateway =
        Gateway::with(&json!({"services": [{"id": "app", "upstream": url(address), "websocket": limits}]}))
            .await;
    let mut client = open(&gateway).await.unwrap();
    for number in 0..50 {
        assert_eq!(next(&mut client).await, Message::text(number.to_string()));
    }
    drop(client);
    within("the upstream's end", talk).await.unwrap();
}

#[tokio::test]
async fn connection_limit_answers_429_or_closes_with_4429() {
    for (on_limit, visible_to_script) in [("http429", false), ("close_4429", true)] {
        let mut limits = plenty();
        limits["connections"] = per_day(2);
        limits["on_limit"] = json!(on_limit);
        let gateway = gateway(limits).await;
        for _ in 0..2 {
            let mut client = open(&gateway).await.unwrap();
            assert_eq!(exchange(&mut client, "hello").await, Ok(()));
        }
        match open(&gateway).await {
            Ok(mut client) => {
                assert!(visible_to_script, "{on_limit}");
                assert!(
                    matches!(next(&mut client).await, Message::Close(Some(frame)) if u16::from(frame.code) == 4429)
                );
            }
            Err(Error::Http(answer)) => {
                assert!(!visible_to_script, "{on_limit}");
                assert_eq!(answer.status(), 429);
                assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn open_websocket_count_is_capped_per_client() {
    let mut limits = plenty();
    limits["max_open"] = json!(2);
    let gateway = gateway(limits).await;
    let (first, mut second) = (open(&gateway).await.unwrap(), open(&gateway).await.unwrap());
    assert!(open(&gateway).await.is_err());
    drop(first);
    // A closed connection makes room for another.
    let placed = async {
        loop {
            if let Ok(client) = open(&gateway).await {
                break client;
            }
        }
    };
    let mut third = within("a place", placed).await;
    assert_eq!(exchange(&mut third, "hello").await, Ok(()));
    assert_eq!(exchange(&mut second, "hello").await, Ok(()));
}

#[tokio::test]
async fn upgrade_counts_as_connection_and_not_as_request() {
    let mut limits = plenty();
    limits["connections"] = per_day(1);
    let service =
        json!({"id": "app", "upstream": url(echo().await), "websocket": limits, "limits": per_day(1)});
    let gateway = Gateway::with(&json!({"services": [service]})).await;
    assert!(open(&gateway).await.is_ok());
    assert!(open(&gateway).await.is_err());
    // The request bucket is unspent; the echo upstream answers a plain request with an error.
    assert_ne!(gateway.get("/").await.code(), 429);
    assert_eq!(gateway.get("/").await.code(), 429);
}

#[tokio::test]
async fn upstream_refusal_of_upgrade_reaches_the_client() {
    let upstream = crate::harness::Echo::start().await;
    let gateway = Gateway::with(
        &json!({"services": [{"id": "app", "upstream": url(upstream.address), "websocket": plenty()}]}),
    )
    .await;
    let Err(Error::Http(answer)) = open(&gateway).await else { panic!("it opened") };
    assert_eq!(answer.status(), 200);
    let received = upstream.only();
    assert_eq!(
        (received.header("upgrade"), received.header("x-forwarded-for")),
        (Some("websocket"), Some("127.0.0.1"))
    );
}

#[tokio::test]
async fn open_websockets_are_closed_with_1001_at_shutdown() {
    let mut gateway = gateway(plenty()).await;
    let mut client = open(&gateway).await.unwrap();
    assert_eq!(exchange(&mut client, "hello").await, Ok(()));
    gateway.signal("TERM").await;
    let last = next(&mut client).await;
    assert!(matches!(&last, Message::Close(Some(frame)) if u16::from(frame.code) == 1001), "{last:?}");
    drop(client);
    assert_eq!(gateway.ended().await.code(), Some(0));
}

#[tokio::test]
async fn idle_websocket_is_closed_after_timeout() {
    let service = json!({"id": "app", "upstream": url(echo().await), "websocket": plenty(), "timeouts": {"idle": "300ms"}});
    let gateway = Gateway::with(&json!({"services": [service]})).await;
    let mut client = open(&gateway).await.unwrap();
    assert_eq!(exchange(&mut client, "hello").await, Ok(()));
    while let Some(Ok(_)) = within("its end", client.next()).await {}
}

// Seen failing on: an upgrade that is accepted to be closed although the service has no WebSockets.
#[tokio::test]
async fn upgrade_without_websocket_service_is_a_plain_request() {
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    let upstream = crate::harness::Echo::start().await;
    let mut limits = plenty();
    limits["paths"] = json!(["/ws"]);
    limits["on_limit"] = json!("close_4429");
    limits["connections"] = per_day(1);
    let service = json!({
        "id": "app", "upstream": url(upstream.address), "websocket": limits, "limits": per_day(1),
    });
    let gateway = Gateway::with(&json!({"services": [service]})).await;
    let ask = async |path: &str, key: &str| {
        let mut wire = gateway.connect().await;
        wire.send(format!(
            "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n"
        ))
        .await;
        wire.answer().await
    };
    assert_eq!(ask("/other", KEY).await.code(), 200);
    assert_eq!(upstream.only().header("upgrade"), None, "it was forwarded as a plain request");
    let refused = ask("/other", KEY).await;
    assert_eq!((refused.code(), refused.problem()["status"].as_u64()), (429, Some(429)));
    // If upgrades are allowed, one over the limit is closed with a code; an invalid handshake is rejected
    // before.
    assert_eq!(ask("/ws", KEY).await.code(), 200, "the echo upstream does not upgrade");
    assert_eq!(ask("/ws", "none").await.code(), 400);
    assert_eq!(ask("/ws", KEY).await.code(), 101);
    upstream.take();
}
