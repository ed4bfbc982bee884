//! Load over window edges: one window ends, the next begins, and late answers arrive.

use crate::fleet::{Fleet, Plan};
use crate::load::ask;
use crate::rules::{FAST, RULES, fail_over_limit};
use crate::tally::{Answer, Outcome, Tally};
use crate::window_time::{SECOND, begin, now, phase, window};
use hivemind_testkit::{request, within};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Requests per tick, at all nodes together: two thousand per second.
const AT_ONCE: usize = 10;
const TICK: Duration = Duration::from_millis(5);
const OPEN: usize = 128;
const SECONDS: u64 = 6;
/// The time around an edge in which the nodes' clocks, which differ by up to ten milliseconds, may be in either
/// window.
const NEAR_AN_EDGE: u64 = 40;

/// Sends requests continuously, from one window to the end of the last.
async fn continuous_load(fleet: &Fleet, text: &str, seconds: u64) -> Tally {
    let clients: Vec<_> = fleet.nodes.iter().map(crate::node::Node::client).collect();
    let (open, mut calls, mut ticks) =
        (Arc::new(Semaphore::new(OPEN)), JoinSet::new(), tokio::time::interval(TICK));
    let end = begin(window(now(), SECOND) + seconds, SECOND);
    let mut sent = 0;
    while now() < end {
        ticks.tick().await;
        for _ in 0..AT_ONCE {
            let Ok(place) = Arc::clone(&open).try_acquire_owned() else { break };
            let (client, request) = (clients[sent % clients.len()].clone(), request("d", text));
            sent += 1;
            calls.spawn(async move {
                let answer = ask(client, request).await;
                drop(place);
                answer
            });
        }
    }
    Tally { answers: within("the last answers", calls.join_all()).await }
}

/// The number of requests certainly admitted within these windows.
fn admitted_in(answers: &[Answer], from: u64, to: u64) -> u64 {
    let (from, to) = (begin(from, SECOND), begin(to, SECOND));
    let within = |answer: &&Answer| answer.sent >= from && answer.received < to;
    answers.iter().filter(within).filter(|answer| answer.outcome == Outcome::Admitted).count() as u64
}

#[tokio::test]
async fn continuous_load_admits_at_most_one_limit_per_window() {
    let fleet = Plan::new(3, RULES).start().await.unwrap();
    let tally = continuous_load(&fleet, "fast=edges", SECONDS).await;
    let first = tally.answers.iter().map(|answer| window(answer.sent, SECOND)).min().unwrap();
    let last = first + SECONDS;
    let each: Vec<u64> =
        (first..last).map(|number| admitted_in(&tally.answers, number, number + 1)).collect();
    let early = tally.answers.iter().filter(|answer| phase(answer.sent, SECOND) < Duration::from_millis(30));
    println!("without a pause: {each:?}; {} sent within 30 ms after an edge", early.count());
    for from in first..last {
        for to in from + 1..=last {
            // Requests near an edge may belong to another window, once and not once per window.
            let (admitted, most) = (admitted_in(&tally.answers, from, to), (to - from) * FAST + NEAR_AN_EDGE);
            if admitted > most {
                fail_over_limit(&format!("{admitted} of {most} in windows {from} to {to}: {each:?}"));
            }
        }
    }
    assert_eq!(tally.failed(), 0, "every call is answered");
    let whole = admitted_in(&tally.answers, first + 1, last - 1);
    assert!(whole * 100 >= (last - first - 2) * FAST * 80, "{each:?}");
}
