//! Floods: the connection is closed or its costs stay bounded, and an honest connection is served meanwhile.

use crate::memory::Memory;
use crate::service::{RULES, assert_still_serves, body, served_by_one_thread, while_serving};
use hivemind_testkit::Server;
use hivemind_testkit::http2::{
    ACK, Connection, ConnectionEnd, END_HEADERS, Frame, FrameType, Headers, reason,
};

/// Sends a flood in parts, with honest calls in between. Returns how the connection ended, if it did.
async fn flood_connection(what: &str, open: &[Frame], flood: &[u8]) -> Option<ConnectionEnd> {
    let (server, mut honest) = served_by_one_thread().await;
    let mut hostile = Connection::open(&server).await;
    hostile.send(open).await;
    hostile.ping().await;
    let memory = Memory::of(&server);
    let mut ended = None;
    for part in flood.chunks(flood.len().div_ceil(8)) {
        let flood = async {
            match hostile.flood(part).await {
                Some(ended) => Some(ended),
                // Until all of it was read and processed.
                None => hostile.flood_done().await,
            }
        };
        ended = while_serving(&mut honest, flood).await;
        assert_still_serves(&mut honest).await;
        memory.assert_bounded(what);
        if ended.is_some() {
            break;
        }
    }
    // New connections are accepted as well.
    assert_still_serves(&mut Connection::open(&server).await).await;
    memory.assert_bounded(what);
    ended
}

fn assert_cut_off(what: &str, ended: Option<&ConnectionEnd>) {
    let Some(ConnectionEnd::WentAway(reason)) = ended else { panic!("{what}: {ended:?}") };
    assert_ne!(*reason, reason::NO_ERROR, "{what}");
}

#[tokio::test]
async fn endless_headers_close_the_connection() {
    // Seen failing on: header lists of 16 MiB, for which h2 allows as many frames.
    let begun = Frame::new(FrameType::Headers, 0, 3, Headers::call().block()).bytes();
    for (what, piece, count) in [
        ("full continuations", vec![0; 16_384], 2_000),
        ("small continuations", Headers::none().with("x-flood", "x").block(), 200_000),
        ("empty continuations", Vec::new(), 500_000),
    ] {
        let more = Frame::new(FrameType::Continuation, 0, 3, piece).bytes().repeat(count);
        assert_cut_off(what, flood_connection(what, &[], &[begun.clone(), more].concat()).await.as_ref());
    }
}

fn resets(count: u32, with_body: bool) -> Vec<u8> {
    let headers = Headers::call();
    let call = |number: u32| {
        let stream = 2 * number + 1;
        let whole = Frame::data(stream, body("free=x")).end().bytes();
        let body = if with_body { whole } else { Vec::new() };
        [headers.frame(stream).bytes(), body, Frame::reset(stream, reason::CANCEL).bytes()].concat()
    };
    (0..count).flat_map(call).collect()
}

#[tokio::test]
async fn rapid_resets_close_the_connection() {
    // Seen failing on: a million resets allowed.
    // CVE-2023-44487.
    assert_cut_off("without a body", flood_connection("resets", &[], &resets(20_000, false)).await.as_ref());
    // A complete call may be answered before its reset is read; then it is a call like any other.
    flood_connection("resets of whole calls", &[], &resets(20_000, true)).await;
}

#[tokio::test]
async fn too_many_server_resets_close_the_connection() {
    // Seen failing on: no limit on the server's own resets.
    // CVE-2025-8671: each body is malformed, so that the server resets the stream.
    let headers = Headers::call().with("content-length", "3");
    let call = |number: u32| {
        let stream = 2 * number + 1;
        [headers.frame(stream).bytes(), Frame::data(stream, body("free=x")).bytes()].concat()
    };
    let flood: Vec<u8> = (0..20_000).flat_map(call).collect();
    assert_cut_off("server resets", flood_connection("server resets", &[], &flood).await.as_ref());
    let call = |number: u32| {
        let stream = 2 * number + 1;
        [headers.frame(stream).bytes(), Frame::window_update(stream, 0x7fff_ffff).bytes()].concat()
    };
    let flood: Vec<u8> = (0..20_000).flat_map(call).collect();
    assert_cut_off("window overflows", flood_connection("window overflows", &[], &flood).await.as_ref());
}

#[tokio::test]
async fn ping_and_settings_floods_cost_no_memory() {
    flood_connection("pings", &[], &Frame::ping([7; 8]).bytes().repeat(100_000)).await;
    flood_connection("settings", &[], &Frame::settings(&[(4, 65_535)]).bytes().repeat(50_000)).await;
    flood_connection("empty settings", &[], &Frame::settings(&[]).bytes().repeat(50_000)).await;
}

#[tokio::test]
async fn floods_of_ignored_frames_cost_no_memory() {
    flood_connection("unknown frames", &[], &Frame::new(0x42, 0, 0, [0; 100]).bytes().repeat(100_000)).await;
    let priority = Frame::new(FrameType::Priority, 0, 9, [0, 0, 0, 0, 1]).bytes();
    flood_connection("priorities", &[], &priority.repeat(300_000)).await;
    flood_connection("windows", &[], &Frame::window_update(0, 1).bytes().repeat(300_000)).await;
}

#[tokio::test]
async fn empty_data_frames_cost_no_memory() {
    // On a call, on an unknown method, and on a stream that was answered already.
    let empty = Frame::data(1, []).bytes().repeat(500_000);
    flood_connection("to the service", &[Headers::call().frame(1)], &empty).await;
    flood_connection("to no method", &[Headers::of("/no.such/Method").frame(1)], &empty).await;
    let padding = Frame::new(FrameType::Data, 0x8, 1, vec![255; 256]).bytes().repeat(20_000);
    flood_connection("padding", &[Headers::call().frame(1)], &padding).await;
}

#[tokio::test]
async fn streams_over_the_maximum_are_refused_and_others_served() {
    // Seen failing on: 100,000 streams allowed.
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open(&server).await;
    connection.ping().await;
    let most = connection.max_streams.expect("SETTINGS_MAX_CONCURRENT_STREAMS");
    assert!((100..=10_000).contains(&most), "{most}");
    let mut streams = Vec::new();
    for _ in 0..most + 100 {
        streams.push(connection.begin(&Headers::call()).await);
    }
    connection.ping().await;
    let (taken, refused) = streams.split_at(most as usize);
    for stream in refused {
        assert_eq!(connection.answer(*stream).await.reset, Some(reason::REFUSED_STREAM));
    }
    assert!(
        taken.iter().all(|stream| !connection.streams.contains_key(stream)),
        "one of the first was ended"
    );
    for stream in taken {
        connection.send(&[Frame::data(*stream, body("free=x")).end()]).await;
        assert!(connection.answer(*stream).await.summary().starts_with("OK"));
    }
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn connections_full_of_endless_calls_cost_little_memory() {
    let (server, mut honest) = served_by_one_thread().await;
    let memory = Memory::of(&server);
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut connection = Connection::open(&server).await;
        for _ in 0..200 {
            let stream = connection.stream();
            let headers = Frame::new(FrameType::Headers, END_HEADERS, stream, Headers::call().block());
            connection.send(&[headers, Frame::data(stream, [0, 0, 3])]).await;
        }
        connection.ping().await;
        held.push(connection);
        assert_still_serves(&mut honest).await;
    }
    memory.assert_bounded("4,000 open calls");
}

#[tokio::test]
async fn frame_floods_do_not_fill_the_log() {
    // Seen failing on: an h2 warning for each acknowledgement of a PING that was never sent.
    let (mut server, mut hostile) = served_by_one_thread().await;
    hostile.send_bytes(&Frame::new(FrameType::Ping, ACK, 0, [7; 8]).bytes().repeat(1_000)).await;
    hostile.ping().await;
    drop(hostile);
    let mut cut_off = Connection::open(&server).await;
    cut_off.flood(&resets(1_000, false)).await;
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code(), Some(0));
    let log = server.log.rest().await;
    assert!(log.lines().count() < 20, "{} lines, like {:?}", log.lines().count(), log.lines().last());
}
