//! The maximum number of connections: one over it waits until another closes.

use crate::service::{RULES, assert_still_serves, body};
use hivemind_testkit::Setup;
use hivemind_testkit::http2::{Connection, Headers};

#[tokio::test]
async fn connection_over_the_maximum_waits_until_one_closes() {
    // Seen failing on: slots that are never released, and no maximum at all.
    let server = Setup::rules(RULES).with("server.max_connections", "2").start().await;
    let mut first = Connection::open(&server).await;
    let mut second = Connection::open(&server).await;
    assert_still_serves(&mut first).await;
    assert_still_serves(&mut second).await;
    let mut third = Connection::open(&server).await;
    let stream = third.start(&Headers::call(), &body("k=x")).await;
    for _ in 0..200 {
        assert_still_serves(&mut first).await;
        assert_still_serves(&mut second).await;
    }
    let mut nothing = [0; 1];
    assert!(third.socket.try_read(&mut nothing).is_err(), "it was read");
    drop(first);
    assert_eq!(third.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    assert_still_serves(&mut second).await;
}

#[tokio::test]
async fn aborted_and_silent_connections_release_their_slots() {
    // Seen failing on: slots that are never released.
    let server = Setup::rules(RULES)
        .with("server.max_connections", "1")
        .with("server.handshake_timeout", "100ms")
        .start()
        .await;
    for _ in 0..5 {
        let silent = Connection::silent(&server).await;
        let mut broken = Connection::silent(&server).await;
        broken.send_bytes(&[0xff; 100]).await;
        let mut honest = Connection::open(&server).await;
        assert_still_serves(&mut honest).await;
        drop((silent, broken, honest));
    }
}
