//! Flow control: responses are sent as far as the client's windows allow, and no further.

use crate::service::{RULES, assert_still_serves, body, served};
use hivemind_testkit::http2::{Connection, ConnectionEnd, Frame, Headers, Setting, reason};
use hivemind_testkit::{Server, Setup, within};

const MOST: u32 = 0x7fff_ffff;

/// Waits until the server has sent all it can: a later call with a window of its own was answered.
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

/// Waits until this much of a response has arrived, and asserts that no more does.
async fn assert_held_at(connection: &mut Connection, stream: u32, bytes: usize) {
    while received(connection, stream) < bytes {
        within("a part of an answer", connection.read()).await.expect("a frame");
    }
    settled(connection).await;
    assert_eq!(received(connection, stream), bytes);
}

#[tokio::test]
async fn response_waits_for_its_stream_window() {
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open_with(&server, &[(Setting::InitialWindowSize, 0)]).await;
    let held = connection.start(&Headers::call(), &body("k=x")).await;
    assert_held_at(&mut connection, held, 0).await;
    // First single bytes, then the rest.
    for bytes in 1..=5 {
        connection.send(&[Frame::window_update(held, 1)]).await;
        assert_held_at(&mut connection, held, bytes).await;
    }
    connection.send(&[Frame::window_update(held, 1_000)]).await;
    assert_eq!(connection.answer(held).await.summary(), "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn settings_resize_the_windows_of_open_streams() {
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open_with(&server, &[(Setting::InitialWindowSize, 7)]).await;
    let held = connection.start(&Headers::call(), &body("k=x")).await;
    assert_held_at(&mut connection, held, 7).await;
    // Now the window is 7 below zero, which must be compensated first.
    connection.send(&[Frame::settings(&[(Setting::InitialWindowSize, 0)])]).await;
    connection.send(&[Frame::window_update(held, 7)]).await;
    assert_held_at(&mut connection, held, 7).await;
    connection.send(&[Frame::window_update(held, 2)]).await;
    assert_held_at(&mut connection, held, 9).await;
    connection.send(&[Frame::settings(&[(Setting::InitialWindowSize, 1_000)])]).await;
    assert_eq!(connection.answer(held).await.summary(), "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn responses_wait_for_the_connection_window() {
    let (_server, mut connection) = served().await;
    connection.grants = false;
    // A response to 256 descriptors is several kilobytes; these are more than one window.
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
    assert!(open > 0, "no response had to wait");
    connection.send(&[Frame::window_update(0, 1 << 20)]).await;
    for stream in &streams {
        assert_eq!(connection.answer(*stream).await.message().statuses.len(), 256);
    }
}

#[tokio::test]
async fn call_waiting_for_a_window_can_be_cancelled() {
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
async fn window_overflow_ends_its_stream_or_connection() {
    let (server, mut honest) = served().await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::window_update(stream, MOST)]).await;
    let answer = connection.answer(stream).await;
    assert_eq!(answer.reset, Some(reason::FLOW_CONTROL_ERROR));
    assert_still_serves(&mut connection).await;

    connection.send(&[Frame::window_update(0, MOST)]).await;
    assert_eq!(connection.ended().await, ConnectionEnd::WentAway(reason::FLOW_CONTROL_ERROR));
    assert_still_serves(&mut honest).await;

    // By SETTINGS, for a stream whose window was enlarged already.
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::window_update(stream, MOST - 65_535)]).await;
    connection.send(&[Frame::settings(&[(Setting::InitialWindowSize, 65_536)])]).await;
    assert_eq!(connection.ended().await, ConnectionEnd::WentAway(reason::FLOW_CONTROL_ERROR));
    assert_still_serves(&mut honest).await;
}

#[tokio::test]
async fn zero_window_update_is_an_error() {
    let (server, mut honest) = served().await;
    let mut connection = Connection::open(&server).await;
    connection.send(&[Frame::window_update(0, 0)]).await;
    assert_eq!(connection.ended().await, ConnectionEnd::WentAway(reason::PROTOCOL_ERROR));

    // On a stream it ends at least that stream; a server may end the connection.
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::window_update(stream, 0)]).await;
    assert_eq!(connection.failed(stream).await, reason::PROTOCOL_ERROR);
    assert_still_serves(&mut honest).await;
}

#[tokio::test]
async fn body_beyond_the_server_window_is_an_error() {
    let (server, mut honest) = served().await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::of("/no.such/Method")).await;
    // The server need not read this, and 64 MiB exceed any window.
    let frames: Vec<u8> = Frame::data(stream, vec![0; 16_384]).bytes().repeat(4_096);
    // The stream or the connection ends.
    if let Some(ended) = connection.flood(&frames).await {
        assert_ne!(ended, ConnectionEnd::WentAway(reason::NO_ERROR));
    }
    assert_still_serves(&mut honest).await;
}

#[tokio::test]
async fn response_not_taken_in_time_is_reset_without_closing() {
    let server = Setup::rules(RULES).with("server.call_timeout", "300ms").start().await;
    let mut connection = Connection::open_with(&server, &[(Setting::InitialWindowSize, 0)]).await;
    let held = connection.start(&Headers::call(), &body("k=x")).await;
    let most = std::time::Duration::from_secs(3);
    let reset_answer = tokio::time::timeout(most, connection.answer(held)).await;
    assert_eq!(reset_answer.expect("a reset within ten times the timeout").reset, Some(reason::CANCEL));
    settled(&mut connection).await;
    // More than may be open at once, in sequence: all slots are released.
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
