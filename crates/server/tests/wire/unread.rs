//! Clients that send and never read: what is owed to them has a bound, and nobody else waits.

use crate::memory::Memory;
use crate::rules::{body, served_by_one_thread, served_meanwhile, still_serves};
use hivemind_testkit::http2::{Connection, Frame, Headers, Setting};
use std::io::ErrorKind;
use std::time::Duration;

/// Writes until the server takes no more, closes, or has taken all of it.
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

async fn bounded(what: &str, settings: &[(u16, u32)], flood: &[u8]) {
    let (server, mut honest) = served_by_one_thread().await;
    let memory = Memory::of(&server);
    let mut hostile = Connection::open_with(&server, settings).await;
    for part in flood.chunks(flood.len().div_ceil(4)) {
        served_meanwhile(&mut honest, pour(&mut hostile, part)).await;
        memory.assert_bounded(what);
    }
    still_serves(&mut Connection::open(&server).await).await;
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
async fn answers_that_nobody_reads_are_bounded() {
    // Seen failing on: 100,000 streams allowed.
    let wide = (Setting::InitialWindowSize, 0x7fff_ffff);
    let widest = Frame::window_update(0, 0x7fff_0000).bytes();
    let small = [widest.clone(), calls(200_000, &body("free=x"))].concat();
    bounded("small answers", &[wide], &small).await;
    let many = body(&vec!["free=x"; 256].join("|"));
    bounded("large answers", &[wide], &[widest, calls(10_000, &many)].concat()).await;
}

#[tokio::test]
async fn answers_to_a_window_of_zero_are_bounded() {
    // Seen failing on: 100,000 streams allowed.
    let zero = (Setting::InitialWindowSize, 0);
    bounded("small answers", &[zero], &calls(50_000, &body("free=x"))).await;
    let (server, mut honest) = served_by_one_thread().await;
    let memory = Memory::of(&server);
    // As many as one connection may have open, on each of several.
    let mut held = Vec::new();
    for _ in 0..5 {
        let mut connection = Connection::open_with(&server, &[zero]).await;
        pour(&mut connection, &calls(900, &body("free=x"))).await;
        still_serves(&mut honest).await;
        held.push(connection);
    }
    memory.assert_bounded("4,500 answers that wait");
}

#[tokio::test]
async fn what_must_be_answered_is_bounded_also_where_nobody_reads() {
    bounded("pings", &[], &Frame::ping([7; 8]).bytes().repeat(2_000_000)).await;
    bounded("settings", &[], &Frame::settings(&[(4, 65_535)]).bytes().repeat(2_000_000)).await;
    let malformed = Headers::call().without(":path");
    let refused: Vec<u8> = (0..200_000).flat_map(|n| malformed.frame(2 * n + 1).end().bytes()).collect();
    bounded("resets", &[], &refused).await;
}
