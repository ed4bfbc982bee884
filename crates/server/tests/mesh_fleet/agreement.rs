//! A healthy fleet under three times the load that the limit allows: no window exceeds the limit, and hardly
//! any stays below it.

use crate::fleet::{Fleet, Plan};
use crate::load::{Distribution, Load};
use crate::rules::{OFFERED, RULES, assert_no_window_above_limit, is_long, percent_admitted};

/// How often decisions waited for other nodes, by the nodes' own count.
const WAITED: &str = "hivemind_mesh_waited_total";

pub(crate) async fn assert_limit_held(fleet: &Fleet, deal: Distribution, windows: u64) {
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
        tally.summary()
    );
    println!("  {}", tally.latency(|_| true).summary());
    assert_no_window_above_limit(&tally);
    assert!(tally.windows().len() as u64 >= windows, "{}", tally.summary());
    assert_eq!(tally.failed(), 0, "every call is answered");
    assert!(share >= 98.0, "{share:.2} % of the limit were admitted: {}", tally.summary());
}

async fn assert_each_size(deal: Distribution) {
    let sizes: &[usize] = if is_long() { &[3, 5, 10] } else { &[3] };
    for &count in sizes {
        let fleet = Plan::new(count, RULES).start().await.unwrap();
        assert_limit_held(&fleet, deal, 20).await;
    }
}

#[tokio::test]
async fn even_load_keeps_every_window_within_the_limit() {
    assert_each_size(Distribution::Uniform).await;
}

#[tokio::test]
async fn uneven_load_keeps_every_window_within_the_limit() {
    assert_each_size(Distribution::Skewed).await;
}

#[tokio::test]
async fn load_at_one_node_keeps_every_window_within_the_limit() {
    assert_each_size(Distribution::One(1)).await;
}
