//! Receivers that are away, slow, or answer errors: nobody waits for them, and nothing piles up.

use crate::exports::sending;
use crate::receiver::{Manner, Receiver};
use crate::shown::number;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_testkit::{Server, overall, request, within};
use std::net::TcpListener;
use std::time::Duration;

const HOT: &str = "ratelimit.requests.total{domain=shop,response_code=OK,descriptor_key=hot}";
const FAILURES: &str = "hivemind_otlp_failures_total{signal=\"metrics\"}";

/// Asks so many times, and all pass.
async fn ask(server: &Server, times: usize) {
    let mut client = server.client().await;
    for _ in 0..times {
        let answer = within("an answer", client.should_rate_limit(request("shop", "hot=x"))).await;
        assert_eq!(overall(&answer.unwrap().into_inner()), "OK");
    }
}

async fn until_failures(server: &Server, least: u64) {
    let failed = async {
        while server.metrics().await.metric(FAILURES).unwrap() < least {
            tokio::task::yield_now().await;
        }
    };
    within("failures", failed).await;
}

/// What the process has in memory, in kB.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

// Seen failing on: a line for each failure.
#[tokio::test]
async fn a_receiver_that_is_busy_is_told_of_once_and_gets_everything_later() {
    for protocol in ["grpc", "http"] {
        let mut receiver = Receiver::start().await;
        receiver.is(Manner::IsBusy);
        let mut server = sending(&receiver, protocol).start().await;
        let line = server.log.next("metrics cannot be sent to").await;
        let cause = if protocol == "grpc" { "Unavailable: not now" } else { "it answers 503" };
        assert!(line.contains(cause) && line.contains(&receiver.endpoint()), "{line}");
        ask(&server, 20).await;
        until_failures(&server, 2).await;
        receiver.is(Manner::Takes);
        server.log.next("metrics are sent to").await;
        receiver.until(|message| number(message, HOT) == Some(20.0)).await;
        server.signal("TERM").await;
        assert!(server.ended().await.success());
        let log = server.log.rest().await;
        assert_eq!(log.matches("metrics cannot be sent to").count(), 1, "{log}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_not_there_is_tried_less_and_less_and_changes_no_answer() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let receiver = Receiver::start().await;
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut server =
        sending(&receiver, "grpc").with("observability.otel.metrics.endpoint", &nobody).start().await;
    let line = server.log.next("metrics cannot be sent to").await;
    assert!(line.contains("refused"), "{line}");
    let first = MonotonicClock.now();
    until_failures(&server, 3).await;
    // Half a second at least after the first, and a whole one after the second.
    assert!(MonotonicClock.now().since(first) >= Duration::from_millis(1_400));
    ask(&server, 200).await;
    server.signal("TERM").await;
    assert!(server.ended().await.success());
}

// Seen failing on: no message at the end.
#[tokio::test]
async fn a_receiver_that_never_answers_costs_one_message_and_no_answer() {
    let mut receiver = Receiver::start().await;
    receiver.is(Manner::Hangs);
    let mut server = sending(&receiver, "grpc")
        .with("observability.otel.metrics.interval", "1ms")
        // Less than a message has.
        .with("server.shutdown_grace", "2s")
        .start()
        .await;
    receiver.next().await;
    ask(&server, 500).await;
    let before = resident(&server);
    ask(&server, 2_000).await;
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} kB more");
    // One is under way at a time, for ten seconds, however often they are due.
    let came = receiver.rest().len();
    assert!(came <= 3, "{came} messages");
    // The end does not wait for it longer than it may.
    server.signal("TERM").await;
    assert!(server.ended().await.success());
    assert!(server.log.rest().await.contains("the last telemetry could not be sent within"));
}

// Seen failing on: what the receiver says written as it is.
#[tokio::test]
async fn what_a_receiver_leaves_out_is_told_in_its_words_on_one_line() {
    for protocol in ["grpc", "http"] {
        let mut receiver = Receiver::start().await;
        receiver.is(Manner::LeavesOut);
        let mut server = sending(&receiver, protocol).start().await;
        let line = server.log.next("has left out 7 of the metrics").await;
        assert!(
            line.contains(r"so many\\nare too many") || line.contains(r"so many\nare too many"),
            "{line}"
        );
        receiver.next().await;
        assert_eq!(server.metrics().await.metric(FAILURES), Some(0));
    }
}
