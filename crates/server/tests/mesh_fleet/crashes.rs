//! Nodes that die without a word, and come back: what a window admits meanwhile stays within the
//! limit, since the share of the dead is held until they are back.

use crate::fleet::{Fleet, Plan};
use crate::load::{Deal, Load};
use crate::moment::{SECOND, now, window};
use crate::owners::owner;
use crate::rules::{FAST, OFFERED, RULES, most_of_a_small_limit, no_window_is_above_the_limit};
use crate::small_limits::{admitted_of_each, next_minute, no_more_than_the_first_pass};
use crate::tally::{Tally, Window};

/// Whole windows after one moment and before another.
pub(crate) fn between(tally: &Tally, from: u64, to: u64) -> Vec<Window> {
    let windows = tally.windows();
    windows.range(from + 1..to).map(|(_, window)| *window).collect()
}

/// Windows from one on until the limit is admitted again.
pub(crate) fn until_whole(tally: &Tally, from: u64) -> Option<u64> {
    let whole = tally
        .windows()
        .into_iter()
        .find(|(number, window)| *number > from && (window.admitted + window.late) * 100 >= FAST * 98);
    whole.map(|(number, _)| number - from)
}

async fn nodes_die_and_come_back(count: usize, dead: &[usize], fleet: &mut Fleet, what: &str) {
    // A minute that began before the nodes had a view together is the founder's.
    next_minute().await;
    let load = Load::start(fleet, Deal::Uniform, OFFERED, "fast=v");
    load.windows(3).await;
    let died = window(now(), SECOND);
    for &index in dead {
        fleet.nodes[index].kill().await;
    }
    load.windows(2).await;
    let small = admitted_of_each(fleet, &format!("five={what}"), 12, 12).await;
    load.windows(1).await;
    let back = window(now(), SECOND);
    for &index in dead {
        fleet.start(index).await;
    }
    fleet.settled().await;
    let settled = window(now(), SECOND);
    load.windows(4).await;
    let tally = load.end().await;
    let recovered = until_whole(&tally, back);
    println!(
        "{what}: died {died}, back {back}, settled {settled}, whole again after {recovered:?} s: {}",
        tally.shown()
    );
    println!("{what}: of 5 a minute, meanwhile: {small:?}");
    no_window_is_above_the_limit(&tally);
    let living = (count - dead.len()) as u64 * (FAST / count as u64);
    for window in between(&tally, died, back) {
        assert!(
            (window.admitted + window.late) * 100 >= living * 95,
            "{window:?} of {living}: {}",
            tally.shown()
        );
    }
    assert!(recovered.is_some_and(|windows| windows <= 12), "{}", tally.shown());
    let most = most_of_a_small_limit(5, count as u64);
    assert!(small.iter().all(|&admitted| admitted >= 1 && admitted <= most), "{small:?}, at most {most}");
    no_more_than_the_first_pass(fleet, &format!("after-{what}")).await;
}

#[tokio::test]
async fn a_node_that_is_killed_takes_its_share_along_and_no_window_is_above_the_limit() {
    let mut fleet = Plan::new(3, RULES).start().await.unwrap();
    let owner = owner(&fleet, "fast=v", 400).await;
    nodes_die_and_come_back(3, &[(owner + 1) % 3], &mut fleet, "another").await;
}

#[tokio::test]
async fn the_owner_of_a_counter_is_killed_and_no_window_is_above_the_limit() {
    let mut fleet = Plan::new(3, RULES).start().await.unwrap();
    let owner = owner(&fleet, "fast=v", 400).await;
    nodes_die_and_come_back(3, &[owner], &mut fleet, "owner").await;
}

#[tokio::test]
async fn half_the_nodes_are_killed_the_owner_among_them_and_no_window_is_above_the_limit() {
    let mut fleet = Plan::new(4, RULES).start().await.unwrap();
    let owner = owner(&fleet, "fast=v", 300).await;
    nodes_die_and_come_back(4, &[owner, (owner + 1) % 4], &mut fleet, "half").await;
}
