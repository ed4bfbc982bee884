//! A bound on connections: who comes when all places are taken waits, and is served when one is free.

use crate::rules::{RULES, body, still_serves};
use hivemind_testkit::Setup;
use hivemind_testkit::http2::{Connection, Headers};

#[tokio::test]
async fn a_connection_above_the_most_waits_until_another_one_closes() {
    // Seen failing on: places that are never given back, and no bound at all.
    let server = Setup::rules(RULES).with("server.max_connections", "2").start().await;
    let mut first = Connection::open(&server).await;
    let mut second = Connection::open(&server).await;
    still_serves(&mut first).await;
    still_serves(&mut second).await;
    let mut third = Connection::open(&server).await;
    let stream = third.start(&Headers::call(), &body("k=x")).await;
    for _ in 0..200 {
        still_serves(&mut first).await;
        still_serves(&mut second).await;
    }
    let mut nothing = [0; 1];
    assert!(third.socket.try_read(&mut nothing).is_err(), "it was heard");
    drop(first);
    assert_eq!(third.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    still_serves(&mut second).await;
}

#[tokio::test]
async fn who_is_cut_off_or_never_spoke_gives_their_place_back() {
    // Seen failing on: places that are never given back.
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
        still_serves(&mut honest).await;
        drop((silent, broken, honest));
    }
}
