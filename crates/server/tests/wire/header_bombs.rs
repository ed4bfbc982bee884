//! Header bombs: headers that are small on the wire and large in memory.

use crate::memory::Memory;
use crate::service::{RULES, assert_still_serves, body, served_by_one_thread};
use hivemind_testkit::Server;
use hivemind_testkit::http2::{Connection, END_HEADERS, Frame, FrameType, Headers, known};

/// Splits a block into frames of allowed size.
fn in_frames(stream: u32, block: &[u8]) -> Vec<Frame> {
    let mut chunks = block.chunks(16_384);
    let mut frames = vec![Frame::new(FrameType::Headers, 0, stream, chunks.next().unwrap())];
    frames.extend(chunks.map(|chunk| Frame::new(FrameType::Continuation, 0, stream, chunk)));
    frames.last_mut().unwrap().flags |= END_HEADERS;
    frames
}

/// Fails without a limit on their number.
#[tokio::test]
async fn more_than_128_headers_are_refused() {
    let server = Server::with_rules(RULES).await;
    let mut connection = Connection::open(&server).await;
    for (count, answer) in [(100, None), (200, Some("http 431"))] {
        let stream = connection.stream();
        let headers = (0..count).fold(Headers::call(), |headers, n| headers.with(&format!("x{n}"), "1"));
        let mut frames = in_frames(stream, &headers.block());
        frames.push(Frame::data(stream, body("free=x")).end());
        connection.send(&frames).await;
        match answer {
            None => assert!(connection.answer(stream).await.summary().starts_with("OK"), "{count}"),
            Some(answer) => assert_eq!(connection.refusal(stream).await.as_deref(), Some(answer), "{count}"),
        }
    }
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn header_list_limit_of_16_kib_is_exact() {
    // Seen failing on: a limit of 16 MiB.
    let server = Server::with_rules(RULES).await;
    for (size, taken) in [(15_000, true), (17_000, false), (60_000, false), (200_000, false)] {
        let mut connection = Connection::open(&server).await;
        let stream = connection.stream();
        let headers = Headers::call().with("x-large", &"x".repeat(size));
        let mut frames = in_frames(stream, &headers.block());
        frames.push(Frame::data(stream, body("free=x")).end());
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        let ended = connection.flood(&bytes).await;
        if taken {
            assert!(connection.answer(stream).await.summary().starts_with("OK"), "{size}");
            continue;
        }
        // A stream that is slightly too large is refused; one that is far too large may end the connection.
        if ended.is_none() && connection.go_aways.is_empty() {
            let answer = connection.refusal(stream).await;
            let refused = |answer: &str| answer == "http 431" || answer.starts_with("reset");
            assert!(answer.as_deref().is_none_or(refused), "{size}: {answer:?}");
        }
    }
    // The total of many small headers is limited too.
    let mut connection = Connection::open(&server).await;
    let stream = connection.stream();
    let names = (0..400).fold(Headers::call(), |headers, n| headers.with(&format!("x-{n}"), "1234"));
    let mut frames = in_frames(stream, &names.block());
    frames.push(Frame::data(stream, body("free=x")).end());
    connection.send(&frames).await;
    assert_eq!(connection.refusal(stream).await.as_deref(), Some("http 431"));
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn repeated_large_table_entry_is_refused_in_bounded_memory() {
    let (server, mut honest) = served_by_one_thread().await;
    let memory = Memory::of(&server);
    for _ in 0..4 {
        let mut connection = Connection::open(&server).await;
        let stream = connection.stream();
        let entry = Headers::none().with("x-bomb", &"x".repeat(4_000)).indexed_block();
        let frames = in_frames(stream, &[Headers::call().block(), entry].concat());
        connection.send(&frames).await;
        connection.ping().await;
        for _ in 0..20 {
            // 12,000 bytes that expand to 48 MB.
            let stream = connection.stream();
            let block = [Headers::call().block(), vec![known(62); 12_000]].concat();
            let frames: Vec<u8> = in_frames(stream, &block).iter().flat_map(Frame::bytes).collect();
            if connection.flood(&frames).await.is_some() {
                break;
            }
            let answer = connection.refusal(stream).await;
            assert!(answer.is_none_or(|answer| answer == "http 431" || answer.starts_with("reset")));
        }
        assert_still_serves(&mut honest).await;
        memory.assert_bounded("bombs");
    }
}
