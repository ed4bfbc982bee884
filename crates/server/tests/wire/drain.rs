//! Shutdown as clients see it: `GOAWAY`, and responses to calls in flight.

use crate::service::{RULES, assert_still_serves, body, served};
use hivemind_testkit::http2::{Connection, ConnectionEnd, Frame, HEALTH_WATCH, Headers, framed, reason};
use hivemind_testkit::{Server, Setup, within};
use std::time::Duration;

/// A service that waits up to an hour for calls in flight and for a client's preface.
async fn with_long_grace() -> Server {
    let setup = Setup::rules(RULES).with("server.shutdown_grace", "1h");
    setup.with("server.handshake_timeout", "1h").start().await
}

/// Asserts that the process exits with code 0 within this time.
async fn assert_exits_within(server: &mut Server, seconds: u64) {
    let ended = tokio::time::timeout(Duration::from_secs(seconds), server.ended()).await;
    let status = ended.unwrap_or_else(|_| panic!("it was still there after {seconds} s"));
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn incomplete_call_at_sigterm_is_answered_once_complete() {
    // Seen failing on: connections dropped at the signal.
    let (mut server, mut connection) = served().await;
    let mut idle = Connection::open(&server).await;
    assert_still_serves(&mut idle).await;
    let whole = body("k=x");
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::data(stream, &whole[..9])]).await;
    connection.ping().await;
    server.signal("TERM").await;
    assert_eq!(connection.gone_away().await, reason::NO_ERROR);
    // Idle connections are closed at once.
    assert_eq!(idle.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
    connection.send(&[Frame::data(stream, &whole[9..]).end()]).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    assert_eq!(connection.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn calls_in_flight_on_many_connections_are_answered() {
    // Seen failing on: connections dropped at the signal.
    let mut server = Setup::rules(RULES).with("server.workers", "2").start().await;
    let whole = body("free=x");
    let mut connections = Vec::new();
    for _ in 0..6 {
        let mut connection = Connection::open(&server).await;
        let mut streams = Vec::new();
        for _ in 0..50 {
            let stream = connection.begin(&Headers::call()).await;
            connection.send(&[Frame::data(stream, &whole[..3])]).await;
            streams.push(stream);
        }
        connection.ping().await;
        connections.push((connection, streams));
    }
    server.signal("TERM").await;
    for (connection, streams) in &mut connections {
        connection.gone_away().await;
        for stream in streams {
            connection.send(&[Frame::data(*stream, &whole[3..]).end()]).await;
            assert!(connection.answer(*stream).await.summary().starts_with("OK 1000000/DAY"));
        }
        connection.ended().await;
    }
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn silent_connection_does_not_delay_shutdown() {
    // Seen failing on: tonic's server, which waits for the whole grace period.
    let mut server = Setup::rules(RULES)
        .with("server.shutdown_grace", "1h")
        .with("server.handshake_timeout", "300ms")
        .start()
        .await;
    let mut silent = Connection::silent(&server).await;
    let mut connection = Connection::open(&server).await;
    assert_still_serves(&mut connection).await;
    server.signal("TERM").await;
    assert_eq!(silent.ended().await, ConnectionEnd::Closed);
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn connection_within_its_preface_timeout_is_closed_at_once() {
    let mut server = with_long_grace().await;
    let mut nothing = Connection::silent(&server).await;
    let mut half = Connection::silent(&server).await;
    half.send_bytes(b"PRI * HTTP/2.0\r\n").await;
    let mut connection = Connection::open(&server).await;
    assert_still_serves(&mut connection).await;
    server.signal("TERM").await;
    tokio::join!(assert_exits_within(&mut server, 2), connection.ended());
    assert_eq!(nothing.ended().await, ConnectionEnd::Closed);
    assert_eq!(half.ended().await, ConnectionEnd::Closed);
}

#[tokio::test]
async fn ping_flood_does_not_delay_shutdown() {
    let mut server = with_long_grace().await;
    let mut hostile = Connection::open(&server).await;
    hostile.ping().await;
    let pings = Frame::ping([7; 8]).bytes().repeat(10_000);
    // Until it is closed. The client acknowledges nothing, so only the server's own timeout ends it.
    let flood = async {
        loop {
            if let Some(ended) = hostile.flood(&pings).await {
                return ended;
            }
        }
    };
    let end = async {
        server.signal("TERM").await;
        assert_exits_within(&mut server, 10).await;
    };
    let (ended, ()) = tokio::join!(flood, end);
    assert_eq!(ended, ConnectionEnd::WentAway(reason::NO_ERROR));
}

#[tokio::test]
async fn health_watch_does_not_delay_shutdown() {
    let mut server = with_long_grace().await;
    let mut watching = Connection::open(&server).await;
    let watch = watching.start(&Headers::of(HEALTH_WATCH), &framed(&[])).await;
    while watching.streams.get(&watch).is_none_or(|answer| answer.body.is_empty()) {
        within("the first status", watching.read()).await.expect("a frame");
    }
    server.signal("TERM").await;
    // Twice the two seconds that a connection without calls gets, and some for a slow machine.
    let (ended, ()) = tokio::join!(watching.ended(), assert_exits_within(&mut server, 8));
    assert_eq!(ended, ConnectionEnd::WentAway(reason::NO_ERROR));
    let statuses = &watching.streams[&watch].body;
    assert!(statuses.starts_with(&framed(&[8, 1])), "SERVING: {statuses:?}");
    assert!(statuses.ends_with(&framed(&[8, 2])), "then NOT_SERVING: {statuses:?}");
}
