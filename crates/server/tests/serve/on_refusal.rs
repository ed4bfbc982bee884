//! What a refused request leaves behind: the three ways of `on_refusal`.

use hivemind_testkit::{Server, Setup, overall, peek, request, statuses};

const RULES: &str = "
domain: d
descriptors:
- {key: wide, rate_limit: {unit: day, requests_per_unit: 10}}
- {key: narrow, rate_limit: {unit: day, requests_per_unit: 4}}
- {key: sliding, rate_limit: {algorithm: sliding_window, unit: day, requests_per_unit: 4}}
";

/// Three hits on each of two limits, of which the second has room for one.
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
async fn by_default_a_refusal_is_counted_where_it_was_refused_and_nowhere_else() {
    let server = Server::with_rules(RULES).await;
    refused_after_three(&server).await;
    assert_eq!(
        statuses(&server.send(peek("d", "wide=x | narrow=x")).await),
        "OK 10/DAY, 7 left | OVER 4/DAY"
    );
}

#[tokio::test]
async fn a_refusal_can_be_counted_everywhere_as_the_reference_does() {
    let server = with("count_all").await;
    refused_after_three(&server).await;
    assert_eq!(
        statuses(&server.send(peek("d", "wide=x | narrow=x")).await),
        "OK 10/DAY, 4 left | OVER 4/DAY"
    );
}

#[tokio::test]
async fn a_refusal_can_be_counted_nowhere() {
    let server = with("count_none").await;
    refused_after_three(&server).await;
    let left = statuses(&server.send(peek("d", "wide=x | narrow=x")).await);
    assert_eq!(left, "OK 10/DAY, 7 left | OK 4/DAY, 1 left");
}

#[tokio::test]
async fn a_hammering_client_of_a_sliding_window_is_not_locked_out_for_ever() {
    let server = Server::with_rules(RULES).await;
    let mut reset = 0;
    for _ in 0..50 {
        let answer = server.ask("d", "sliding=x").await;
        reset = answer.statuses[0].duration_until_reset.unwrap().seconds;
    }
    // Two windows at most, however many refusals there were.
    assert!(reset <= 2 * 86_400, "{reset}");
    // One more than the limit was recorded: so much given back, and there is room again.
    let mut back = request("d", "sliding=x");
    back.descriptors[0].hits_addend = Some(2);
    back.descriptors[0].is_negative_hits = true;
    server.send(back).await;
    assert_eq!(statuses(&server.send(peek("d", "sliding=x")).await), "OK 4/DAY, 1 left");
}
