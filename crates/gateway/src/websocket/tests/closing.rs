//! Connections that the gateway closes: over the limit, invalid frames, shutdown.

use super::super::{SpliceEnd, Violation, refuse_with_close};
use super::support::{PINGS, SplicedConnection, frame, limiter, server_frame, socket};
use futures_util::{SinkExt, StreamExt};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};

/// The Close frame that the gateway sends to the upstream: 1001, masked.
const GOING_AWAY: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 3, 233];

// Fails when the limiter is asked after the frame has passed.
#[tokio::test(start_paused = true)]
async fn message_over_the_limit_closes_with_4429() {
    let connection = SplicedConnection::open(Some(limiter(2).await), 4_096);
    let mut client = socket(connection.client, Role::Client).await;
    let mut upstream = socket(connection.upstream, Role::Server).await;
    for text in ["one", "two", "three"] {
        client.send(Message::text(text)).await.unwrap();
    }
    for text in ["one", "two"] {
        assert_eq!(upstream.next().await.unwrap().unwrap(), Message::text(text));
    }
    let Message::Close(Some(close)) = upstream.next().await.unwrap().unwrap() else { panic!("no Close") };
    assert_eq!(close.code, CloseCode::Away);
    let Message::Close(Some(close)) = client.next().await.unwrap().unwrap() else { panic!("no Close") };
    assert_eq!((u16::from(close.code), &*close.reason), (4429, "Rate limit exceeded. Retry after 1 second."));
    assert!(client.next().await.is_none(), "tungstenite responds, and the connection closes cleanly");
    let spliced =
        timeout(Duration::from_millis(100), connection.spliced).await.expect("at the client's Close");
    let spliced = spliced.unwrap();
    assert!(matches!(&spliced.end, SpliceEnd::Limited(close) if close.code == 4429), "{spliced:?}");
    assert_eq!(spliced.messages, 2);
}

// Fails when control frames have no limit of their own.
#[tokio::test(start_paused = true)]
async fn pings_over_their_limit_close_with_4429() {
    let mut connection = SplicedConnection::open(Some(limiter(1).await), 1 << 16);
    let half = usize::try_from(PINGS / 2).unwrap();
    let allowed = [frame(0x89, b"").repeat(half), frame(0x8A, b"").repeat(half)].concat();
    let sent = [&allowed[..], &frame(0x8A, b""), &frame(0x88, b"")].concat();
    connection.client.write_all(&sent).await.unwrap();
    let mut up = Vec::new();
    connection.upstream.read_to_end(&mut up).await.unwrap();
    assert_eq!(up, [&allowed[..], &GOING_AWAY].concat());
    let mut down = Vec::new();
    connection.client.read_to_end(&mut down).await.unwrap();
    assert_eq!(down, server_frame(0x88, &[&4_429_u16.to_be_bytes()[..], b"Too many pings."].concat()));
    assert!(matches!(connection.spliced.await.unwrap().end, SpliceEnd::TooManyPings));
}

// Fails when the rest of a read passes together with the bytes before the refused frame.
#[tokio::test(start_paused = true)]
async fn refused_frame_does_not_reach_the_upstream() {
    let sent = [frame(0x81, b"one"), frame(0x01, &[b'x'; 300]), frame(0x89, b"ping")].concat();
    for size in [1, 3, 9, 1_000] {
        let mut connection = SplicedConnection::open(Some(limiter(1).await), 4_096);
        for piece in sent.chunks(size) {
            connection.client.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut up = Vec::new();
        connection.client.shutdown().await.unwrap();
        connection.upstream.read_to_end(&mut up).await.unwrap();
        assert_eq!(up, [&frame(0x81, b"one")[..], &GOING_AWAY].concat(), "in pieces of {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn fragments_and_control_frames_are_not_charged() {
    let mut connection = SplicedConnection::open(Some(limiter(1).await), 1 << 16);
    let mut sent = frame(0x01, b"begun");
    for _ in 0..PINGS / 2 {
        sent.extend([frame(0x89, b"ping"), frame(0x00, b"more"), frame(0x8A, b"")].concat());
    }
    sent.extend([frame(0x80, b"done"), frame(0x88, &[3, 232])].concat());
    connection.client.write_all(&sent).await.unwrap();
    let mut up = vec![0; sent.len()];
    connection.upstream.read_exact(&mut up).await.unwrap();
    assert_eq!(up, sent);
}

// Fails when an invalid frame passes, or closes with 4429.
#[tokio::test(start_paused = true)]
async fn malformed_frame_closes_with_1002() {
    let mut connection = SplicedConnection::open(Some(limiter(9).await), 4_096);
    let good = frame(0x81, b"good");
    connection.client.write_all(&[&good[..], &[0x83, 0x80, 1, 2, 3, 4]].concat()).await.unwrap();
    let mut up = vec![0; good.len() + GOING_AWAY.len()];
    connection.upstream.read_exact(&mut up).await.unwrap();
    assert_eq!(up, [&good[..], &GOING_AWAY].concat());
    let mut down = Vec::new();
    connection.client.read_to_end(&mut down).await.unwrap();
    assert_eq!(down, server_frame(0x88, b"\x03\xeaA frame has a reserved opcode."));
    let end = connection.spliced.await.unwrap().end;
    assert!(matches!(end, SpliceEnd::Malformed(Violation::Opcode)));
    assert_eq!(end.to_string(), "closed with 1002: A frame has a reserved opcode.");
}

// Fails when the Close is written immediately.
#[tokio::test(start_paused = true)]
async fn close_waits_for_the_end_of_the_current_frame() {
    let mut connection = SplicedConnection::open(Some(limiter(1).await), 4_096);
    connection.upstream.write_all(b"\x82\x08half").await.unwrap();
    connection.client.read_exact(&mut [0; 6]).await.unwrap();
    connection.client.write_all(&[frame(0x81, b"a"), frame(0x81, b"b")].concat()).await.unwrap();
    connection.upstream.read_exact(&mut [0; 7]).await.unwrap();
    connection.upstream.read_exact(&mut [0; 8]).await.unwrap();
    connection.upstream.write_all(b"more\x81\x01x").await.unwrap();
    let mut down = [0; 8];
    connection.client.read_exact(&mut down).await.unwrap();
    assert_eq!((&down[..4], down[4], &down[6..]), (&b"more"[..], 0x88, &4429_u16.to_be_bytes()[..]));
}

// Fails without a time limit, or when the Close is written inside of the frame.
#[tokio::test(start_paused = true)]
async fn unfinished_frame_does_not_delay_the_close_forever() {
    let mut connection = SplicedConnection::open(Some(limiter(1).await), 4_096);
    connection.upstream.write_all(b"\x82\x08half").await.unwrap();
    connection.client.read_exact(&mut [0; 6]).await.unwrap();
    connection.client.write_all(&[frame(0x81, b"a"), frame(0x81, b"b")].concat()).await.unwrap();
    let mut down = Vec::new();
    timeout(Duration::from_secs(3), connection.client.read_to_end(&mut down)).await.expect("an end").unwrap();
    assert_eq!(down, b"");
    assert!(matches!(connection.spliced.await.unwrap().end, SpliceEnd::Limited(_)));
}

// Fails on a second Close.
#[tokio::test(start_paused = true)]
async fn upstream_close_is_the_last_frame() {
    let mut connection = SplicedConnection::open(Some(limiter(1).await), 4_096);
    let close = server_frame(0x88, &[3, 232]);
    connection.upstream.write_all(&close).await.unwrap();
    connection.client.read_exact(&mut [0; 4]).await.unwrap();
    connection.client.write_all(&[frame(0x81, b"a"), frame(0x81, b"b")].concat()).await.unwrap();
    let mut down = Vec::new();
    connection.client.read_to_end(&mut down).await.unwrap();
    assert_eq!(down, b"");
}

// Fails when a client's Close is dropped during shutdown.
#[tokio::test(start_paused = true)]
async fn shutdown_closes_and_forwards_the_clients_close() {
    for counted in [true, false] {
        let limiter = if counted { Some(limiter(9).await) } else { None };
        let connection = SplicedConnection::open(limiter, 4_096);
        let mut client = socket(connection.client, Role::Client).await;
        let mut upstream = socket(connection.upstream, Role::Server).await;
        connection.stop.send(true).unwrap();
        let Message::Close(Some(close)) = client.next().await.unwrap().unwrap() else { panic!("no Close") };
        assert_eq!((close.code, &*close.reason), (CloseCode::Away, "The gateway is shutting down."));
        assert!(client.next().await.is_none());
        let Message::Close(Some(close)) = upstream.next().await.unwrap().unwrap() else { panic!("no Close") };
        assert_eq!(close.code, CloseCode::Away);
        drop(upstream);
        let spliced = timeout(Duration::from_millis(100), connection.spliced).await.expect("an end").unwrap();
        assert!(matches!(spliced.end, SpliceEnd::Shutdown), "{spliced:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_close_times_out_after_two_seconds() {
    let connection = SplicedConnection::open(Some(limiter(9).await), 4_096);
    connection.stop.send(true).unwrap();
    let spliced = timeout(Duration::from_millis(2_100), connection.spliced).await.expect("an end").unwrap();
    assert!(matches!(spliced.end, SpliceEnd::Shutdown));
}

#[tokio::test(start_paused = true)]
async fn refused_websocket_receives_a_close() {
    let mut limiter = limiter(1).await;
    limiter.check().unwrap();
    let close = limiter.check().unwrap_err();
    let (client, gateway) = tokio::io::duplex(64);
    let refused = tokio::spawn(async move { refuse_with_close(gateway, &close).await });
    let mut client = socket(client, Role::Client).await;
    client.send(Message::text("already")).await.unwrap();
    let Message::Close(Some(close)) = client.next().await.unwrap().unwrap() else { panic!("no Close") };
    assert_eq!((u16::from(close.code), &*close.reason), (4429, "Rate limit exceeded. Retry after 1 second."));
    assert!(matches!(client.next().await, None | Some(Err(tungstenite::Error::ConnectionClosed))));
    timeout(Duration::from_millis(100), refused).await.expect("ended by the client's Close").unwrap();
}

#[tokio::test(start_paused = true)]
async fn refused_silent_websocket_times_out() {
    let mut limiter = limiter(1).await;
    limiter.check().unwrap();
    let close = limiter.check().unwrap_err();
    let (_client, gateway) = tokio::io::duplex(64);
    timeout(Duration::from_millis(2_100), refuse_with_close(gateway, &close)).await.expect("an end");
}
