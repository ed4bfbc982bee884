//! Limits of a few per minute: exactly the first calls pass, at any node.

use crate::fleet::{Fleet, Plan};
use crate::load::ask;
use crate::rules::{RULES, is_long};
use crate::tally::Outcome;
use crate::window_time::{now, wait_for_room, window};
use hivemind_testkit::{Client, request};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Sends requests for one counter, to the nodes in turn from `from` on, each after the previous response.
/// Returns their outcomes, or none if the minute ended meanwhile.
pub(crate) async fn in_turn(fleet: &Fleet, text: &str, from: usize, requests: usize) -> Option<Vec<Outcome>> {
    let alive: Vec<usize> = (0..fleet.nodes.len()).filter(|&index| fleet.nodes[index].runs()).collect();
    let clients: Vec<Client> = alive.iter().map(|&index| fleet.nodes[index].client()).collect();
    let minute = window(now(), MINUTE);
    let mut outcomes = Vec::new();
    for number in from..from + requests {
        let place = number % alive.len();
        outcomes.push(ask(clients[place].clone(), request("d", text)).await.outcome);
    }
    (window(now(), MINUTE) == minute).then_some(outcomes)
}

/// Repeats this with new counters until all requests were within one minute.
async fn within_a_minute(fleet: &Fleet, text: &str, from: usize, requests: usize) -> Vec<Outcome> {
    wait_for_room(MINUTE, Duration::from_secs(3)).await;
    for again in 0..3 {
        if let Some(outcomes) = in_turn(fleet, &format!("{text}-{again}"), from, requests).await {
            return outcomes;
        }
    }
    panic!("{requests} requests for {text} take more than a minute");
}

/// The number of admitted requests of each of these counters, sent in turn to all running nodes, within one
/// minute.
pub(crate) async fn admitted_of_each(
    fleet: &Fleet,
    name: &str,
    counters: usize,
    requests: usize,
) -> Vec<u64> {
    let mut admitted = Vec::new();
    for counter in 0..counters {
        let outcomes = within_a_minute(fleet, &format!("{name}{counter}"), counter, requests).await;
        admitted.push(outcomes.iter().filter(|&&outcome| outcome == Outcome::Admitted).count() as u64);
    }
    admitted
}

/// Waits for the next minute, in the long tier.
pub(crate) async fn next_minute() {
    if is_long() {
        wait_for_room(MINUTE, MINUTE).await;
    }
}

/// Asserts that at most the limit passes for unused counters, and exactly the limit in the next minute: a dead
/// node took the windows that it owned along.
pub(crate) async fn assert_at_most_the_limit_passes(fleet: &Fleet, tail: &str) {
    for (name, limit) in [("five", 5), ("ten", 10)] {
        let admitted = admitted_of_each(fleet, &format!("{name}={tail}"), 8, 16).await;
        println!("{tail}: of {limit} a minute: {admitted:?}");
        assert!(admitted.iter().all(|&admitted| admitted <= limit), "{name}: {admitted:?}");
    }
    if is_long() {
        next_minute().await;
        assert_exactly_the_first_pass(fleet, &format!("{tail}-next")).await;
    }
}

/// Asserts that exactly the first requests of unused counters pass.
pub(crate) async fn assert_exactly_the_first_pass(fleet: &Fleet, tail: &str) {
    for (name, limit) in [("five", 5), ("ten", 10)] {
        for counter in 0..12 {
            let text = format!("{name}={tail}{counter}");
            let outcomes = within_a_minute(fleet, &text, counter, limit + 6).await;
            let expected: Vec<Outcome> = (0..limit + 6)
                .map(|number| if number < limit { Outcome::Admitted } else { Outcome::Refused })
                .collect();
            assert_eq!(outcomes, expected, "{text}");
        }
    }
}

#[tokio::test]
async fn first_calls_of_five_and_ten_a_minute_pass_at_any_node() {
    let fleet = Plan::new(3, RULES).with_long_timeouts().start().await.unwrap();
    assert_exactly_the_first_pass(&fleet, "v").await;
}
