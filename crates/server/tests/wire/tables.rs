//! Compressed headers: tables that change with every call, are evicted, resized or refused.

use crate::rules::{RULES, body, served, still_serves};
use hivemind_testkit::Server;
use hivemind_testkit::http2::{Connection, ConnectionEnd, Frame, Headers, Setting, known, reason};
use std::collections::VecDeque;

#[tokio::test]
async fn headers_that_differ_in_every_call_are_read_anew_each_time() {
    let (_server, mut connection) = served().await;
    for number in 0..300 {
        let headers = Headers::call()
            .with("traceparent", &format!("00-{number:032x}-{number:016x}-01"))
            .with("x-request-id", &format!("{number:08x}-0000-4000-8000-000000000000"));
        let answer = connection.call(&headers, &body(&format!("k={number}"))).await;
        assert_eq!(answer.summary(), "OK 9/DAY, 8 left", "{number}");
    }
}

/// RFC 7541 has a reason of its own for it; h2 says the general one.
fn assert_unreadable(ended: &ConnectionEnd, what: &str) {
    let reasons = [reason::COMPRESSION_ERROR, reason::PROTOCOL_ERROR].map(ConnectionEnd::WentAway);
    assert!(reasons.contains(ended), "{what}: {ended:?}");
}

/// What a client knows of the server's dynamic table: names and sizes, the newest first.
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

    /// By its index if it is still there, and else anew.
    fn known(&mut self, name: &str, value: &str) -> Vec<u8> {
        match self.entries.iter().position(|(known, _)| known == name) {
            Some(place) => vec![known(u8::try_from(62 + place).unwrap())],
            None => self.insert(name, value),
        }
    }
}

#[tokio::test]
async fn entries_that_move_and_are_evicted_keep_their_meaning() {
    let (_server, mut connection) = served().await;
    let mut table = Table { entries: VecDeque::new(), size: 4_096 };
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    for number in 0..500 {
        let stream = connection.stream();
        // The path moves on with every new entry until it is evicted and comes in anew.
        let block = [
            vec![0x83, 0x86],
            table.known(":path", path),
            table.known("content-type", "application/grpc"),
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
async fn a_table_that_is_resized_forgets_what_was_in_it() {
    let (_server, mut connection) = served().await;
    let stream = connection.stream();
    connection.send(&[Frame::headers(stream, Headers::call().indexed_block())]).await;
    connection.send(&[Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    // To nothing and back to 4,096.
    let updates = [0x20, 0x3f, 0xe1, 0x1f];
    let block = [&updates[..], &Headers::call().indexed_block()].concat();
    let stream = connection.stream();
    connection.send(&[Frame::headers(stream, block), Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 7 left");
    // All six are there again, and there is no seventh.
    let stream = connection.stream();
    let all = [67, 66, 65, 64, 63, 62].map(known);
    connection.send(&[Frame::headers(stream, all), Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 6 left");
    let stream = connection.stream();
    connection.send(&[Frame::headers(stream, [known(68)])]).await;
    assert_unreadable(&connection.ended().await, "a seventh");
}

#[tokio::test]
async fn a_client_without_a_table_is_answered_without_one() {
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open_with(&server, &[(Setting::HeaderTableSize, 0)]).await;
    connection.ping().await;
    for left in (0..9).rev() {
        assert_eq!(connection.ask("d", "k=x").await, format!("OK 9/DAY, {left} left"));
    }
    // RFC 7541, 4.2: the first block says that the table is now smaller. None enters anything.
    assert_eq!(connection.block_starts[0], 0x20);
    assert_eq!(connection.block_entries, 0);
}

#[tokio::test]
async fn headers_that_cannot_be_read_end_the_connection_and_no_other() {
    let (server, mut honest) = served().await;
    let blocks: [(&str, &[u8]); 6] = [
        ("index 0", &[0x80]),
        ("an index that is not there", &[0xff, 0x80, 0x01]),
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
        still_serves(&mut honest).await;
    }
}

#[tokio::test]
async fn an_empty_block_is_no_call_even_after_one() {
    let (_server, mut connection) = served().await;
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
    let stream = connection.stream();
    connection.send(&[Frame::headers(stream, []), Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(connection.answer(stream).await.reset, Some(reason::PROTOCOL_ERROR));
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 7 left");
}
