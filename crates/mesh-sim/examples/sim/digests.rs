//! Digests of many runs, to compare two versions of the protocol: equal output means equal frames and equal decisions.

use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::Consistency;
use hivemind_mesh_sim::rivals::{self, Rival};
use hivemind_mesh_sim::{Draw, Model, Outcome, Reload, Rollout, grid, limits, mixed, scenarios, take_digest};
use std::ops::Range;

/// Prints one digest per kind of run, numbered, and seed. Names and texts are left out, because they may change.
pub(crate) fn print() {
    let _ = take_digest();
    draws(0..300);
    scenario_runs(0..120);
    reloads(0..150);
    rollouts(0..12);
    mixes(0..12);
    cells();
    models();
}

fn draws(seeds: Range<u64>) {
    for seed in seeds {
        let played = Draw::of(seed).play();
        println!("draw {seed} {:016x} {} {}", take_digest(), played.over, played.admitted);
    }
}

fn scenario_runs(seeds: Range<u64>) {
    let limits = limits();
    for (number, scenario) in scenarios().iter().enumerate() {
        for seed in seeds.clone() {
            let place = usize::try_from(seed).unwrap_or(0);
            let (Some(limit), Some(load)) =
                (limits.get(place % limits.len()), [0.8, 1.5, 6.0].get(place / 8 % 3))
            else {
                continue;
            };
            let played = scenario.play(seed, *limit, *load);
            println!("scenario {number} {seed} {:016x} {} {}", take_digest(), played.over, played.admitted);
        }
    }
}

fn reloads(seeds: Range<u64>) {
    for seed in seeds {
        let came = Reload::of(seed).play();
        println!("reload {seed} {:016x} {} {}", take_digest(), came.admitted, came.possible);
    }
}

fn rollouts(seeds: Range<u64>) {
    for (number, rollout) in Rollout::ALL.iter().enumerate() {
        for hand_over in [false, true] {
            for seed in seeds.clone() {
                let came = rollout.play(seed, hand_over);
                let digest = take_digest();
                println!(
                    "rollout {number} {hand_over} {seed} {digest:016x} {} {}",
                    came.admitted, came.possible
                );
            }
        }
    }
}

fn mixes(seeds: Range<u64>) {
    let bucket = Rate::per_second(50).and_then(|rate| Limit::token_bucket(rate, 100));
    let mut set = vec![
        Limit::fixed_window(60, Period::SECOND),
        Limit::fixed_window(7, Period::SECOND),
        Limit::sliding_window(30, Period::SECOND),
    ];
    set.extend(bucket);
    for (number, consistency) in
        [Consistency::Exact, Consistency::Bounded, Consistency::Eventual].into_iter().enumerate()
    {
        for seed in seeds.clone() {
            let run = mixed(seed, &set, consistency);
            println!("mixed {number} {seed} {:016x} {} {}", take_digest(), run.admitted, run.torn);
        }
    }
}

fn cells() {
    for (number, cell) in grid().iter().enumerate().step_by(29).filter(|(_, cell)| cell.limit <= 1_000) {
        let outcome = cell.run(1);
        println!("cell {number} {:016x} {}", take_digest(), figures(&outcome));
        for rival in Rival::ALL {
            println!("  {}", figures(&rivals::run(cell, rival, 1)));
        }
    }
}

fn figures(outcome: &Outcome) -> String {
    format!("{} {} {} {}", outcome.over, outcome.under, outcome.bytes, outcome.waited)
}

fn models() {
    for (number, model) in Model::quick().into_iter().enumerate() {
        let searched = Model { most_states: 30_000, ..model }.search();
        let (states, steps, nodes, depth) = (searched.states, searched.steps, searched.nodes, searched.depth);
        let digest = take_digest();
        println!("model {number} {digest:016x} {states} {steps} {nodes} {depth} {}", searched.full);
    }
}
