//! Clock offsets: a small one is slewed away, and a large one puts the node in quarantine with its share.

use crate::fleet::Plan;
use crate::load::{Distribution, Load};
use crate::rules::{
    FAST, OFFERED, RULES, assert_no_window_above_limit, fail_over_limit, most_of_a_small_limit,
};
use crate::small_limits::admitted_of_each;
use crate::tally::Tally;
use std::ops::RangeInclusive;

/// A node that is ahead is in a later window than the others: in one second of true time more than one limit is
/// admitted, but at most one per window that any node was in.
fn assert_limits_of_all_clocks(tally: &Tally, ahead_ms: i64) {
    let windows = tally.windows();
    let (first, last) = (windows.keys().next().unwrap(), windows.keys().last().unwrap());
    // A node in quarantine has no share of the others' windows, and its share of its own.
    let ahead = if ahead_ms > 10_000 { 1 } else { ahead_ms.unsigned_abs().div_ceil(1_000) };
    let most = FAST * (last - first + 1 + ahead);
    if tally.admitted() > most {
        fail_over_limit(&format!("{} of {most}: {}", tally.admitted(), tally.summary()));
    }
    // In one second of true time the nodes are in at most two windows, one per clock.
    for (number, window) in windows {
        if window.admitted > 2 * FAST {
            fail_over_limit(&format!("window {number} is above {}: {window:?}", 2 * FAST));
        }
    }
}

async fn a_clock_is_off(ahead_ms: i64, windows: u64, small_limits: RangeInclusive<u64>) -> Tally {
    let fleet = Plan::new(3, RULES).with_long_timeouts().clock(2, ahead_ms).start().await.unwrap();
    let tally = Load::over(&fleet, Distribution::Uniform, OFFERED, "fast=v", windows).await;
    println!("{ahead_ms} ms: {}", tally.summary());
    assert_limits_of_all_clocks(&tally, ahead_ms);
    let small = admitted_of_each(&fleet, "five=off", 12, 12).await;
    println!("{ahead_ms} ms: of 5 a minute: {small:?}");
    assert!(small.iter().all(|admitted| small_limits.contains(admitted)), "{small:?}");
    tally
}

#[tokio::test]
async fn clock_200_ms_off_is_slewed_and_windows_hold_the_limit() {
    let tally = a_clock_is_off(200, 10, 5..=5).await;
    // 50 ms per second, beginning before the first window.
    let settled = tally.windows().keys().next().unwrap() + 6;
    let answers = tally
        .answers
        .iter()
        .filter(|answer| crate::window_time::window(answer.sent, crate::window_time::SECOND) >= settled);
    let later = Tally { answers: answers.copied().collect() };
    assert_no_window_above_limit(&later);
}

#[tokio::test]
async fn clock_two_seconds_off_admits_at_most_two_windows_a_second() {
    a_clock_is_off(2_000, 8, 5..=5).await;
}

#[tokio::test]
async fn clock_an_hour_off_is_quarantined_with_its_share() {
    a_clock_is_off(3_600_000, 4, 1..=most_of_a_small_limit(5, 3)).await;
}
