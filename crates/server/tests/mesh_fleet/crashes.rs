//! Nodes that crash and come back: meanwhile every window stays within the limit, because the share of a dead
//! node is reserved until it is back.

use crate::fleet::{Fleet, Plan};
use crate::load::{Distribution, Load};
use crate::owners::owner;
use crate::rules::{FAST, OFFERED, RULES, assert_no_window_above_limit, most_of_a_small_limit};
use crate::small_limits::{admitted_of_each, assert_at_most_the_limit_passes, next_minute};
use crate::tally::{Tally, Window};
use crate::window_time::{SECOND, now, window};

/// The whole windows between two moments.
pub(crate) fn between(tally: &Tally, from: u64, to: u64) -> Vec<Window> {
    let windows = tally.windows();
    windows.range(from + 1..to).map(|(_, window)| *window).collect()
}

/// The number of windows from one on until the limit is fully admitted again.
pub(crate) fn until_whole(tally: &Tally, from: u64) -> Option<u64> {
    let whole = tally
        .windows()
        .into_iter()
        .find(|(number, window)| *number > from && (window.admitted + window.late) * 100 >= FAST * 98);
    whole.map(|(number, _)| number - from)
}

async fn kill_and_restart(count: usize, dead: &[usize], fleet: &mut Fleet, what: &str) {
    // A minute window that began before the nodes had a common view belongs to the founder.
    next_minute().await;
    let load = Load::start(fleet, Distribution::Uniform, OFFERED, "fast=v");
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
        tally.summary()
    );
    println!("{what}: of 5 a minute, meanwhile: {small:?}");
    assert_no_window_above_limit(&tally);
    let living = (count - dead.len()) as u64 * (FAST / count as u64);
    for window in between(&tally, died, back) {
        assert!(
            (window.admitted + window.late) * 100 >= living * 95,
            "{window:?} of {living}: {}",
            tally.summary()
        );
    }
    assert!(recovered.is_some_and(|windows| windows <= 12), "{}", tally.summary());
    let most = most_of_a_small_limit(5, count as u64);
    assert!(small.iter().all(|&admitted| admitted >= 1 && admitted <= most), "{small:?}, at most {most}");
    assert_at_most_the_limit_passes(fleet, &format!("after-{what}")).await;
}

#[tokio::test]
async fn killed_node_keeps_its_share_and_windows_hold_the_limit() {
    let mut fleet = Plan::new(3, RULES).start().await.unwrap();
    let owner = owner(&fleet, "fast=v", 400).await;
    kill_and_restart(3, &[(owner + 1) % 3], &mut fleet, "another").await;
}

#[tokio::test]
async fn killed_owner_keeps_every_window_within_the_limit() {
    let mut fleet = Plan::new(3, RULES).start().await.unwrap();
    let owner = owner(&fleet, "fast=v", 400).await;
    kill_and_restart(3, &[owner], &mut fleet, "owner").await;
}

#[tokio::test]
async fn half_the_nodes_killed_with_owner_keep_windows_in_limit() {
    let mut fleet = Plan::new(4, RULES).start().await.unwrap();
    let owner = owner(&fleet, "fast=v", 300).await;
    kill_and_restart(4, &[owner, (owner + 1) % 4], &mut fleet, "half").await;
}
