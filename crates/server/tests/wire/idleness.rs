//! Connections that nobody uses, and those that grow old: both end by `GOAWAY`, and no call is lost.

use crate::rules::{RULES, body, still_serves};
use hivemind_testkit::http2::{Connection, ConnectionEnd, Frame, HEALTH_WATCH, Headers, framed, reason};
use hivemind_testkit::{Server, Setup, within};

/// Idle connections are let go after 500 ms; nothing else ends one.
async fn impatient() -> Server {
    let setup = Setup::rules(RULES).with("server.idle_timeout", "500ms").with("server.call_timeout", "1h");
    // Before a connection has spoken, it is not idle but silent.
    setup.with("server.handshake_timeout", "200ms").start().await
}

/// Connections are renewed after 500 ms.
async fn renewing() -> Server {
    Setup::rules(RULES).with("server.max_connection_age", "500ms").start().await
}

/// Lets as much time pass as an idle connection is given, by seeing one of them end, and keeps
/// another one busy meanwhile.
async fn outlived(server: &Server, busy: &mut Connection) {
    let mut idle = Connection::open(server).await;
    still_serves(&mut idle).await;
    let ended = idle.ended();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            ended = &mut ended => {
                assert_eq!(ended, ConnectionEnd::WentAway(reason::NO_ERROR));
                return;
            }
            () = still_serves(busy) => {}
        }
    }
}

#[tokio::test]
async fn a_connection_that_nobody_uses_goes_away_and_one_with_calls_does_not() {
    // Seen failing on: a server without the time-out.
    let server = impatient().await;
    let mut busy = Connection::open(&server).await;
    for _ in 0..3 {
        outlived(&server, &mut busy).await;
    }
    assert_eq!(busy.go_aways, []);
    // Its turn comes when it is left alone.
    assert_eq!(busy.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
}

#[tokio::test]
async fn a_connection_without_a_single_call_goes_away_as_well() {
    let server = impatient().await;
    let mut idle = Connection::open(&server).await;
    assert_eq!(idle.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
}

#[tokio::test]
async fn who_may_be_silent_for_long_may_not_be_idle_for_long() {
    let setup = Setup::rules(RULES).with("server.handshake_timeout", "1h");
    let server = setup.with("server.idle_timeout", "500ms").start().await;
    let mut idle = Connection::open(&server).await;
    still_serves(&mut idle).await;
    assert_eq!(idle.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
    let mut without_a_call = Connection::open(&server).await;
    assert_eq!(without_a_call.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
    // Whoever has not spoken is idle as well, and would not understand why.
    let mut silent = Connection::silent(&server).await;
    assert_eq!(silent.ended().await, ConnectionEnd::Closed);
}

#[tokio::test]
async fn who_may_be_idle_for_long_may_not_be_silent_for_long() {
    let setup = Setup::rules(RULES).with("server.handshake_timeout", "300ms");
    let server = setup.with("server.idle_timeout", "1h").start().await;
    let mut idle = Connection::open(&server).await;
    for _ in 0..3 {
        let mut silent = Connection::silent(&server).await;
        assert_eq!(silent.ended().await, ConnectionEnd::Closed);
    }
    idle.ping().await;
    assert_eq!(idle.go_aways, []);
    still_serves(&mut idle).await;
}

#[tokio::test]
async fn a_connection_with_a_watch_of_health_is_not_idle() {
    // Seen failing on: calls under way not looked at.
    let server = impatient().await;
    let mut watching = Connection::open(&server).await;
    let watch = watching.start(&Headers::of(HEALTH_WATCH), &framed(&[])).await;
    while watching.streams.get(&watch).is_none_or(|answer| answer.body.is_empty()) {
        within("the first word", watching.read()).await.expect("a frame");
    }
    let mut busy = Connection::open(&server).await;
    for _ in 0..3 {
        outlived(&server, &mut busy).await;
    }
    watching.ping().await;
    assert_eq!(watching.go_aways, []);
    assert!(!watching.streams[&watch].ended);
    // When the watch is given up, there is nothing left to stay for.
    watching.send(&[Frame::reset(watch, reason::CANCEL)]).await;
    assert_eq!(watching.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
}

#[tokio::test]
async fn a_connection_with_an_unfinished_call_is_not_idle() {
    // Seen failing on: calls under way not looked at.
    let server = impatient().await;
    let mut slow = Connection::open(&server).await;
    let stream = slow.begin(&Headers::call()).await;
    let mut busy = Connection::open(&server).await;
    for _ in 0..3 {
        outlived(&server, &mut busy).await;
    }
    slow.send(&[Frame::data(stream, body("k=x")).end()]).await;
    assert_eq!(slow.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    assert_eq!(slow.go_aways, []);
}

#[tokio::test]
async fn a_connection_that_is_old_goes_away_when_its_calls_are_answered() {
    // Seen failing on: connections dropped at their age.
    let server = renewing().await;
    let mut connection = Connection::open(&server).await;
    let stream = connection.begin(&Headers::call()).await;
    connection.send(&[Frame::data(stream, &body("k=x")[..5])]).await;
    assert_eq!(connection.gone_away().await, reason::NO_ERROR);
    // However long the rest takes.
    connection.ping().await;
    connection.send(&[Frame::data(stream, &body("k=x")[5..]).end()]).await;
    assert_eq!(connection.answer(stream).await.summary(), "OK 9/DAY, 8 left");
    assert_eq!(connection.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
}

#[tokio::test]
async fn a_busy_connection_goes_away_at_its_age_without_losing_a_call() {
    // Seen failing on: connections dropped at their age.
    let server = renewing().await;
    let mut connection = Connection::open(&server).await;
    let mut last = 0;
    while connection.go_aways.is_empty() {
        last = connection.start(&Headers::call(), &body("free=x")).await;
        let answered = async {
            while !connection.streams.get(&last).is_some_and(|answer| answer.ended) {
                if connection.read().await.is_none() {
                    return;
                }
            }
        };
        within("an answer", answered).await;
    }
    connection.ended().await;
    // What the server promised to answer, it did; what it did not, it never began.
    let (_, promised) = *connection.go_aways.last().unwrap();
    let answered = connection.streams.values().filter(|answer| answer.ended).count();
    let begun = (promised.min(last) as usize).div_ceil(2);
    assert!(answered >= begun, "{answered} of {begun}");
}
