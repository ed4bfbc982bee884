//! Nodes whose clocks are off: by little, which is slewed away, and by much, which puts them in
//! quarantine with the share that they hold.

use crate::fleet::Plan;
use crate::load::{Deal, Load};
use crate::rules::{FAST, OFFERED, RULES, exceeded, most_of_a_small_limit, no_window_is_above_the_limit};
use crate::small_limits::admitted_of_each;
use crate::tally::Tally;
use std::ops::RangeInclusive;

/// A node that is ahead is in a later window than the others: by true time more than one limit is admitted in a second,
/// and not more than one for each window that any of them was in.
fn no_run_is_above_the_limit(tally: &Tally, ahead_ms: i64) {
    let windows = tally.windows();
    let (first, last) = (windows.keys().next().unwrap(), windows.keys().last().unwrap());
    // In quarantine it has nothing of the others' windows, and its share of its own.
    let ahead = if ahead_ms > 10_000 { 1 } else { ahead_ms.unsigned_abs().div_ceil(1_000) };
    let most = FAST * (last - first + 1 + ahead);
    if tally.admitted() > most {
        exceeded(&format!("{} of {most}: {}", tally.admitted(), tally.shown()));
    }
    // In one second by true time they are in two windows at most, of the one clock and of the other.
    for (number, window) in windows {
        if window.admitted > 2 * FAST {
            exceeded(&format!("window {number} is above {}: {window:?}", 2 * FAST));
        }
    }
}

async fn a_clock_is_off(ahead_ms: i64, windows: u64, small_limits: RangeInclusive<u64>) -> Tally {
    let fleet = Plan::new(3, RULES).patient().clock(2, ahead_ms).start().await.unwrap();
    let tally = Load::over(&fleet, Deal::Uniform, OFFERED, "fast=v", windows).await;
    println!("{ahead_ms} ms: {}", tally.shown());
    no_run_is_above_the_limit(&tally, ahead_ms);
    let small = admitted_of_each(&fleet, "five=off", 12, 12).await;
    println!("{ahead_ms} ms: of 5 a minute: {small:?}");
    assert!(small.iter().all(|admitted| small_limits.contains(admitted)), "{small:?}");
    tally
}

#[tokio::test]
async fn a_clock_that_is_200_ms_off_is_slewed_and_then_no_window_is_above_the_limit() {
    let tally = a_clock_is_off(200, 10, 5..=5).await;
    // 50 ms a second, and it began before the first window.
    let settled = tally.windows().keys().next().unwrap() + 6;
    let answers = tally
        .answers
        .iter()
        .filter(|answer| crate::moment::window(answer.asked, crate::moment::SECOND) >= settled);
    let later = Tally { answers: answers.copied().collect() };
    no_window_is_above_the_limit(&later);
}

#[tokio::test]
async fn while_a_clock_is_two_seconds_off_a_second_admits_the_limits_of_two_windows_at_most() {
    a_clock_is_off(2_000, 8, 5..=5).await;
}

#[tokio::test]
async fn a_clock_that_is_an_hour_off_is_in_quarantine_with_its_share() {
    a_clock_is_off(3_600_000, 4, 1..=most_of_a_small_limit(5, 3)).await;
}
