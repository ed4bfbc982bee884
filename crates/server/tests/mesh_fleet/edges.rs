//! Load that does not stop at the edges of windows, where one is over, the next begins, and late ones come in.

use crate::fleet::{Fleet, Plan};
use crate::load::ask;
use crate::moment::{SECOND, begin, now, phase, window};
use crate::rules::{FAST, RULES, exceeded};
use crate::tally::{Answer, Outcome, Tally};
use hivemind_testkit::{request, within};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Requests in each tick, at all nodes together: two thousand a second.
const AT_ONCE: usize = 10;
const TICK: Duration = Duration::from_millis(5);
const OPEN: usize = 128;
const SECONDS: u64 = 6;
/// What may be of the window before or after by the nodes' clocks, which are not moved for ten milliseconds.
const NEAR_AN_EDGE: u64 = 40;

/// Asks without a pause, from one window to the end of the last.
async fn without_a_pause(fleet: &Fleet, text: &str, seconds: u64) -> Tally {
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

/// What was certainly admitted within these windows.
fn admitted_in(answers: &[Answer], from: u64, to: u64) -> u64 {
    let (from, to) = (begin(from, SECOND), begin(to, SECOND));
    let within = |answer: &&Answer| answer.asked >= from && answer.given < to;
    answers.iter().filter(within).filter(|answer| answer.outcome == Outcome::Admitted).count() as u64
}

#[tokio::test]
async fn over_the_edges_of_windows_no_span_admits_more_than_a_limit_for_each_of_its_windows() {
    let fleet = Plan::new(3, RULES).start().await.unwrap();
    let tally = without_a_pause(&fleet, "fast=edges", SECONDS).await;
    let first = tally.answers.iter().map(|answer| window(answer.asked, SECOND)).min().unwrap();
    let last = first + SECONDS;
    let each: Vec<u64> =
        (first..last).map(|number| admitted_in(&tally.answers, number, number + 1)).collect();
    let early = tally.answers.iter().filter(|answer| phase(answer.asked, SECOND) < Duration::from_millis(30));
    println!("without a pause: {each:?}; {} asked within 30 ms after an edge", early.count());
    for from in first..last {
        for to in from + 1..=last {
            // What is near an edge may be of another window, once and not once for each.
            let (admitted, most) = (admitted_in(&tally.answers, from, to), (to - from) * FAST + NEAR_AN_EDGE);
            if admitted > most {
                exceeded(&format!("{admitted} of {most} in windows {from} to {to}: {each:?}"));
            }
        }
    }
    assert_eq!(tally.failed(), 0, "every call is answered");
    let whole = admitted_in(&tally.answers, first + 1, last - 1);
    assert!(whole * 100 >= (last - first - 2) * FAST * 80, "{each:?}");
}
