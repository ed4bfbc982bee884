//! How long is waited: for a client to begin to speak, and for a call to be whole.

use crate::rules::{RULES, body, still_serves};
use hivemind_testkit::http2::{
    Connection, ConnectionEnd, Frame, HEALTH_CHECK, HEALTH_WATCH, Headers, framed,
};
use hivemind_testkit::{Server, Setup, within};

const DEADLINE_EXCEEDED: u32 = 4;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

async fn with(key: &str, value: &str) -> Server {
    Setup::rules(RULES).with(&format!("server.{key}"), value).start().await
}

#[tokio::test]
async fn who_does_not_begin_to_speak_is_closed_and_who_did_is_not() {
    // Seen failing on: a server without the time-out.
    let server = with("handshake_timeout", "200ms").await;
    let mut spoken = Connection::open(&server).await;
    still_serves(&mut spoken).await;
    for begin in [&PREFACE[..0], &PREFACE[..1], &PREFACE[..12], &PREFACE[..23]] {
        let mut silent = Connection::silent(&server).await;
        silent.send_bytes(begin).await;
        assert_eq!(silent.ended().await, ConnectionEnd::Closed, "after {} bytes", begin.len());
        still_serves(&mut spoken).await;
    }
    // Each of the four took longer than the time-out.
    still_serves(&mut spoken).await;
}

#[tokio::test]
async fn a_preface_that_comes_drop_by_drop_is_closed_all_the_same() {
    let server = with("handshake_timeout", "200ms").await;
    let mut slow = Connection::silent(&server).await;
    // All but its last byte, each at once when the one before was sent: the clock starts at the beginning.
    for byte in &PREFACE[..23] {
        slow.send_bytes(&[*byte]).await;
    }
    assert_eq!(slow.ended().await, ConnectionEnd::Closed);
}

/// Begins a call, sends a part of its body, and waits for the answer that comes without the rest.
async fn unfinished(connection: &mut Connection, headers: &Headers, part: &[u8]) -> String {
    let stream = connection.begin(headers).await;
    connection.send(&[Frame::data(stream, part)]).await;
    let answer = connection.answer(stream).await;
    assert!(answer.body.is_empty(), "{answer:?}");
    answer.summary()
}

#[tokio::test]
async fn a_call_whose_body_never_ends_exceeds_its_deadline_and_charges_nothing() {
    // Seen failing on: an answer as soon as the message is whole, before the call is.
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    let whole = body("k=x");
    for cut in [0, 3, 5, whole.len() - 1, whole.len()] {
        assert_eq!(unfinished(&mut connection, &Headers::call(), &whole[..cut]).await, "status 4", "{cut}");
    }
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
    // Seen failing on: a service that counts the calls alone that it could read.
    let failed = "ratelimit_service_should_rate_limit_error{err_type=\"service_error\"}";
    assert_eq!(server.metrics().await.metric(failed), Some(5));
}

#[tokio::test]
async fn what_comes_after_the_deadline_harms_nobody() {
    let server = with("call_timeout", "100ms").await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    assert_eq!(connection.answer(stream).await.grpc_status(), Some(DEADLINE_EXCEEDED));
    // The client did not know yet.
    connection.send(&[Frame::data(stream, body("k=x")).end()]).await;
    connection.ping().await;
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn a_shorter_deadline_of_the_caller_goes_first() {
    // Seen failing on: the longer of the two.
    let server = with("call_timeout", "1h").await;
    let mut connection = Connection::open(&server).await;
    for timeout in ["100m", "100000u", "99999999n", "1S"] {
        let headers = Headers::call().with("grpc-timeout", timeout);
        assert_eq!(unfinished(&mut connection, &headers, &[0]).await, "status 4", "{timeout}");
    }
    still_serves(&mut connection).await;
}

#[tokio::test]
async fn a_longer_deadline_of_the_caller_does_not_go_beyond_the_servers() {
    // Seen failing on: the longer of the two.
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    for timeout in ["1H", "99999999H", "60M"] {
        let headers = Headers::call().with("grpc-timeout", timeout);
        assert_eq!(unfinished(&mut connection, &headers, &[0]).await, "status 4", "{timeout}");
    }
}

#[tokio::test]
async fn a_deadline_that_is_none_is_passed_over() {
    // Seen failing on: no deadline taken for one of no time.
    let server = with("call_timeout", "1h").await;
    let mut connection = Connection::open(&server).await;
    for bogus in ["", "5", "m", "abc", "5x", "-1S", "1.5S", " 1S", "123456789S", "1 S", "+1S", "m5"] {
        let stream = connection.begin(&Headers::call().with("grpc-timeout", bogus)).await;
        // The body comes late enough for any deadline that it could be taken for.
        for _ in 0..20 {
            connection.ping().await;
        }
        connection.send(&[Frame::data(stream, body("free=x")).end()]).await;
        let answer = connection.answer(stream).await.summary();
        assert!(answer.starts_with("OK 1000000/DAY"), "`{bogus}`: {answer}");
    }
}

#[tokio::test]
async fn a_deadline_that_is_none_leaves_the_servers_own() {
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    let headers = Headers::call().with("grpc-timeout", "soon");
    assert_eq!(unfinished(&mut connection, &headers, &[0]).await, "status 4");
}

#[tokio::test]
async fn a_watch_of_health_outlives_the_time_of_a_call() {
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    let watch = connection.start(&Headers::of(HEALTH_WATCH), &framed(&[])).await;
    while connection.streams.get(&watch).is_none_or(|answer| answer.body.is_empty()) {
        within("the first word", connection.read()).await.expect("a frame");
    }
    for _ in 0..3 {
        // Each lasts as long as a call may.
        assert_eq!(unfinished(&mut connection, &Headers::call(), &[0]).await, "status 4");
    }
    assert_eq!(connection.streams[&watch].body, framed(&[8, 1]));
    assert!(!connection.streams[&watch].ended, "{:?}", connection.streams[&watch]);
}

#[tokio::test]
async fn a_call_of_health_whose_body_never_ends_is_not_waited_for() {
    // Seen failing on: no deadline for what tonic serves.
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::of(HEALTH_CHECK)).await;
    connection.send(&[Frame::data(stream, [0, 0])]).await;
    let status = connection.answer(stream).await.grpc_status();
    // Tonic says CANCELLED for it.
    assert!([Some(DEADLINE_EXCEEDED), Some(1)].contains(&status), "{status:?}");
}
