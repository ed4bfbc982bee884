//! Limits that differ between nodes for a while, since nodes reload one after the other.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a helper of a test may fail it")]

mod common {
    pub(crate) mod three;
}

use common::three::Three;
use hivemind_core::store::{Charge, Context, Key, OnRefusal, Parts};
use hivemind_core::{Limit, Period};
use hivemind_mesh::MeshOptions;
use hivemind_mesh_sim::{Reload, Reloaded};

fn seeds(quick: u64) -> u64 {
    if std::env::var_os("HIVEMIND_LONG").is_some() { quick * 50 } else { quick }
}

fn holds(seed: u64, run: &Reload) -> Reloaded {
    let came = run.play();
    assert_eq!(came.over_larger, 0, "seed {seed}: more than the larger limit: {came:?}, {run:?}");
    assert_eq!(came.over_new, 0, "seed {seed}: more than the new limit once all had it: {came:?}, {run:?}");
    came
}

/// Limits on both sides of the one from which on five members split a window, and others.
///
/// Seen failing on: members that begin with a share whatever the owner's rules are; a share of the new limit in a window
/// that runs (each 69 of 50).
#[test]
fn no_window_admits_more_than_the_larger_of_two_limits_and_none_more_than_the_new_one_once_all_have_it() {
    for (from, to) in [(100, 200), (200, 100), (49, 50), (50, 49), (49, 100), (100, 49), (98, 99), (99, 98)] {
        for (make, count) in
            [(Limit::fixed_window as fn(u32, Period) -> Limit, 6), (Limit::sliding_window, 2)]
        {
            let (old, new) = (make(from, Period::SECOND), make(to, Period::SECOND));
            let (mut admitted, mut possible) = (0, 0);
            for seed in 0..seeds(count) {
                let came = holds(seed, &Reload::from_to(seed, 5, old, new));
                (admitted, possible) = (admitted + came.admitted, possible + came.possible);
                // A single run may lose an interval to the change.
                assert!(
                    came.admitted * 10 >= came.possible * 8,
                    "seed {seed}, {from} to {to}: only {came:?}"
                );
            }
            assert!(admitted * 10 >= possible * 9, "{from} to {to}: only {admitted} of {possible}");
        }
    }
}

/// Windows and buckets, one reload or two, cuts, an owner that gets no request of its own: all drawn.
///
/// Seen failing on: an owner whose limit others told, and nobody corrects (7 of 150 runs); members that begin with a share
/// whatever the owner's rules are (5); a key that keeps its entry in the dictionary under another limit (26). Tried, and
/// not seen in 150 runs: a member that keeps the tokens of the bucket before; of two reloads only the last remembered; a
/// slip that goes by another limit than the request.
#[test]
fn no_reload_that_a_seed_can_draw_admits_more_than_it_may() {
    let (mut admitted, mut possible) = (0, 0);
    for seed in 0..seeds(100) {
        let came = holds(seed, &Reload::of(seed));
        (admitted, possible) = (admitted + came.admitted, possible + came.possible);
    }
    assert!(admitted * 100 >= possible * 95, "only {admitted} of {possible} once all had the new limits");
}

fn spend(key: Key, limit: &Limit) -> Charge<'_> {
    Charge::spend(key, Parts { domain: "", entries: &[] }, limit)
}

/// What a node admits of fifty requests without asking anybody.
fn admitted_alone(three: &mut Three, node: usize, key: Key, limit: &Limit) -> usize {
    let now = Context::at(three.now);
    let passes = |_: &usize| {
        three.nodes[node].try_decide(&[spend(key, limit)], now).is_some_and(|verdicts| verdicts.committed)
    };
    (0..50).filter(passes).count()
}

/// It owns the counter, and the others hold ten each of a window that they share out by the old limit.
///
/// Seen failing on: an owner that forgets the shares of before its reload; one that takes it for heard after a time,
/// whoever has answered (29 at the owner and 20 elsewhere).
#[test]
fn an_owner_that_reloads_unheard_reckons_with_what_the_others_hold() {
    let minute = |requests| Limit::fixed_window(requests, Period::MINUTE);
    let mut three = Three::new(0, &MeshOptions::default(), (0, 0));
    let key = three.key(1);
    three.decide(0, &[spend(key, &minute(30))], OnRefusal::CountNone);
    three.pass(1_000);
    three.loss = 1_000;
    let now = three.now;
    three.nodes[0].reload(7, now);
    three.pass(60_000);
    let here = admitted_alone(&mut three, 0, key, &minute(29));
    let there: usize = [1, 2].map(|node| admitted_alone(&mut three, node, key, &minute(30))).iter().sum();
    assert_eq!(there, 20, "each its share");
    assert!(here + there <= 30, "{here} at the owner and {there} elsewhere");
}

/// It has heard of its counter from a node that goes by other rules, and the third goes by its own.
///
/// Seen failing on: nothing set aside for those that go by the owner's rules (29 by the old limit and 10 by the new one).
#[test]
fn an_owner_that_does_not_know_its_limit_lends_nothing_that_others_may_have_begun_with() {
    let minute = |requests| Limit::fixed_window(requests, Period::MINUTE);
    let mut three = Three::new(0, &MeshOptions::default(), (0, 0));
    let key = three.key(1);
    three.pass(1_000);
    let now = three.now;
    for node in [0, 2] {
        three.nodes[node].reload(7, now);
    }
    three.pass(60_000);
    let old = (0..40)
        .filter(|_| three.decide(1, &[spend(key, &minute(29))], OnRefusal::CountNone).0.committed)
        .count();
    let new = admitted_alone(&mut three, 2, key, &minute(30));
    assert_eq!(new, 10, "its share");
    assert!(old >= 10, "{old} by the old limit");
    assert!(old + new <= 30, "{old} by the old limit and {new} by the new one");
}
