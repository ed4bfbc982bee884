//! The end of the service as a client sees it: `GOAWAY`, and the answers to what was begun.

use crate::http2::{Connection, Ended, Frame, Headers, reason};
use crate::rules::{RULES, body, served, still_serves};
use crate::support::Setup;

#[tokio::test]
async fn a_call_that_was_half_sent_at_sigterm_is_answered_when_it_is_whole() {
    // Seen failing on: connections dropped at the signal.
    let (mut server, mut connection) = served().await;
    let mut idle = Connection::open(&server).await;
    still_serves(&mut idle).await;
    let whole = body("k=x");
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::data(stream, &whole[..9])]).await;
    connection.ping().await;
    server.signal("TERM").await;
    assert_eq!(connection.gone_away().await, reason::NO_ERROR);
    // Who has nothing under way is let go at once.
    assert_eq!(idle.ended().await, Ended::WentAway(reason::NO_ERROR));
    connection.send(&[Frame::data(stream, &whole[9..]).end()]).await;
    assert_eq!(connection.answer(stream).await.shown(), "OK 9/DAY, 8 left");
    assert_eq!(connection.ended().await, Ended::WentAway(reason::NO_ERROR));
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn many_calls_on_many_connections_are_answered_at_the_end() {
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
            assert!(connection.answer(*stream).await.shown().starts_with("OK 1000000/DAY"));
        }
        connection.ended().await;
    }
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn who_never_spoke_does_not_hold_up_the_end() {
    // Seen failing on: tonic's server, which waits for all of the grace period.
    let mut server = Setup::rules(RULES)
        .with("server.shutdown_grace", "1h")
        .with("server.handshake_timeout", "300ms")
        .start()
        .await;
    let mut silent = Connection::silent(&server).await;
    let mut connection = Connection::open(&server).await;
    still_serves(&mut connection).await;
    server.signal("TERM").await;
    assert_eq!(silent.ended().await, Ended::Closed);
    assert_eq!(server.ended().await.code(), Some(0));
}
