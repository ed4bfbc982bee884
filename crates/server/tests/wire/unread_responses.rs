//! Clients that send and never read: pending output is bounded, and others are not delayed.

use crate::memory::Memory;
use crate::service::{assert_still_serves, body, served_by_one_thread, while_serving};
use hivemind_testkit::http2::{Connection, Frame, Headers, Setting};
use std::io::ErrorKind;
use std::time::Duration;

/// Writes until the server stops reading, closes, or has read everything.
async fn pour(connection: &mut Connection, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        // A server that waits for its client to read has stopped reading itself.
        let writable = tokio::time::timeout(Duration::from_millis(300), connection.socket.writable());
        let Ok(Ok(())) = writable.await else { return };
        match connection.socket.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

async fn assert_bounded_flood(what: &str, settings: &[(u16, u32)], flood: &[u8]) {
    let (server, mut honest) = served_by_one_thread().await;
    let memory = Memory::of(&server);
    let mut hostile = Connection::open_with(&server, settings).await;
    for part in flood.chunks(flood.len().div_ceil(4)) {
        while_serving(&mut honest, pour(&mut hostile, part)).await;
        memory.assert_bounded(what);
    }
    assert_still_serves(&mut Connection::open(&server).await).await;
}

fn calls(count: u32, body: &[u8]) -> Vec<u8> {
    let block = Headers::call();
    let call = |number: u32| {
        let stream = 2 * number + 1;
        [block.frame(stream).bytes(), Frame::data(stream, body).end().bytes()].concat()
    };
    (0..count).flat_map(call).collect()
}

#[tokio::test]
async fn unread_responses_are_bounded() {
    // Seen failing on: 100,000 streams allowed.
    let wide = (Setting::InitialWindowSize, 0x7fff_ffff);
    let widest = Frame::window_update(0, 0x7fff_0000).bytes();
    let small = [widest.clone(), calls(200_000, &body("free=x"))].concat();
    assert_bounded_flood("small answers", &[wide], &small).await;
    let many = body(&vec!["free=x"; 256].join("|"));
    assert_bounded_flood("large answers", &[wide], &[widest, calls(10_000, &many)].concat()).await;
}

#[tokio::test]
async fn responses_to_a_zero_window_are_bounded() {
    // Seen failing on: 100,000 streams allowed.
    let zero = (Setting::InitialWindowSize, 0);
    assert_bounded_flood("small answers", &[zero], &calls(50_000, &body("free=x"))).await;
    let (server, mut honest) = served_by_one_thread().await;
    let memory = Memory::of(&server);
    // As many as one connection may have open, on each of several.
    let mut held = Vec::new();
    for _ in 0..5 {
        let mut connection = Connection::open_with(&server, &[zero]).await;
        pour(&mut connection, &calls(900, &body("free=x"))).await;
        assert_still_serves(&mut honest).await;
        held.push(connection);
    }
    memory.assert_bounded("4,500 answers that wait");
}

#[tokio::test]
async fn unread_acknowledgements_are_bounded() {
    assert_bounded_flood("pings", &[], &Frame::ping([7; 8]).bytes().repeat(2_000_000)).await;
    assert_bounded_flood("settings", &[], &Frame::settings(&[(4, 65_535)]).bytes().repeat(2_000_000)).await;
    let malformed = Headers::call().without(":path");
    let refused: Vec<u8> = (0..200_000).flat_map(|n| malformed.frame(2 * n + 1).end().bytes()).collect();
    assert_bounded_flood("resets", &[], &refused).await;
}
