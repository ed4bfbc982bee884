//! Batches, refunds, debits, peeks and resets over a bad network: never more than the limit, and all of it once the
//! network is good again.
#![expect(clippy::expect_used, reason = "a helper of a test may fail it")]

use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::{Consistency, OnUnreachable};
use hivemind_mesh_sim::{mixed, scenarios};

fn seeds(quick: u64) -> u64 {
    if std::env::var_os("HIVEMIND_LONG").is_some() { quick * 50 } else { quick }
}

fn bucket(rate: u32, burst: u32) -> Limit {
    Limit::token_bucket(Rate::per_second(rate).expect("a rate"), burst).expect("a bucket")
}

fn sets() -> Vec<Vec<Limit>> {
    let second = Period::SECOND;
    vec![
        vec![Limit::fixed_window(60, second), Limit::fixed_window(7, second), bucket(50, 100)],
        vec![bucket(20, 8), bucket(40, 8), Limit::fixed_window(100, second)],
        vec![Limit::fixed_window(20, second), Limit::fixed_window(300, second)],
        vec![bucket(100, 40), bucket(30, 30), bucket(20, 5)],
    ]
}

/// Seen failing on: rights that are returned, and spent all the same.
#[test]
fn whatever_a_request_is_made_of_no_limit_is_exceeded_and_all_of_it_is_there_after_the_healing() {
    for (index, limits) in sets().iter().enumerate() {
        for seed in 0..seeds(6) {
            let mixed = mixed(seed * 31 + index as u64, limits, Consistency::Exact);
            assert_eq!(mixed.over, 0, "set {index}, seed {seed}: {mixed:?}");
            // Of small buckets some is lost to when requests come: 987 was the least of those that were seen.
            assert!(mixed.used_after >= 980, "set {index}, seed {seed}: {mixed:?}");
            assert!(mixed.torn > 0 && mixed.admitted > 0, "set {index}, seed {seed}: {mixed:?}");
        }
    }
}

/// A bounded limit refuses early at times, and is used all the same; an eventual one earns back what it admitted too much.
#[test]
fn bounded_and_eventual_limits_recover_too() {
    for (consistency, least) in [(Consistency::Bounded, 800), (Consistency::Eventual, 950)] {
        for (index, limits) in sets().iter().enumerate() {
            let mixed = mixed(index as u64, limits, consistency);
            assert!(mixed.used_after >= least, "{consistency:?}, set {index}: {mixed:?}");
            assert!(consistency == Consistency::Eventual || mixed.over == 0, "set {index}: {mixed:?}");
        }
    }
}

/// `on_unreachable: share` in all that may happen, against what it says: nothing from ten a member on, and an even part
/// for each other node below that.
///
/// Seen failing on: an even part beside what was spent of it; an even part where windows are split. What is had anew in
/// each view or doubt, and by who is in no view, does not show here: `src/node/tests/shares.rs` has it.
#[test]
fn shares_of_what_cannot_be_reached_stay_within_their_bound() {
    let second = Period::SECOND;
    let seven = second.times(7).expect("a period");
    let limits = [(5, second), (100, second), (400, seven), (30, second), (12, seven)];
    for scenario in scenarios() {
        for seed in 0..seeds(8) {
            let (requests, period) = limits[usize::try_from(seed).expect("small") % limits.len()];
            let limit = Limit::fixed_window(requests, period);
            let load = [0.8, 2.0, 6.0][usize::try_from(seed / 5).expect("small") % 3];
            let played = scenario.play_under(OnUnreachable::Share, seed, limit, load);
            // The most members there may be, so that the least is split and the most is shared out.
            let members = u32::try_from(scenario.nodes).expect("small") + 3;
            let bound = if requests / members >= 10 { 0 } else { requests + members };
            let told = format!("{} with seed {seed} on {limit}: {played:?}", scenario.name);
            assert!(played.over <= u64::from(bound), "{told}");
        }
    }
}
