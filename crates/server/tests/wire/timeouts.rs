//! Timeouts: for a client's preface, and for a complete call.

use crate::service::{RULES, assert_still_serves, body};
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
async fn silent_connection_is_closed_and_active_one_is_not() {
    // Seen failing on: a server without the timeout.
    let server = with("handshake_timeout", "200ms").await;
    let mut spoken = Connection::open(&server).await;
    assert_still_serves(&mut spoken).await;
    for begin in [&PREFACE[..0], &PREFACE[..1], &PREFACE[..12], &PREFACE[..23]] {
        let mut silent = Connection::silent(&server).await;
        silent.send_bytes(begin).await;
        assert_eq!(silent.ended().await, ConnectionEnd::Closed, "after {} bytes", begin.len());
        assert_still_serves(&mut spoken).await;
    }
    // Each of the four took longer than the timeout.
    assert_still_serves(&mut spoken).await;
}

#[tokio::test]
async fn slowly_dripped_preface_times_out() {
    let server = with("handshake_timeout", "200ms").await;
    let mut slow = Connection::silent(&server).await;
    // All but its last byte, each sent right after the previous one: the timeout starts at the beginning.
    for byte in &PREFACE[..23] {
        slow.send_bytes(&[*byte]).await;
    }
    assert_eq!(slow.ended().await, ConnectionEnd::Closed);
}

/// Begins a call, sends a part of its body, and waits for the response that arrives without the rest.
async fn unfinished(connection: &mut Connection, headers: &Headers, part: &[u8]) -> String {
    let stream = connection.begin(headers).await;
    connection.send(&[Frame::data(stream, part)]).await;
    let answer = connection.answer(stream).await;
    assert!(answer.body.is_empty(), "{answer:?}");
    answer.summary()
}

#[tokio::test]
async fn incomplete_call_exceeds_its_deadline_and_is_not_charged() {
    // Seen failing on: a response as soon as the message is complete, before the call is.
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    let whole = body("k=x");
    for cut in [0, 3, 5, whole.len() - 1, whole.len()] {
        assert_eq!(unfinished(&mut connection, &Headers::call(), &whole[..cut]).await, "status 4", "{cut}");
    }
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
    // Seen failing on: a service that counts only the calls that it could parse.
    let failed = "ratelimit_service_should_rate_limit_error{err_type=\"service_error\"}";
    assert_eq!(server.metrics().await.metric(failed), Some(5));
}

#[tokio::test]
async fn data_after_the_deadline_is_ignored() {
    let server = with("call_timeout", "100ms").await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    assert_eq!(connection.answer(stream).await.grpc_status(), Some(DEADLINE_EXCEEDED));
    // The client had not read the response yet.
    connection.send(&[Frame::data(stream, body("k=x")).end()]).await;
    connection.ping().await;
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn shorter_client_deadline_takes_precedence() {
    // Seen failing on: the longer of the two.
    let server = with("call_timeout", "1h").await;
    let mut connection = Connection::open(&server).await;
    for timeout in ["100m", "100000u", "99999999n", "1S"] {
        let headers = Headers::call().with("grpc-timeout", timeout);
        assert_eq!(unfinished(&mut connection, &headers, &[0]).await, "status 4", "{timeout}");
    }
    assert_still_serves(&mut connection).await;
}

#[tokio::test]
async fn longer_client_deadline_is_capped_by_the_server() {
    // Seen failing on: the longer of the two.
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    for timeout in ["1H", "99999999H", "60M"] {
        let headers = Headers::call().with("grpc-timeout", timeout);
        assert_eq!(unfinished(&mut connection, &headers, &[0]).await, "status 4", "{timeout}");
    }
}

#[tokio::test]
async fn invalid_deadline_is_ignored_for_a_slow_body() {
    // Seen failing on: an invalid deadline treated as zero.
    let server = with("call_timeout", "1h").await;
    let mut connection = Connection::open(&server).await;
    for bogus in ["", "5", "m", "abc", "5x", "-1S", "1.5S", " 1S", "123456789S", "1 S", "+1S", "m5"] {
        let stream = connection.begin(&Headers::call().with("grpc-timeout", bogus)).await;
        // The body arrives after any deadline that the value could be taken for.
        for _ in 0..20 {
            connection.ping().await;
        }
        connection.send(&[Frame::data(stream, body("free=x")).end()]).await;
        let answer = connection.answer(stream).await.summary();
        assert!(answer.starts_with("OK 1000000/DAY"), "`{bogus}`: {answer}");
    }
}

#[tokio::test]
async fn invalid_deadline_keeps_the_servers_timeout() {
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    let headers = Headers::call().with("grpc-timeout", "soon");
    assert_eq!(unfinished(&mut connection, &headers, &[0]).await, "status 4");
}

#[tokio::test]
async fn health_watch_outlives_the_call_timeout() {
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    let watch = connection.start(&Headers::of(HEALTH_WATCH), &framed(&[])).await;
    while connection.streams.get(&watch).is_none_or(|answer| answer.body.is_empty()) {
        within("the first status", connection.read()).await.expect("a frame");
    }
    for _ in 0..3 {
        // Each lasts as long as a call may.
        assert_eq!(unfinished(&mut connection, &Headers::call(), &[0]).await, "status 4");
    }
    assert_eq!(connection.streams[&watch].body, framed(&[8, 1]));
    assert!(!connection.streams[&watch].ended, "{:?}", connection.streams[&watch]);
}

#[tokio::test]
async fn incomplete_health_call_times_out() {
    // Seen failing on: no deadline for services that tonic serves.
    let server = with("call_timeout", "200ms").await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::of(HEALTH_CHECK)).await;
    connection.send(&[Frame::data(stream, [0, 0])]).await;
    let status = connection.answer(stream).await.grpc_status();
    // Tonic returns CANCELLED for it.
    assert!([Some(DEADLINE_EXCEEDED), Some(1)].contains(&status), "{status:?}");
}
