//! Flow control: an answer goes out as far as the client's windows let it, and no further.

use crate::rules::{RULES, body, served, still_serves};
use hivemind_testkit::http2::{Connection, ConnectionEnd, Frame, Headers, Setting, reason};
use hivemind_testkit::{Server, Setup, within};

const MOST: u32 = 0x7fff_ffff;

/// Returns when the server has done all that it could: a call after the others, with room of its own, was answered.
async fn settled(connection: &mut Connection) {
    let stream = connection.begin(&Headers::call()).await;
    let room = Frame::window_update(stream, 60_000);
    connection.send(&[room, Frame::data(stream, body("free=settled")).end()]).await;
    assert!(connection.answer(stream).await.summary().starts_with("OK"));
    connection.ping().await;
}

fn received(connection: &Connection, stream: u32) -> usize {
    connection.streams.get(&stream).map_or(0, |answer| answer.body.len())
}

/// Waits until so much of an answer has come, and sees that no more does.
async fn holds_at(connection: &mut Connection, stream: u32, bytes: usize) {
    while received(connection, stream) < bytes {
        within("a part of an answer", connection.read()).await.expect("a frame");
    }
    settled(connection).await;
    assert_eq!(received(connection, stream), bytes);
}

#[tokio::test]
async fn an_answer_waits_for_the_window_of_its_stream() {
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open_with(&server, &[(Setting::InitialWindowSize, 0)]).await;
    let held = connection.start(&Headers::call(), &body("k=x")).await;
    holds_at(&mut connection, held, 0).await;
    // By single bytes, and then the rest.
    for bytes in 1..=5 {
        connection.send(&[Frame::window_update(held, 1)]).await;
        holds_at(&mut connection, held, bytes).await;
    }
    connection.send(&[Frame::window_update(held, 1_000)]).await;
    assert_eq!(connection.answer(held).await.summary(), "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn settings_widen_and_narrow_the_windows_of_open_streams() {
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open_with(&server, &[(Setting::InitialWindowSize, 7)]).await;
    let held = connection.start(&Headers::call(), &body("k=x")).await;
    holds_at(&mut connection, held, 7).await;
    // Now the window is 7 below zero, and has to be made good first.
    connection.send(&[Frame::settings(&[(Setting::InitialWindowSize, 0)])]).await;
    connection.send(&[Frame::window_update(held, 7)]).await;
    holds_at(&mut connection, held, 7).await;
    connection.send(&[Frame::window_update(held, 2)]).await;
    holds_at(&mut connection, held, 9).await;
    connection.send(&[Frame::settings(&[(Setting::InitialWindowSize, 1_000)])]).await;
    assert_eq!(connection.answer(held).await.summary(), "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn answers_wait_for_the_window_of_the_connection() {
    let (_server, mut connection) = served().await;
    connection.grants = false;
    // 256 descriptors are an answer of some kilobytes; this is more than a window of them.
    let many = body(&vec!["free=x"; 256].join("|"));
    let mut streams = Vec::new();
    for _ in 0..30 {
        let stream = connection.begin(&Headers::call()).await;
        connection.send_body(stream, &many).await;
        streams.push(stream);
    }
    let total = |connection: &Connection| streams.iter().map(|s| received(connection, *s)).sum::<usize>();
    while total(&connection) < 65_535 {
        within("a full window", connection.read()).await.expect("a frame");
    }
    connection.ping().await;
    assert_eq!(total(&connection), 65_535);
    let open = connection.streams.values().filter(|answer| !answer.ended).count();
    assert!(open > 0, "nothing had to wait");
    connection.send(&[Frame::window_update(0, 1 << 20)]).await;
    for stream in &streams {
        assert_eq!(connection.answer(*stream).await.message().statuses.len(), 256);
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_window_can_be_given_up() {
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open_with(&server, &[(Setting::InitialWindowSize, 0)]).await;
    for _ in 0..3_000 {
        let held = connection.start(&Headers::call(), &body("free=x")).await;
        connection.ping().await;
        connection.send(&[Frame::reset(held, reason::CANCEL)]).await;
    }
    settled(&mut connection).await;
}

#[tokio::test]
async fn a_window_beyond_all_bounds_ends_its_stream_or_its_connection() {
    let (server, mut honest) = served().await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::window_update(stream, MOST)]).await;
    let answer = connection.answer(stream).await;
    assert_eq!(answer.reset, Some(reason::FLOW_CONTROL_ERROR));
    still_serves(&mut connection).await;

    connection.send(&[Frame::window_update(0, MOST)]).await;
    assert_eq!(connection.ended().await, ConnectionEnd::WentAway(reason::FLOW_CONTROL_ERROR));
    still_serves(&mut honest).await;

    // By settings, for a stream that was widened already.
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::window_update(stream, MOST - 65_535)]).await;
    connection.send(&[Frame::settings(&[(Setting::InitialWindowSize, 65_536)])]).await;
    assert_eq!(connection.ended().await, ConnectionEnd::WentAway(reason::FLOW_CONTROL_ERROR));
    still_serves(&mut honest).await;
}

#[tokio::test]
async fn a_window_update_of_nothing_is_an_error() {
    let (server, mut honest) = served().await;
    let mut connection = Connection::open(&server).await;
    connection.send(&[Frame::window_update(0, 0)]).await;
    assert_eq!(connection.ended().await, ConnectionEnd::WentAway(reason::PROTOCOL_ERROR));

    // On a stream it ends that stream at least; a server may end the connection.
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::window_update(stream, 0)]).await;
    assert_eq!(connection.failed(stream).await, reason::PROTOCOL_ERROR);
    still_serves(&mut honest).await;
}

#[tokio::test]
async fn a_body_beyond_the_servers_window_is_an_error() {
    let (server, mut honest) = served().await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::of("/no.such/Method")).await;
    // Nobody has to read this, and 64 MiB are more than any server promises.
    let frames: Vec<u8> = Frame::data(stream, vec![0; 16_384]).bytes().repeat(4_096);
    // The stream or the connection: either way it is not kept.
    if let Some(ended) = connection.flood(&frames).await {
        assert_ne!(ended, ConnectionEnd::WentAway(reason::NO_ERROR));
    }
    still_serves(&mut honest).await;
}

#[tokio::test]
async fn an_answer_that_nobody_takes_is_given_up_and_the_connection_lives() {
    let server = Setup::rules(RULES).with("server.call_timeout", "300ms").start().await;
    let mut connection = Connection::open_with(&server, &[(Setting::InitialWindowSize, 0)]).await;
    let held = connection.start(&Headers::call(), &body("k=x")).await;
    let most = std::time::Duration::from_secs(3);
    let given_up = tokio::time::timeout(most, connection.answer(held)).await;
    assert_eq!(given_up.expect("it was held for ten times as long").reset, Some(reason::CANCEL));
    settled(&mut connection).await;
    // More than may be open at once, in turns: all places are given back.
    for _ in 0..3 {
        let streams: Vec<u32> = (0..900).map(|_| connection.stream()).collect();
        let call = |stream| [Headers::call().frame(stream), Frame::data(stream, body("free=x")).end()];
        let frames: Vec<Frame> = streams.iter().flat_map(|stream| call(*stream)).collect();
        connection.send(&frames).await;
        for stream in streams {
            assert_eq!(connection.answer(stream).await.reset, Some(reason::CANCEL));
        }
    }
    settled(&mut connection).await;
    assert_eq!(connection.go_aways, []);
}
