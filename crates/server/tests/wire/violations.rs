//! Protocol violations: the connection ends with the error code, and others are unaffected.

use crate::service::{assert_still_serves, body, served};
use hivemind_testkit::http2::{
    ACK, Connection, ConnectionEnd, END_HEADERS, END_STREAM, Frame, FrameType, Headers, PADDED, PRIORITY,
    Setting, reason,
};

use reason::{FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, PROTOCOL_ERROR, STREAM_CLOSED};

/// Sends frames on a connection of their own and asserts that it ends with one of these codes.
async fn assert_ends_with(what: &str, frames: &[Frame], reasons: &[u32]) {
    let (server, mut honest) = served().await;
    let mut connection = Connection::open(&server).await;
    let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
    let ended = match connection.flood(&bytes).await {
        Some(ended) => ended,
        None => connection.ended().await,
    };
    let ConnectionEnd::WentAway(reason) = ended else { panic!("{what}: closed without a reason") };
    assert!(reasons.contains(&reason), "{what}: went away with {reason}, not {reasons:?}");
    assert_still_serves(&mut honest).await;
}

#[tokio::test]
async fn oversized_frame_is_a_frame_size_error() {
    let large = vec![0; 16_385];
    let head = Headers::call().frame(1);
    assert_ends_with("data", &[head, Frame::data(1, large.clone())], &[FRAME_SIZE_ERROR]).await;
    assert_ends_with("headers", &[Frame::headers(1, large.clone())], &[FRAME_SIZE_ERROR]).await;
    assert_ends_with("of any kind", &[Frame::new(0x42, 0, 0, large)], &[FRAME_SIZE_ERROR]).await;
}

#[tokio::test]
async fn frames_with_wrong_length_are_frame_size_errors() {
    let open = Headers::call().frame(1);
    for (what, frame) in [
        ("settings of five bytes", Frame::new(FrameType::Settings, 0, 0, [0; 5])),
        ("an acknowledgement with settings", Frame::new(FrameType::Settings, ACK, 0, [0; 6])),
        ("a ping of seven bytes", Frame::new(FrameType::Ping, 0, 0, [0; 7])),
        ("a ping of nine bytes", Frame::new(FrameType::Ping, 0, 0, [0; 9])),
        ("a window update of three bytes", Frame::new(FrameType::WindowUpdate, 0, 0, [0; 3])),
        ("a reset of three bytes", Frame::new(FrameType::Reset, 0, 1, [0; 3])),
    ] {
        // The general code is acceptable too.
        assert_ends_with(what, &[open.clone(), frame], &[FRAME_SIZE_ERROR, PROTOCOL_ERROR]).await;
    }
}

#[tokio::test]
async fn frames_on_invalid_streams_are_protocol_errors() {
    for (what, frames) in [
        ("data on stream 0", vec![Frame::data(0, *b"x")]),
        ("headers on stream 0", vec![Headers::call().frame(0)]),
        ("a reset of stream 0", vec![Frame::reset(0, 8)]),
        ("a continuation on stream 0", vec![Frame::new(FrameType::Continuation, END_HEADERS, 0, [])]),
        ("settings on a stream", vec![Frame::new(FrameType::Settings, 0, 1, [])]),
        ("a ping on a stream", vec![Frame::new(FrameType::Ping, 0, 1, [0; 8])]),
        ("a GOAWAY on a stream", vec![Frame::new(FrameType::GoAway, 0, 1, [0; 8])]),
        ("a call on stream 2", vec![Headers::call().frame(2).end()]),
        ("data on a stream that never began", vec![Frame::data(5, *b"x")]),
        ("a reset of a stream that never began", vec![Frame::reset(5, 8)]),
        ("a window for a stream that never began", vec![Frame::window_update(5, 1)]),
        ("a promise of a client", vec![Frame::new(FrameType::Push, END_HEADERS, 1, [0, 0, 0, 2])]),
        ("a stream number below the last", vec![Headers::call().frame(5), Headers::call().frame(3)]),
    ] {
        assert_ends_with(what, &frames, &[PROTOCOL_ERROR, STREAM_CLOSED]).await;
    }
}

#[tokio::test]
async fn invalid_settings_are_connection_errors() {
    for (what, key, value, reason) in [
        ("a push of 2", Setting::EnablePush, 2, PROTOCOL_ERROR),
        ("a window above the largest", Setting::InitialWindowSize, 1 << 31, FLOW_CONTROL_ERROR),
        ("frames below the smallest", Setting::MaxFrameSize, 16_383, PROTOCOL_ERROR),
        ("frames above the largest", Setting::MaxFrameSize, 1 << 24, PROTOCOL_ERROR),
    ] {
        assert_ends_with(what, &[Frame::settings(&[(key, value)])], &[reason, PROTOCOL_ERROR]).await;
    }
}

#[tokio::test]
async fn padding_longer_than_its_frame_is_a_protocol_error() {
    let block = Headers::call().block();
    let padded = [&[255][..], &block[..20]].concat();
    let headers = Frame::new(FrameType::Headers, END_HEADERS | PADDED, 1, padded);
    assert_ends_with("headers", &[headers], &[PROTOCOL_ERROR, FRAME_SIZE_ERROR]).await;
    let data = Frame::new(FrameType::Data, PADDED, 1, [9, 1, 2, 3]);
    assert_ends_with("data", &[Headers::call().frame(1), data], &[PROTOCOL_ERROR]).await;
    let empty = Frame::new(FrameType::Data, PADDED, 1, []);
    assert_ends_with("no length", &[Headers::call().frame(1), empty], &[PROTOCOL_ERROR, FRAME_SIZE_ERROR])
        .await;
}

#[tokio::test]
async fn frame_between_headers_and_continuation_is_an_error() {
    let block = Headers::call().block();
    let begun = Frame::new(FrameType::Headers, 0, 1, &block[..10]);
    let rest = |stream| Frame::new(FrameType::Continuation, END_HEADERS, stream, &block[10..]);
    for (what, between) in [
        ("a ping", Frame::ping([0; 8])),
        ("data", Frame::data(1, *b"x")),
        ("headers of another stream", Headers::call().frame(3)),
        ("a continuation of another stream", rest(3)),
        ("an unknown frame", Frame::new(0x42, 0, 0, *b"x")),
    ] {
        assert_ends_with(what, &[begun.clone(), between, rest(1)], &[PROTOCOL_ERROR]).await;
    }
    assert_ends_with("no headers at all", &[rest(1)], &[PROTOCOL_ERROR]).await;
}

#[tokio::test]
async fn frames_on_an_ended_stream_are_errors() {
    let (server, mut honest) = served().await;
    for (what, late) in [
        ("data", Frame::data(1, *b"late")),
        ("headers", Headers::call().frame(1).end()),
        ("headers with a priority", {
            let block = [&[0, 0, 0, 0, 15][..], &Headers::call().block()].concat();
            Frame::new(FrameType::Headers, END_HEADERS | PRIORITY | END_STREAM, 1, block)
        }),
    ] {
        let mut connection = Connection::open(&server).await;
        let answer = connection.call(&Headers::call(), &body("free=x")).await;
        assert_eq!(answer.grpc_status(), Some(0));
        connection.send(&[late]).await;
        // Nothing else goes wrong here, so this must have been detected.
        connection.streams.clear();
        let failed = connection.failed(1).await;
        assert!([STREAM_CLOSED, PROTOCOL_ERROR].contains(&failed), "{what}: {failed}");
        assert_still_serves(&mut honest).await;
    }
}

#[tokio::test]
async fn data_on_a_half_closed_stream_is_an_error() {
    // The response is held back, so that the stream still exists when more of its body arrives.
    let (server, mut honest) = served().await;
    let mut connection = Connection::open_with(&server, &[(Setting::InitialWindowSize, 0)]).await;
    let stream = connection.start(&Headers::call(), &body("free=x")).await;
    connection.ping().await;
    connection.send(&[Frame::data(stream, *b"late")]).await;
    let failed = connection.failed(stream).await;
    assert!([STREAM_CLOSED, PROTOCOL_ERROR].contains(&failed), "{failed}");
    assert_still_serves(&mut honest).await;
}

#[tokio::test]
async fn self_dependent_stream_is_a_protocol_error() {
    let (server, mut honest) = served().await;
    let mut connection = Connection::open(&server).await;
    let block = [&[0, 0, 0, 1, 15][..], &Headers::call().block()].concat();
    connection.send(&[Frame::new(FrameType::Headers, END_HEADERS | PRIORITY, 1, block)]).await;
    assert_eq!(connection.failed(1).await, PROTOCOL_ERROR);
    assert_still_serves(&mut honest).await;
}
