//! Bytes that pass, and directions that end.

use super::super::{FrameLimits, PingLimit, SpliceEnd, splice};
use super::support::{IDLE, SplicedConnection, frame, limiter, server_frame, socket};
use futures_util::{SinkExt, StreamExt};
use hivemind_tower::websocket::MessageLimiter;
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

#[tokio::test(start_paused = true)]
async fn messages_and_closes_pass_counted_or_not() {
    for counted in [false, true] {
        let limiter = if counted { Some(limiter(100).await) } else { None };
        let connection = SplicedConnection::open(limiter, 700);
        let mut client = socket(connection.client, Role::Client).await;
        let mut upstream = socket(connection.upstream, Role::Server).await;
        let echo = tokio::spawn(async move {
            while let Some(Ok(message)) = upstream.next().await {
                if message.is_text() || message.is_binary() {
                    upstream.send(message).await.unwrap();
                }
            }
        });
        for length in [0, 1, 125, 126, 5_000, 70_000] {
            let message = Message::binary(vec![7; length]);
            client.send(message.clone()).await.unwrap();
            assert_eq!(client.next().await.unwrap().unwrap(), message);
        }
        client.send(Message::Ping(vec![1].into())).await.unwrap();
        assert_eq!(client.next().await.unwrap().unwrap(), Message::Pong(vec![1].into()));
        client.close(None).await.unwrap();
        while client.next().await.is_some() {}
        drop(client);
        echo.await.unwrap();
        let spliced = connection.spliced.await.unwrap();
        assert!(matches!(spliced.end, SpliceEnd::Finished), "{spliced:?}");
        assert_eq!(spliced.messages, if counted { 6 } else { 0 });
        assert!(spliced.to_client > 75_000 && spliced.to_upstream > spliced.to_client, "{spliced:?}");
    }
}

// Fails when a pipe reads before it has written the previous bytes.
#[tokio::test(start_paused = true)]
async fn unread_bytes_slow_down_the_writer() {
    let SplicedConnection { mut client, upstream, stop: _stop, .. } =
        SplicedConnection::open(Some(limiter(1).await), 1_000);
    let message = frame(0x82, &vec![0; 1 << 20]);
    let sending = timeout(Duration::from_secs(5), client.write_all(&message)).await;
    assert!(sending.is_err(), "a megabyte went somewhere");
    drop(upstream);
}

#[tokio::test(start_paused = true)]
async fn half_closed_side_receives_remaining_bytes() {
    for counted in [false, true] {
        let limiter = if counted { Some(limiter(9).await) } else { None };
        let mut connection = SplicedConnection::open(limiter, 64);
        connection.client.write_all(&frame(0x81, b"last")).await.unwrap();
        connection.client.shutdown().await.unwrap();
        let mut received = Vec::new();
        connection.upstream.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, frame(0x81, b"last"));
        connection.upstream.write_all(&server_frame(0x81, b"answer")).await.unwrap();
        drop(connection.upstream);
        let mut received = Vec::new();
        connection.client.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, server_frame(0x81, b"answer"));
        assert!(matches!(connection.spliced.await.unwrap().end, SpliceEnd::Finished));
    }
}

// Fails when a broken pipe ends both directions at once.
#[tokio::test(start_paused = true)]
async fn bytes_before_an_upstream_failure_reach_the_client() {
    let mut connection = SplicedConnection::open(Some(limiter(9).await), 4_096);
    connection.upstream.write_all(&server_frame(0x88, &[3, 233])).await.unwrap();
    drop(connection.upstream);
    connection.client.write_all(&frame(0x81, b"lost")).await.unwrap();
    let mut received = Vec::new();
    connection.client.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, server_frame(0x88, &[3, 233]));
    drop(connection.client);
    let end = connection.spliced.await.unwrap().end.to_string();
    assert_eq!(end, "the upstream failed: broken pipe");
}

// Fails without a timeout for a silent client after the upstream has closed.
#[tokio::test(start_paused = true)]
async fn client_without_upstream_closes_after_timeout() {
    let connection = SplicedConnection::open(None, 64);
    drop(connection.upstream);
    let spliced =
        timeout(Duration::from_secs(20), connection.spliced).await.expect("within the half-closed time");
    assert!(matches!(spliced.unwrap().end, SpliceEnd::Idle));
}

// Fails when only one direction is checked, or when the flag is not cleared.
#[tokio::test(start_paused = true)]
async fn idle_websocket_closes_and_any_byte_resets_it() {
    let mut connection = SplicedConnection::open(None, 64);
    for round in 0..20 {
        assert!(timeout(IDLE * 3 / 4, &mut connection.spliced).await.is_err(), "ended in round {round}");
        let mut byte = [0];
        if round % 2 == 0 {
            connection.client.write_all(b"u").await.unwrap();
            connection.upstream.read_exact(&mut byte).await.unwrap();
        } else {
            connection.upstream.write_all(&server_frame(0x89, b"")).await.unwrap();
            connection.client.read_exact(&mut [0; 2]).await.unwrap();
        }
    }
    assert!(timeout(IDLE * 9 / 10, &mut connection.spliced).await.is_err());
    let mut received = Vec::new();
    timeout(IDLE / 2, connection.client.read_to_end(&mut received))
        .await
        .expect("a Close, then the end")
        .unwrap();
    assert_eq!(received[..4], [0x88, 15, 3, 233]);
    assert!(matches!(connection.spliced.await.unwrap().end, SpliceEnd::Idle));
}

/// Sends a message of this length through a splice.
async fn pass(limiter: Option<MessageLimiter>, length: u64) {
    let SplicedConnection { mut client, mut upstream, stop: _stop, spliced } =
        SplicedConnection::open(limiter, 16 << 10);
    let sent = tokio::spawn(async move {
        client.write_all(&[&[0x82, 0xFF], &length.to_be_bytes()[..], &[0; 4]].concat()).await.unwrap();
        tokio::io::copy(&mut tokio::io::repeat(7).take(length), &mut client).await.unwrap();
    });
    let received = tokio::io::copy(&mut upstream, &mut tokio::io::sink()).await.unwrap();
    assert_eq!(received, length + 14);
    sent.await.unwrap();
    drop(upstream);
    assert!(matches!(spliced.await.unwrap().end, SpliceEnd::Finished));
}

// Fails when a pipe reads before it has written the previous bytes.
#[test]
fn message_of_any_length_passes_in_constant_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for counted in [false, true] {
        let limiter = if counted { Some(runtime.block_on(limiter(1))) } else { None };
        let used = allocation_counter::measure(|| runtime.block_on(pass(limiter, 64 << 20)));
        assert!(used.bytes_max < 128 << 10, "counted: {counted}: {used:?}");
    }
}

// Fails when the pipe has its own buffer.
#[tokio::test]
async fn idle_connection_holds_no_buffers() {
    let (client, upstream) = (tokio::io::duplex(1).0, tokio::io::duplex(1).0);
    let pings = PingLimit::new(NonZeroU32::MIN);
    let limits = Some(FrameLimits { messages: limiter(1).await, pings });
    let splice = splice(client, upstream, limits, IDLE, watch::channel(false).1);
    assert!(size_of_val(&splice) < 2_048, "{}", size_of_val(&splice));
}
