//! Digests of many runs, to compare two versions of the protocol: equal output means equal frames and equal decisions.

use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::Consistency;
use hivemind_mesh_sim::baselines::{self, Baseline};
use hivemind_mesh_sim::{
    GridResult, HandoffScenario, ModelCheck, RandomScenario, ReloadScenario, grid, limits, run_mixed_batches,
    scenarios, take_digest,
};
use std::ops::Range;

/// Prints one digest per kind of run, numbered, and seed. Names and texts are left out, because they may change.
pub(crate) fn print() {
    let _ = take_digest();
    random_scenarios(0..300);
    scenario_runs(0..120);
    reloads(0..150);
    handoffs(0..12);
    mixes(0..12);
    cells();
    models();
}

fn random_scenarios(seeds: Range<u64>) {
    for seed in seeds {
        let result = RandomScenario::of(seed).play();
        println!("draw {seed} {:016x} {} {}", take_digest(), result.over, result.admitted);
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
            let result = scenario.play(seed, *limit, *load);
            println!("scenario {number} {seed} {:016x} {} {}", take_digest(), result.over, result.admitted);
        }
    }
}

fn reloads(seeds: Range<u64>) {
    for seed in seeds {
        let result = ReloadScenario::of(seed).play();
        println!("reload {seed} {:016x} {} {}", take_digest(), result.admitted, result.possible);
    }
}

fn handoffs(seeds: Range<u64>) {
    for (number, scenario) in HandoffScenario::ALL.iter().enumerate() {
        for handoff in [false, true] {
            for seed in seeds.clone() {
                let result = scenario.play(seed, handoff);
                let digest = take_digest();
                println!(
                    "rollout {number} {handoff} {seed} {digest:016x} {} {}",
                    result.admitted, result.possible
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
            let result = run_mixed_batches(seed, &set, consistency);
            println!("mixed {number} {seed} {:016x} {} {}", take_digest(), result.admitted, result.torn);
        }
    }
}

fn cells() {
    for (number, cell) in grid().iter().enumerate().step_by(29).filter(|(_, cell)| cell.limit <= 1_000) {
        let result = cell.run(1);
        println!("cell {number} {:016x} {}", take_digest(), fields(&result));
        for baseline in Baseline::ALL {
            println!("  {}", fields(&baselines::run(cell, baseline, 1)));
        }
    }
}

fn fields(result: &GridResult) -> String {
    format!("{} {} {} {}", result.over, result.under, result.bytes, result.waited)
}

fn models() {
    for (number, model) in ModelCheck::quick().into_iter().enumerate() {
        let result = ModelCheck { max_states: 30_000, ..model }.search();
        let (states, steps, nodes, depth) = (result.states, result.steps, result.nodes, result.depth);
        let digest = take_digest();
        println!("model {number} {digest:016x} {states} {steps} {nodes} {depth} {}", result.full);
    }
}
