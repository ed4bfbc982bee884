//! Command line of the simulator.
//!
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- --seed 7             all scenarios with this seed
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- --seeds 0..1000      many seeds; prints failures and the coverage
//!         of random scenarios (--drawn: random scenarios only)
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- reload --seeds 0..1000    scenarios in which nodes reload
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- handoff --seeds 0..100    slow buckets while nodes join, leave and
//!         restart: their admissions compared with a single node, with handoff and without
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- grid --seed 1        the 705 cells (--nodes, --limit,
//!         --seconds, --load, --shape select; --quiet prints only cells with errors; --out FILE stores the results and
//!         resumes; --variant no-recall | no-early | neither)
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- model [--deep]       every order of events of three nodes
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- baselines --svg FILE    policies of other rate limiters
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- digests              a hash of every frame and decision of many
//!         runs: equal output means equal behavior
#![expect(clippy::print_stdout, reason = "command line output")]

mod digests;
mod grid_table;

use hivemind_core::Limit;
use hivemind_mesh_sim::baselines::{self, Baseline};
use hivemind_mesh_sim::plot::{PlotRow, svg};
use hivemind_mesh_sim::{
    GridCell, GridResult, HandoffScenario, ModelCheck, RandomScenario, ReloadScenario, ScenarioResult,
    limits, scenarios,
};
use std::collections::BTreeMap;
use std::process::ExitCode;

fn value<T: std::str::FromStr>(arguments: &[String], name: &str) -> Option<T> {
    let place = arguments.iter().position(|argument| argument == name)?;
    arguments.get(place + 1)?.parse().ok()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let seed = value(&arguments, "--seed").unwrap_or(1);
    match arguments.get(1).map(String::as_str) {
        Some("grid") => {
            if let Err(error) = grid_table::run(&arguments, seed) {
                println!("the grid file cannot be written: {error}");
                return ExitCode::FAILURE;
            }
        }
        Some("model") => return search(&arguments),
        Some("baselines") => compare(&arguments, seed),
        Some("digests") => digests::print(),
        _ => {
            let seeds: Option<String> = value(&arguments, "--seeds");
            let range = seeds.and_then(|seeds| {
                let (first, last) = seeds.split_once("..")?;
                Some(first.parse().ok()?..last.parse().ok()?)
            });
            let drawn_only = arguments.iter().any(|argument| argument == "--drawn");
            let range = range.unwrap_or(seed..seed + 1);
            if arguments.get(1).is_some_and(|first| first == "reload") {
                return reload(range);
            }
            if arguments.get(1).is_some_and(|first| first == "handoff") {
                return hand_off(&range);
            }
            return play(range, drawn_only);
        }
    }
    ExitCode::SUCCESS
}

/// Searches every order of events of three nodes: the quick models, or with `--deep` the large ones, each up to
/// `--states`.
fn search(arguments: &[String]) -> ExitCode {
    let deep = arguments.iter().any(|argument| argument == "--deep");
    let max_states = value(arguments, "--states").unwrap_or(20_000_000);
    let models = if deep { ModelCheck::deep() } else { ModelCheck::quick() };
    let (mut failed, mut states, mut steps) = (false, 0, 0);
    for model in models {
        let result = ModelCheck { max_states, ..model }.search();
        println!("{model:?}: {result:?}");
        failed |= result.broken.is_some();
        (states, steps) = (states + result.states, steps + result.steps);
    }
    println!("{states} states, {steps} steps");
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs the reload scenarios of these seeds.
fn reload(seeds: std::ops::Range<u64>) -> ExitCode {
    let (mut failed, mut admitted, mut possible) = (0, 0, 0);
    let (one, runs) = (seeds.end - seeds.start == 1, seeds.end - seeds.start);
    for seed in seeds {
        let run = ReloadScenario::of(seed);
        let result = run.play();
        let bad = result.over_larger > 0 || result.over_new > 0;
        if one || bad {
            println!("{}: seed {seed}: {result:?} {run:?}", if bad { "FAILED" } else { "held" });
        }
        failed += u64::from(bad);
        (admitted, possible) = (admitted + result.admitted, possible + result.possible);
    }
    println!(
        "{runs} runs, {failed} failed; once all had the new limit {admitted} of {possible} were admitted"
    );
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs the handoff scenarios of these seeds.
fn hand_off(seeds: &std::ops::Range<u64>) -> ExitCode {
    let mut failed = 0;
    for scenario in HandoffScenario::ALL {
        let mut parts = vec![format!("{scenario:?}:")];
        for handoff in [false, true] {
            let (mut admitted, mut possible) = (0, 0);
            for seed in seeds.clone() {
                let result = scenario.play(seed, handoff);
                // A node that is disconnected and restarted may be declared dead; that is counted as an overlap.
                let bad = result.over > 0 && result.overlaps == 0;
                if bad {
                    println!("FAILED: {scenario:?}, seed {seed}, handed over: {handoff}: {result:?}");
                }
                failed += u64::from(bad);
                (admitted, possible) = (admitted + result.admitted, possible + result.possible);
            }
            let how = if handoff { "with" } else { "without" };
            parts.push(format!("{admitted} of {possible} {how} hand-over"));
        }
        println!("{}", parts.join(" "));
    }
    println!("{failed} failed");
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs all scenarios with each seed, with a limit and a load chosen by the seed, and one random scenario.
fn play(seeds: std::ops::Range<u64>, drawn_only: bool) -> ExitCode {
    let (mut failed, mut runs) = (0_u64, 0_u64);
    let one = seeds.end - seeds.start == 1;
    let mut coverage = BTreeMap::new();
    for seed in seeds.clone() {
        let mut judge = |name: &str, limit: &Limit, allowed: u64, result: ScenarioResult| {
            let bad = result.over > allowed || result.overlaps > 0;
            (failed, runs) = (failed + u64::from(bad), runs + 1);
            if one || bad {
                let verdict = if bad { "FAILED" } else { "held" };
                println!("{verdict}: seed {seed}, {name}, {limit}: {result:?}");
            }
        };
        let draw = RandomScenario::of(seed);
        draw.count(&mut coverage);
        judge(&format!("{draw:?}"), &draw.limit, draw.allowance(), draw.play());
        for scenario in scenarios().iter().filter(|_| !drawn_only) {
            let limits = limits();
            let Some(limit) = limits.get(usize::try_from(seed).unwrap_or(0) % limits.len()) else { continue };
            if scenario.name == "clocks step" && matches!(limit, Limit::TokenBucket(_)) {
                continue; // A clock that is set forward refills a bucket by the leap (docs/decisions/005).
            }
            let load =
                [0.8, 1.5, 6.0].get(usize::try_from(seed / 8).unwrap_or(0) % 3).copied().unwrap_or(1.0);
            judge(scenario.name, limit, 0, scenario.play(seed, *limit, load));
        }
        if !one && (seed + 1 - seeds.start).is_multiple_of(500) {
            println!("{} seeds, {runs} runs, {failed} failed", seed + 1 - seeds.start);
        }
    }
    if !one {
        println!("{runs} runs, {failed} failed; drawn:");
        for (label, times) in &coverage {
            println!("  {label}: {times}");
        }
    }
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Summary of a policy.
#[derive(Default)]
struct Sum {
    cells: u32,
    good: u32,
    worst: f64,
    under: f64,
    over: f64,
    worst_over: f64,
}

impl Sum {
    fn add(&mut self, cell: &GridCell, outcome: &GridResult) -> (f64, f64) {
        #[expect(clippy::cast_precision_loss, reason = "printed values")]
        let over = 100.0 * outcome.over as f64 / f64::from(cell.limit);
        let under = 100.0 * outcome.under;
        self.cells += 1;
        self.good += u32::from(under <= 1.0 && outcome.over == 0);
        self.worst = self.worst.max(under);
        self.under += under;
        self.over += over;
        self.worst_over = self.worst_over.max(over);
        (over, under)
    }

    fn print(&self, name: &str) {
        let cells = f64::from(self.cells.max(1));
        println!(
            "| {name} | {} | {:.2} / {:.1} | {:.2} / {:.1} | {} ({:.1} %) |",
            self.cells,
            self.over / cells,
            self.worst_over,
            self.under / cells,
            self.worst,
            self.good,
            100.0 * f64::from(self.good) / cells
        );
    }
}

const TABLE: &str = "| policy | cells | over, % of the limit: mean / worst | under, %: mean / worst | within 1 % and nothing over |\n|---|---|---|---|---|";

fn compare(arguments: &[String], seed: u64) {
    let cells = grid_table::choose_cells(arguments);
    let mut rows = Vec::new();
    println!("{TABLE}");
    let mut one = |name: &str, run: &dyn Fn(&GridCell) -> GridResult| {
        let mut sum = Sum::default();
        let fields = cells.iter().map(|cell| sum.add(cell, &run(cell))).collect();
        sum.print(name);
        rows.push(PlotRow { name: name.to_owned(), cells: fields });
    };
    one("mesh, exact", &|cell| cell.run(seed));
    for baseline in Baseline::ALL {
        let name = match baseline {
            Baseline::Gossip => "gossip of counts",
            Baseline::Global => "Gubernator GLOBAL",
            Baseline::EvenShares => "even shares",
        };
        one(name, &|cell| baselines::run(cell, baseline, seed));
    }
    if let Some(file) = value::<String>(arguments, "--svg")
        && let Err(error) = std::fs::write(&file, svg(&rows))
    {
        println!("{file} cannot be written: {error}");
    }
}
