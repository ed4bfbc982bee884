//! A few a minute: the first ones pass, wherever they land, and no other.

use crate::fleet::{Fleet, Plan};
use crate::load::ask;
use crate::moment::{now, window, with_room};
use crate::rules::{RULES, is_long};
use crate::tally::Outcome;
use hivemind_testkit::{Client, request};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Requests for one counter, dealt in turn from a node on; each is answered before the next. Says which passed; none
/// where a minute ended meanwhile.
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

/// The same for as many counters as it takes until one was asked for within a minute.
async fn within_a_minute(fleet: &Fleet, text: &str, from: usize, requests: usize) -> Vec<Outcome> {
    with_room(MINUTE, Duration::from_secs(3)).await;
    for again in 0..3 {
        if let Some(outcomes) = in_turn(fleet, &format!("{text}-{again}"), from, requests).await {
            return outcomes;
        }
    }
    panic!("{requests} requests for {text} take more than a minute");
}

/// How many passed of each of these counters, asked in turn from all nodes that run, within one minute.
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

/// Waits for the next minute, if there is time for that.
pub(crate) async fn next_minute() {
    if is_long() {
        with_room(MINUTE, MINUTE).await;
    }
}

/// Not more than the limit pass, of counters that nobody has used. Exactly those do in the next minute: whoever died
/// has taken along what it owned of this one.
pub(crate) async fn no_more_than_the_first_pass(fleet: &Fleet, tail: &str) {
    for (name, limit) in [("five", 5), ("ten", 10)] {
        let admitted = admitted_of_each(fleet, &format!("{name}={tail}"), 8, 16).await;
        println!("{tail}: of {limit} a minute: {admitted:?}");
        assert!(admitted.iter().all(|&admitted| admitted <= limit), "{name}: {admitted:?}");
    }
    if is_long() {
        next_minute().await;
        exactly_the_first_pass(fleet, &format!("{tail}-next")).await;
    }
}

/// Exactly the first pass, of counters that nobody has used.
pub(crate) async fn exactly_the_first_pass(fleet: &Fleet, tail: &str) {
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
async fn of_five_and_of_ten_a_minute_exactly_the_first_pass_wherever_they_land() {
    let fleet = Plan::new(3, RULES).patient().start().await.unwrap();
    exactly_the_first_pass(&fleet, "v").await;
}
