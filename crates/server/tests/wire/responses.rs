//! Responses to the byte, and responses to calls that cannot be decided.

use crate::service::{assert_still_serves, body, served};
use hivemind_testkit::http2::{Answer, Connection, Frame, Headers, framed};
use hivemind_testkit::request;
use prost::Message;

const INVALID_ARGUMENT: u32 = 3;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// An error is one block of headers, without a body.
fn assert_only_trailers(answer: &Answer, code: u32) {
    assert_eq!(answer.reset, None, "{answer:?}");
    assert_eq!((answer.value(":status"), answer.grpc_status()), (Some("200"), Some(code)), "{answer:?}");
    assert_eq!(answer.value("content-type"), Some("application/grpc"), "{answer:?}");
    assert_eq!((answer.blocks.len(), &answer.body[..]), (1, &[][..]), "{answer:?}");
}

/// `grpc-message` with its percent encoding removed.
fn message(answer: &Answer) -> String {
    let coded = answer.value("grpc-message").unwrap_or_default();
    assert!(coded.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{coded:?}");
    let mut bytes = Vec::new();
    let mut rest = coded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(&after[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The body of a call with the compressed flag.
fn flagged(text: &str) -> Vec<u8> {
    let mut flagged = body(text);
    flagged[0] = 1;
    flagged
}

async fn refused(connection: &mut Connection, body: &[u8], code: u32) -> Answer {
    let answer = connection.call(&Headers::call(), body).await;
    assert_only_trailers(&answer, code);
    answer
}

#[tokio::test]
async fn response_has_exactly_the_grpc_headers_and_trailers() {
    // Seen failing on: a `date` in every response.
    let (_server, mut connection) = served().await;
    for left in (0..9).rev() {
        let answer = connection.call(&Headers::call(), &body("k=x")).await;
        let head = pairs(&[(":status", "200"), ("content-type", "application/grpc")]);
        assert_eq!(answer.blocks, [head, pairs(&[("grpc-status", "0")])]);
        assert_eq!(answer.summary(), format!("OK 9/DAY, {left} left"));
    }
    // A refusal is a response like any other.
    let answer = connection.call(&Headers::call(), &body("k=x")).await;
    assert_eq!(answer.blocks[1], pairs(&[("grpc-status", "0")]));
    assert_eq!(answer.summary(), "OVER 9/DAY");
}

#[tokio::test]
async fn error_is_trailers_only_with_readable_message() {
    let (_server, mut connection) = served().await;
    let nameless = framed(&request("", "k=x").encode_to_vec());
    let answer = refused(&mut connection, &nameless, INVALID_ARGUMENT).await;
    assert_eq!(message(&answer), "rate limit domain must not be empty");
    let names: Vec<_> = answer.blocks[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [":status", "content-type", "grpc-status", "grpc-message"]);
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn unknown_encoding_is_unimplemented_and_lists_identity() {
    // Seen failing on: a missing `grpc-accept-encoding`, and tonic's server, which returns INTERNAL.
    let (_server, mut connection) = served().await;
    for encoding in ["gzip", "deflate", "snappy", "no-such"] {
        let headers = Headers::call().with("grpc-encoding", encoding);
        let answer = connection.call(&headers, &flagged("k=x")).await;
        assert_only_trailers(&answer, UNIMPLEMENTED);
        assert_eq!(answer.value("grpc-accept-encoding"), Some("identity"), "{encoding}");
    }
    // The same if the rest of the body is still awaited.
    for (encoding, code) in [("gzip", UNIMPLEMENTED), ("identity", INTERNAL)] {
        let stream = connection.begin(&Headers::call().with("grpc-encoding", encoding)).await;
        connection.send(&[Frame::data(stream, &flagged("k=x")[..3])]).await;
        connection.ping().await;
        connection.send(&[Frame::data(stream, &flagged("k=x")[3..]).end()]).await;
        assert_only_trailers(&connection.answer(stream).await, code);
    }
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn compressed_flag_without_encoding_is_an_internal_error() {
    let (_server, mut connection) = served().await;
    for headers in [Headers::call(), Headers::call().with("grpc-encoding", "identity")] {
        let answer = connection.call(&headers, &flagged("k=x")).await;
        assert_only_trailers(&answer, INTERNAL);
        assert_eq!(answer.value("grpc-accept-encoding"), None);
    }
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn uncompressed_call_of_a_compressing_client_is_served() {
    let (_server, mut connection) = served().await;
    let able = Headers::call().with("grpc-encoding", "gzip").with("grpc-accept-encoding", "gzip, identity");
    let answer = connection.call(&able, &body("k=x")).await;
    assert_eq!(answer.summary(), "OK 9/DAY, 8 left");
    let able = Headers::call().with("grpc-accept-encoding", "identity, deflate, gzip");
    let answer = connection.call(&able, &body("k=y")).await;
    assert_eq!(answer.summary(), "OK 9/DAY, 8 left");
    assert_eq!(answer.value("grpc-encoding"), None);
}

#[tokio::test]
async fn body_that_is_not_one_message_is_internal_and_not_charged() {
    // Seen failing on: a response as soon as one message was complete.
    let (_server, mut connection) = served().await;
    let one = body("k=x");
    let mut longer = one.clone();
    longer[4] += 1;
    let mut shorter = one.clone();
    shorter[4] -= 1;
    let bodies: [(&str, Vec<u8>); 8] = [
        ("two messages", [&one[..], &one].concat()),
        ("no message", Vec::new()),
        ("half a prefix", one[..3].to_vec()),
        ("a prefix alone", one[..5].to_vec()),
        ("less than its length", one[..one.len() - 1].to_vec()),
        ("a length beyond its end", longer),
        ("a byte after its end", shorter),
        ("a flag that does not exist", [&[2], &one[1..]].concat()),
    ];
    for (what, bytes) in bodies {
        let answer = connection.call(&Headers::call(), &bytes).await;
        assert_eq!(answer.grpc_status(), Some(INTERNAL), "{what}: {answer:?}");
        assert_only_trailers(&answer, INTERNAL);
    }
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn call_without_a_body_is_an_internal_error() {
    let (_server, mut connection) = served().await;
    let stream = connection.stream();
    connection.send(&[Headers::call().frame(stream).end()]).await;
    let answer = connection.answer(stream).await;
    assert_only_trailers(&answer, INTERNAL);
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn malformed_request_message_is_an_internal_error() {
    // Seen failing on: strings that were not checked to be UTF-8.
    let (_server, mut connection) = served().await;
    let messages: [(&str, &[u8]); 8] = [
        ("a text that is not UTF-8", &[0x0a, 2, 0xff, 0xfe]),
        ("a key that is not UTF-8", &[0x0a, 1, b'd', 0x12, 5, 0x0a, 3, 0x0a, 1, 0xc0]),
        ("a length beyond the end", &[0x0a, 100, b'd']),
        ("a number without its end", &[0x18, 0xff]),
        ("a number of eleven bytes", &[0x18, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ("the number 0 for a field", &[0x00, 0]),
        ("a kind of field that does not exist", &[0x0f]),
        ("the end of a group that never began", &[0xc4, 0x3e]),
    ];
    for (what, bytes) in messages {
        let answer = connection.call(&Headers::call(), &framed(bytes)).await;
        assert_eq!(answer.grpc_status(), Some(INTERNAL), "{what}: {answer:?}");
        assert_only_trailers(&answer, INTERNAL);
        message(&answer);
    }
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn message_size_limit_is_exact_and_checked_by_length() {
    // Seen failing on: a length that is checked only after the message is complete.
    let (_server, mut connection) = served().await;
    let with_value = |size: usize| body(&format!("k={}", "x".repeat(size)));
    let around = 5 + with_value(262_000).len() - 262_000;
    let message_of = |size: usize| with_value(size + 10 - around);
    for (size, expected) in [(262_144, "OK 9/DAY, 8 left"), (262_145, "status 8"), (400_000, "status 8")] {
        let body = message_of(size);
        assert_eq!(body.len(), size + 5);
        let stream = connection.begin(&Headers::call()).await;
        connection.send_body(stream, &body).await;
        assert_eq!(connection.answer(stream).await.summary(), expected, "{size}");
    }
    // The length is enough to refuse it: the rest is not awaited.
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::data(stream, [0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3])]).await;
    assert_only_trailers(&connection.answer(stream).await, RESOURCE_EXHAUSTED);
    assert_still_serves(&mut connection).await;
}
