//! Bodies that come in pieces: every way of cutting a call into frames is the same call.

use crate::rules::{RULES, body, served, still_serves};
use hivemind_testkit::http2::{
    Connection, END_HEADERS, END_STREAM, Frame, FrameType, Headers, PADDED, PRIORITY, Setting, framed,
};
use hivemind_testkit::{Server, request};
use prost::Message;

/// A call in these frames is answered as the first of its key.
async fn first_of_nine(connection: &mut Connection, stream: u32, frames: &[Frame]) {
    connection.send(frames).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left", "{frames:?}");
}

#[tokio::test]
async fn a_body_of_one_byte_frames_is_one_message() {
    // Seen failing on: a gathering that keeps the last piece alone.
    let (_server, mut connection) = served().await;
    let stream = connection.begin(&Headers::call()).await;
    // Each goes out alone, and has come before the next one does.
    for byte in body("k=x") {
        connection.send(&[Frame::data(stream, [byte])]).await;
        connection.ping().await;
    }
    first_of_nine(&mut connection, stream, &[Frame::data(stream, []).end()]).await;
    // And all at once, with the end on the last byte.
    let stream = connection.stream();
    let mut frames = vec![Headers::call().frame(stream)];
    frames.extend(body("k=y").iter().map(|byte| Frame::data(stream, [*byte])));
    let last = frames.pop().unwrap().end();
    frames.push(last);
    first_of_nine(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn a_body_may_come_long_after_its_headers() {
    let (_server, mut connection) = served().await;
    let late = connection.begin(&Headers::call()).await;
    for _ in 0..50 {
        still_serves(&mut connection).await;
    }
    first_of_nine(&mut connection, late, &[Frame::data(late, body("k=x")).end()]).await;
}

#[tokio::test]
async fn calls_whose_bodies_come_in_turns_are_kept_apart() {
    let (_server, mut connection) = served().await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(connection.begin(&Headers::call()).await);
    }
    let bodies: Vec<_> = (0..20).map(|number| body(&format!("k=value-{number:02}"))).collect();
    for at in 0..bodies[0].len() {
        let byte = |(stream, body): (&u32, &Vec<u8>)| Frame::data(*stream, [body[at]]);
        let frames: Vec<_> = streams.iter().zip(&bodies).map(byte).collect();
        connection.send(&frames).await;
    }
    // The ends come backwards.
    for stream in streams.iter().rev() {
        first_of_nine(&mut connection, *stream, &[Frame::data(*stream, []).end()]).await;
    }
}

#[tokio::test]
async fn padding_and_priorities_are_no_part_of_a_call() {
    let (_server, mut connection) = served().await;
    let block = Headers::call().block();
    // The length of the padding, a stream it depends on, a weight, and the padding.
    let padded = [&[7, 0, 0, 0, 0, 15][..], &block, &[0; 7]].concat();
    let headers =
        |stream| Frame::new(FrameType::Headers, END_HEADERS | PADDED | PRIORITY, stream, padded.clone());
    for (key, padding) in [("k=none", 0_u8), ("k=some", 9), ("k=most", 255)] {
        let stream = connection.stream();
        let bytes = [&[padding][..], &body(key), &vec![0; padding.into()]].concat();
        let data = Frame::new(FrameType::Data, PADDED | END_STREAM, stream, bytes);
        first_of_nine(&mut connection, stream, &[headers(stream), data]).await;
    }
    // A frame that is nothing but padding, and a PRIORITY frame between two pieces.
    let stream = connection.stream();
    let whole = body("k=pieces");
    let frames = [
        headers(stream),
        Frame::data(stream, &whole[..3]),
        Frame::new(FrameType::Data, PADDED, stream, vec![5, 0, 0, 0, 0, 0]),
        Frame::new(FrameType::Priority, 0, stream, [0, 0, 0, 0, 200]),
        Frame::data(stream, &whole[3..]).end(),
    ];
    first_of_nine(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn headers_may_go_on_in_continuations() {
    let (_server, mut connection) = served().await;
    let block = Headers::call().with("x-long", &"x".repeat(3_000)).block();
    // (A server may refuse a block in very many pieces: that is a flood.)
    for pieces in [2, 3, 5] {
        let stream = connection.stream();
        let mut chunks = block.chunks(block.len().div_ceil(pieces));
        let mut frames = vec![Frame::new(FrameType::Headers, 0, stream, chunks.next().unwrap())];
        frames.extend(chunks.map(|chunk| Frame::new(FrameType::Continuation, 0, stream, chunk)));
        frames.last_mut().unwrap().flags |= END_HEADERS;
        frames.push(Frame::data(stream, body(&format!("k={pieces}"))).end());
        first_of_nine(&mut connection, stream, &frames).await;
    }
    // An empty one ends a block that was whole already.
    let stream = connection.stream();
    let frames = [
        Frame::new(FrameType::Headers, 0, stream, Headers::call().block()),
        Frame::new(FrameType::Continuation, END_HEADERS, stream, []),
        Frame::data(stream, body("k=empty")).end(),
    ];
    first_of_nine(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn trailers_of_a_request_are_passed_over() {
    // Seen failing on: trailers taken for an error.
    let (_server, mut connection) = served().await;
    let stream = connection.begin(&Headers::call()).await;
    let trailers = Headers::none().with("x-checksum", "12345").frame(stream).end();
    first_of_nine(&mut connection, stream, &[Frame::data(stream, body("k=x")), trailers]).await;
    still_serves(&mut connection).await;
}

#[tokio::test]
async fn empty_frames_between_the_pieces_change_nothing() {
    let (_server, mut connection) = served().await;
    let stream = connection.begin(&Headers::call()).await;
    let whole = body("k=x");
    let empty = || Frame::data(stream, []);
    let (first, second) = whole.split_at(6);
    let frames = [
        empty(),
        Frame::data(stream, first),
        empty(),
        empty(),
        Frame::data(stream, second),
        empty(),
        empty().end(),
    ];
    first_of_nine(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn a_message_of_fifty_kilobytes_is_read_whole() {
    let (_server, mut connection) = served().await;
    let whole = body(&format!("k={}", "x".repeat(50_000)));
    let stream = connection.begin(&Headers::call()).await;
    connection.send_body(stream, &whole).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    // And one that needs more than the first window of a connection.
    let whole = body(&format!("k={}", "y".repeat(200_000)));
    let stream = connection.begin(&Headers::call()).await;
    connection.send_body(stream, &whole).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    still_serves(&mut connection).await;
}

#[tokio::test]
async fn what_was_sent_is_given_back_to_the_windows() {
    // Far more than any window, in messages that each fit: a server that forgets to give
    // credit back for what it has read stops here.
    let (_server, mut connection) = served().await;
    let whole = body(&format!("free={}", "x".repeat(60_000)));
    for _ in 0..100 {
        let stream = connection.begin(&Headers::call()).await;
        connection.send_body(stream, &whole).await;
        assert!(connection.answer(stream).await.summary().starts_with("OK"));
    }
}

#[tokio::test]
async fn unknown_frames_and_settings_are_passed_over() {
    let server = Server::with_rules(RULES).await;
    let unknown = (0x4242, 7);
    let settings = [unknown, (Setting::MaxConcurrentStreams, 1), (Setting::MaxHeaderListSize, 1 << 20)];
    let mut connection = Connection::open_with(&server, &settings).await;
    let stream = connection.begin(&Headers::call()).await;
    let frames = [
        Frame::new(0xbe, 0xff, stream, *b"what is this"),
        Frame::new(0x42, 0, 0, vec![1; 5_000]),
        Frame::data(stream, body("k=x")).end(),
    ];
    first_of_nine(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn unknown_fields_of_a_message_are_passed_over() {
    // Seen failing on: unknown bytes taken for an error.
    let (_server, mut connection) = served().await;
    // Field 1000 as a number, as bytes, as 4 and as 8 bytes, and as a group that holds another field.
    let unknown: [&[u8]; 5] = [
        &[0xc0, 0x3e, 0x2a],
        &[0xc2, 0x3e, 3, 1, 2, 3],
        &[0xc5, 0x3e, 1, 2, 3, 4],
        &[0xc1, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0xc3, 0x3e, 0x08, 0x01, 0xc4, 0x3e],
    ];
    for (number, field) in unknown.into_iter().enumerate() {
        let known = request("d", &format!("k={number}")).encode_to_vec();
        for message in [[&known[..], field].concat(), [field, &known[..]].concat()] {
            let answer = connection.call(&Headers::call(), &framed(&message)).await;
            assert!(answer.summary().starts_with("OK 9/DAY"), "{field:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_ping_comes_back_with_its_bytes_also_amid_a_call() {
    let (_server, mut connection) = served().await;
    let stream = connection.begin(&Headers::call()).await;
    for number in 0..20_u8 {
        connection.send(&[Frame::ping([number; 8])]).await;
        while connection.pongs.len() <= usize::from(number) {
            hivemind_testkit::within("a pong", connection.read()).await.expect("a pong");
        }
    }
    let expected: Vec<_> = (0..20_u8).map(|number| vec![number; 8]).collect();
    assert_eq!(connection.pongs, expected);
    first_of_nine(&mut connection, stream, &[Frame::data(stream, body("k=x")).end()]).await;
}
