//! The effect of a refused request on its counters: the three values of `on_refusal`.

use hivemind_testkit::{Server, Setup, overall, peek, request, statuses};

const RULES: &str = "
domain: d
descriptors:
- {key: wide, rate_limit: {unit: day, requests_per_unit: 10}}
- {key: narrow, rate_limit: {unit: day, requests_per_unit: 4}}
- {key: sliding, rate_limit: {algorithm: sliding_window, unit: day, requests_per_unit: 4}}
";

/// Three hits on each of two limits; the second has room for one.
async fn refused_after_three(server: &Server) {
    for expected in ["OK", "OVER"] {
        let mut three = request("d", "wide=x | narrow=x");
        three.hits_addend = 3;
        assert_eq!(overall(&server.send(three).await), expected);
    }
}

async fn with(way: &str) -> Server {
    Setup::rules(RULES).with("rate_limiting.on_refusal", way).start().await
}

#[tokio::test]
async fn refusal_is_counted_only_by_the_refusing_limit() {
    let server = Server::with_rules(RULES).await;
    refused_after_three(&server).await;
    assert_eq!(
        statuses(&server.send(peek("d", "wide=x | narrow=x")).await),
        "OK 10/DAY, 7 left | OVER 4/DAY"
    );
}

#[tokio::test]
async fn count_all_counts_refusals_on_every_limit() {
    let server = with("count_all").await;
    refused_after_three(&server).await;
    assert_eq!(
        statuses(&server.send(peek("d", "wide=x | narrow=x")).await),
        "OK 10/DAY, 4 left | OVER 4/DAY"
    );
}

#[tokio::test]
async fn count_none_counts_refusals_on_no_limit() {
    let server = with("count_none").await;
    refused_after_three(&server).await;
    let left = statuses(&server.send(peek("d", "wide=x | narrow=x")).await);
    assert_eq!(left, "OK 10/DAY, 7 left | OK 4/DAY, 1 left");
}

#[tokio::test]
async fn sliding_window_recovers_within_two_windows_of_refusals() {
    let server = Server::with_rules(RULES).await;
    let mut reset = 0;
    for _ in 0..50 {
        let answer = server.ask("d", "sliding=x").await;
        reset = answer.statuses[0].duration_until_reset.unwrap().seconds;
    }
    // At most two windows, however many refusals there were.
    assert!(reset <= 2 * 86_400, "{reset}");
    // One more than the limit is recorded: after this refund there is room again.
    let mut back = request("d", "sliding=x");
    back.descriptors[0].hits_addend = Some(2);
    back.descriptors[0].is_negative_hits = true;
    server.send(back).await;
    assert_eq!(statuses(&server.send(peek("d", "sliding=x")).await), "OK 4/DAY, 1 left");
}
