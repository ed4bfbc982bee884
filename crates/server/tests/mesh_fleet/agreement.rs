//! Nothing is wrong, and there is three times as much load as the limit allows: no window is above
//! it, and hardly any below.

use crate::fleet::{Fleet, Plan};
use crate::load::{Deal, Load};
use crate::rules::{OFFERED, RULES, is_long, no_window_is_above_the_limit, percent_admitted};

/// How often decisions waited for others, by the nodes' own count.
const WAITED: &str = "hivemind_mesh_waited_total";

pub(crate) async fn holds(fleet: &Fleet, deal: Deal, windows: u64) {
    let before = fleet.sum(WAITED).await;
    let tally = Load::over(fleet, deal, OFFERED, "fast=v", windows).await;
    let waited = fleet.sum(WAITED).await - before;
    let count = fleet.nodes.len();
    let share = percent_admitted(&tally);
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let offered = tally.answers.len() as f64;
    println!(
        "{count} nodes, {deal:?}: {share:.2} % admitted, {:.2} % waited; {}",
        waited / offered * 100.0,
        tally.shown()
    );
    println!("  {}", tally.latency(|_| true).shown());
    no_window_is_above_the_limit(&tally);
    assert!(tally.windows().len() as u64 >= windows, "{}", tally.shown());
    assert_eq!(tally.failed(), 0, "every call is answered");
    assert!(share >= 98.0, "{share:.2} % of the limit were admitted: {}", tally.shown());
}

async fn each_size_holds(deal: Deal) {
    let sizes: &[usize] = if is_long() { &[3, 5, 10] } else { &[3] };
    for &count in sizes {
        let fleet = Plan::new(count, RULES).start().await.unwrap();
        holds(&fleet, deal, 20).await;
    }
}

#[tokio::test]
async fn dealt_evenly_no_window_is_above_the_limit_and_hardly_any_below() {
    each_size_holds(Deal::Uniform).await;
}

#[tokio::test]
async fn dealt_unevenly_no_window_is_above_the_limit_and_hardly_any_below() {
    each_size_holds(Deal::Skewed).await;
}

#[tokio::test]
async fn all_at_one_node_no_window_is_above_the_limit_and_hardly_any_below() {
    each_size_holds(Deal::One(1)).await;
}
