//! Headers that are small on the wire and large in memory.

use crate::memory::Memory;
use crate::rules::{RULES, body, served_by_one_thread, still_serves};
use hivemind_testkit::Server;
use hivemind_testkit::http2::{Connection, END_HEADERS, Frame, FrameType, Headers, known};

/// A block in frames that are each small enough.
fn in_frames(stream: u32, block: &[u8]) -> Vec<Frame> {
    let mut chunks = block.chunks(16_384);
    let mut frames = vec![Frame::new(FrameType::Headers, 0, stream, chunks.next().unwrap())];
    frames.extend(chunks.map(|chunk| Frame::new(FrameType::Continuation, 0, stream, chunk)));
    frames.last_mut().unwrap().flags |= END_HEADERS;
    frames
}

/// Seen failing without a bound on their number.
#[tokio::test]
async fn more_than_128_headers_are_refused_however_small_they_are() {
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
    still_serves(&mut connection).await;
}

#[tokio::test]
async fn a_list_of_headers_above_16_kib_is_refused_and_one_below_is_not() {
    // Seen failing on: a bound of 16 MiB.
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
        // A stream too large to be read is refused; one that is far too large may end the connection.
        if ended.is_none() && connection.go_aways.is_empty() {
            let answer = connection.refusal(stream).await;
            let refused = |answer: &str| answer == "http 431" || answer.starts_with("reset");
            assert!(answer.as_deref().is_none_or(refused), "{size}: {answer:?}");
        }
    }
    // Many small ones are a list as well.
    let mut connection = Connection::open(&server).await;
    let stream = connection.stream();
    let names = (0..400).fold(Headers::call(), |headers, n| headers.with(&format!("x-{n}"), "1234"));
    let mut frames = in_frames(stream, &names.block());
    frames.push(Frame::data(stream, body("free=x")).end());
    connection.send(&frames).await;
    assert_eq!(connection.refusal(stream).await.as_deref(), Some("http 431"));
    still_serves(&mut connection).await;
}

#[tokio::test]
async fn a_block_that_names_one_large_entry_thousands_of_times_is_refused_at_no_cost() {
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
            // 12,000 bytes that stand for 48 MB.
            let stream = connection.stream();
            let block = [Headers::call().block(), vec![known(62); 12_000]].concat();
            let frames: Vec<u8> = in_frames(stream, &block).iter().flat_map(Frame::bytes).collect();
            if connection.flood(&frames).await.is_some() {
                break;
            }
            let answer = connection.refusal(stream).await;
            assert!(answer.is_none_or(|answer| answer == "http 431" || answer.starts_with("reset")));
        }
        still_serves(&mut honest).await;
        memory.assert_bounded("bombs");
    }
}
