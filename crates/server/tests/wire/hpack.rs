//! Compressed headers (HPACK): tables that change with every call, are evicted, resized or disabled.

use crate::service::{RULES, assert_still_serves, body, served};
use hivemind_testkit::Server;
use hivemind_testkit::http2::{Connection, ConnectionEnd, Frame, Headers, Setting, known, reason};
use std::collections::VecDeque;

#[tokio::test]
async fn different_headers_in_every_call_are_decoded() {
    let (_server, mut connection) = served().await;
    for number in 0..300 {
        let headers = Headers::call()
            .with("traceparent", &format!("00-{number:032x}-{number:016x}-01"))
            .with("x-request-id", &format!("{number:08x}-0000-4000-8000-000000000000"));
        let answer = connection.call(&headers, &body(&format!("k={number}"))).await;
        assert_eq!(answer.summary(), "OK 9/DAY, 8 left", "{number}");
    }
}

/// RFC 7541 has a specific error code for it; h2 uses the general one.
fn assert_unreadable(ended: &ConnectionEnd, what: &str) {
    let reasons = [reason::COMPRESSION_ERROR, reason::PROTOCOL_ERROR].map(ConnectionEnd::WentAway);
    assert!(reasons.contains(ended), "{what}: {ended:?}");
}

/// The client's copy of the server's dynamic table: names and sizes, newest first.
struct Table {
    entries: VecDeque<(String, usize)>,
    size: usize,
}

impl Table {
    fn insert(&mut self, name: &str, value: &str) -> Vec<u8> {
        let size = name.len() + value.len() + 32;
        self.entries.push_front((name.to_owned(), size));
        while self.entries.iter().map(|(_, size)| size).sum::<usize>() > self.size {
            self.entries.pop_back();
        }
        Headers::none().with(name, value).indexed_block()
    }

    /// By its index if it is still in the table, otherwise as a new entry.
    fn reference(&mut self, name: &str, value: &str) -> Vec<u8> {
        match self.entries.iter().position(|(key, _)| key == name) {
            Some(place) => vec![known(u8::try_from(62 + place).unwrap())],
            None => self.insert(name, value),
        }
    }
}

#[tokio::test]
async fn moved_and_evicted_table_entries_are_tracked() {
    let (_server, mut connection) = served().await;
    let mut table = Table { entries: VecDeque::new(), size: 4_096 };
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    for number in 0..500 {
        let stream = connection.stream();
        // The path's index moves with every new entry until it is evicted and inserted again.
        let block = [
            vec![0x83, 0x86],
            table.reference(":path", path),
            table.reference("content-type", "application/grpc"),
            table.insert("x-request-id", &"x".repeat(number % 97)),
            table.insert("traceparent", &format!("00-{number:032x}-{number:016x}-01")),
        ];
        let frames =
            [Frame::headers(stream, block.concat()), Frame::data(stream, body(&format!("k={number}"))).end()];
        connection.send(&frames).await;
        assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left", "{number}");
    }
}

#[tokio::test]
async fn resized_table_drops_its_entries() {
    let (_server, mut connection) = served().await;
    let stream = connection.stream();
    connection.send(&[Frame::headers(stream, Headers::call().indexed_block())]).await;
    connection.send(&[Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    // Resized to zero and back to 4,096.
    let updates = [0x20, 0x3f, 0xe1, 0x1f];
    let block = [&updates[..], &Headers::call().indexed_block()].concat();
    let stream = connection.stream();
    connection.send(&[Frame::headers(stream, block), Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 7 left");
    // All six are in the table again, and a seventh does not exist.
    let stream = connection.stream();
    let all = [67, 66, 65, 64, 63, 62].map(known);
    connection.send(&[Frame::headers(stream, all), Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 6 left");
    let stream = connection.stream();
    connection.send(&[Frame::headers(stream, [known(68)])]).await;
    assert_unreadable(&connection.ended().await, "a seventh");
}

#[tokio::test]
async fn client_with_table_size_zero_gets_literals() {
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open_with(&server, &[(Setting::HeaderTableSize, 0)]).await;
    connection.ping().await;
    for left in (0..9).rev() {
        assert_eq!(connection.ask("d", "k=x").await, format!("OK 9/DAY, {left} left"));
    }
    // RFC 7541, 4.2: the first block announces the smaller table. No entry is inserted.
    assert_eq!(connection.block_starts[0], 0x20);
    assert_eq!(connection.block_entries, 0);
}

#[tokio::test]
async fn undecodable_headers_close_only_their_connection() {
    let (server, mut honest) = served().await;
    let blocks: [(&str, &[u8]); 6] = [
        ("index 0", &[0x80]),
        ("an index outside of the table", &[0xff, 0x80, 0x01]),
        ("a number without its end", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("a text beyond the end", &[0x00, 0x7f, 0x01, b'x']),
        ("a code of Huffman that does not exist", &[0x00, 0x81, 0x00, 0x84, 0xff, 0xff, 0xff, 0xff]),
        ("a table larger than allowed", &[0x3f, 0xe1, 0xff, 0x7f]),
    ];
    for (what, block) in blocks {
        let mut connection = Connection::open(&server).await;
        let stream = connection.stream();
        connection.send(&[Frame::headers(stream, block)]).await;
        assert_unreadable(&connection.ended().await, what);
        assert_still_serves(&mut honest).await;
    }
}

#[tokio::test]
async fn empty_header_block_is_a_protocol_error() {
    let (_server, mut connection) = served().await;
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
    let stream = connection.stream();
    connection.send(&[Frame::headers(stream, []), Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(connection.answer(stream).await.reset, Some(reason::PROTOCOL_ERROR));
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 7 left");
}
