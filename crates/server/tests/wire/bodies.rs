//! Fragmented bodies: every split of a call into frames is the same call.

use crate::service::{RULES, assert_still_serves, body, served};
use hivemind_testkit::http2::{
    Connection, END_HEADERS, END_STREAM, Frame, FrameType, Headers, PADDED, PRIORITY, Setting, framed,
};
use hivemind_testkit::{Server, request};
use prost::Message;

/// Sends these frames of a call, which must be answered as the first hit of its key.
async fn assert_first_hit(connection: &mut Connection, stream: u32, frames: &[Frame]) {
    connection.send(frames).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left", "{frames:?}");
}

#[tokio::test]
async fn body_in_one_byte_frames_is_one_message() {
    // Seen failing on: a body buffer that keeps only the last piece.
    let (_server, mut connection) = served().await;
    let stream = connection.begin(&Headers::call()).await;
    // Each piece is sent alone, and has arrived before the next one.
    for byte in body("k=x") {
        connection.send(&[Frame::data(stream, [byte])]).await;
        connection.ping().await;
    }
    assert_first_hit(&mut connection, stream, &[Frame::data(stream, []).end()]).await;
    // Then all at once, with the end on the last byte.
    let stream = connection.stream();
    let mut frames = vec![Headers::call().frame(stream)];
    frames.extend(body("k=y").iter().map(|byte| Frame::data(stream, [*byte])));
    let last = frames.pop().unwrap().end();
    frames.push(last);
    assert_first_hit(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn body_may_arrive_long_after_its_headers() {
    let (_server, mut connection) = served().await;
    let late = connection.begin(&Headers::call()).await;
    for _ in 0..50 {
        assert_still_serves(&mut connection).await;
    }
    assert_first_hit(&mut connection, late, &[Frame::data(late, body("k=x")).end()]).await;
}

#[tokio::test]
async fn interleaved_bodies_are_kept_apart() {
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
    // The ends arrive in reverse order.
    for stream in streams.iter().rev() {
        assert_first_hit(&mut connection, *stream, &[Frame::data(*stream, []).end()]).await;
    }
}

#[tokio::test]
async fn padding_and_priorities_are_ignored() {
    let (_server, mut connection) = served().await;
    let block = Headers::call().block();
    // The padding length, the stream dependency, a weight, and the padding.
    let padded = [&[7, 0, 0, 0, 0, 15][..], &block, &[0; 7]].concat();
    let headers =
        |stream| Frame::new(FrameType::Headers, END_HEADERS | PADDED | PRIORITY, stream, padded.clone());
    for (key, padding) in [("k=none", 0_u8), ("k=some", 9), ("k=most", 255)] {
        let stream = connection.stream();
        let bytes = [&[padding][..], &body(key), &vec![0; padding.into()]].concat();
        let data = Frame::new(FrameType::Data, PADDED | END_STREAM, stream, bytes);
        assert_first_hit(&mut connection, stream, &[headers(stream), data]).await;
    }
    // A frame of padding only, and a PRIORITY frame between two pieces.
    let stream = connection.stream();
    let whole = body("k=pieces");
    let frames = [
        headers(stream),
        Frame::data(stream, &whole[..3]),
        Frame::new(FrameType::Data, PADDED, stream, vec![5, 0, 0, 0, 0, 0]),
        Frame::new(FrameType::Priority, 0, stream, [0, 0, 0, 0, 200]),
        Frame::data(stream, &whole[3..]).end(),
    ];
    assert_first_hit(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn headers_may_continue_in_continuation_frames() {
    let (_server, mut connection) = served().await;
    let block = Headers::call().with("x-long", &"x".repeat(3_000)).block();
    // (A server may refuse a block in very many pieces, which is a flood.)
    for pieces in [2, 3, 5] {
        let stream = connection.stream();
        let mut chunks = block.chunks(block.len().div_ceil(pieces));
        let mut frames = vec![Frame::new(FrameType::Headers, 0, stream, chunks.next().unwrap())];
        frames.extend(chunks.map(|chunk| Frame::new(FrameType::Continuation, 0, stream, chunk)));
        frames.last_mut().unwrap().flags |= END_HEADERS;
        frames.push(Frame::data(stream, body(&format!("k={pieces}"))).end());
        assert_first_hit(&mut connection, stream, &frames).await;
    }
    // An empty continuation ends a block that was already complete.
    let stream = connection.stream();
    let frames = [
        Frame::new(FrameType::Headers, 0, stream, Headers::call().block()),
        Frame::new(FrameType::Continuation, END_HEADERS, stream, []),
        Frame::data(stream, body("k=empty")).end(),
    ];
    assert_first_hit(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn request_trailers_are_ignored() {
    // Seen failing on: trailers treated as an error.
    let (_server, mut connection) = served().await;
    let stream = connection.begin(&Headers::call()).await;
    let trailers = Headers::none().with("x-checksum", "12345").frame(stream).end();
    assert_first_hit(&mut connection, stream, &[Frame::data(stream, body("k=x")), trailers]).await;
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn empty_data_frames_are_ignored() {
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
    assert_first_hit(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn large_message_is_read_completely() {
    let (_server, mut connection) = served().await;
    let whole = body(&format!("k={}", "x".repeat(50_000)));
    let stream = connection.begin(&Headers::call()).await;
    connection.send_body(stream, &whole).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    // And a message larger than the initial window of a connection.
    let whole = body(&format!("k={}", "y".repeat(200_000)));
    let stream = connection.begin(&Headers::call()).await;
    connection.send_body(stream, &whole).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn window_updates_are_sent_for_received_data() {
    // Far more than any window, in messages that each fit: a server that sends no window updates for what it
    // has read stalls here.
    let (_server, mut connection) = served().await;
    let whole = body(&format!("free={}", "x".repeat(60_000)));
    for _ in 0..100 {
        let stream = connection.begin(&Headers::call()).await;
        connection.send_body(stream, &whole).await;
        assert!(connection.answer(stream).await.summary().starts_with("OK"));
    }
}

#[tokio::test]
async fn unknown_frames_and_settings_are_ignored() {
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
    assert_first_hit(&mut connection, stream, &frames).await;
}

#[tokio::test]
async fn unknown_message_fields_are_ignored() {
    // Seen failing on: unknown bytes treated as an error.
    let (_server, mut connection) = served().await;
    // Field 1000 as a varint, as bytes, as 4 and 8 fixed bytes, and as a group that contains another field.
    let unknown: [&[u8]; 5] = [
        &[0xc0, 0x3e, 0x2a],
        &[0xc2, 0x3e, 3, 1, 2, 3],
        &[0xc5, 0x3e, 1, 2, 3, 4],
        &[0xc1, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0xc3, 0x3e, 0x08, 0x01, 0xc4, 0x3e],
    ];
    for (number, field) in unknown.into_iter().enumerate() {
        let message = request("d", &format!("k={number}")).encode_to_vec();
        for extended in [[&message[..], field].concat(), [field, &message[..]].concat()] {
            let answer = connection.call(&Headers::call(), &framed(&extended)).await;
            assert!(answer.summary().starts_with("OK 9/DAY"), "{field:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn ping_is_acknowledged_with_its_bytes_during_a_call() {
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
    assert_first_hit(&mut connection, stream, &[Frame::data(stream, body("k=x")).end()]).await;
}
