//! The simulator from the shell.
//!
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- --seed 7             every scenario with this seed
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- --seeds 0..1000      many seeds; prints those that fail and what
//!         was drawn (--drawn: only the runs of which the seed chooses everything)
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- reload --seeds 0..1000    runs in which nodes reload
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- rollout --seeds 0..100    slow buckets while nodes come, go and
//!         restart: what they admit beside one node alone, with hand-over and without
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- grid --seed 1        the 705 cells (--nodes, --limit,
//!         --seconds, --load, --shape choose; --quiet tells the bad ones only; --out FILE keeps what is measured,
//!         and goes on where it was; --variant no-recall | no-early | neither)
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- model [--deep]       every order of events of three nodes
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- rivals --svg FILE    beside what others do
//!     cargo run --release -p hivemind-rl-mesh-sim --example sim -- digests              a hash of every frame and decision of many
//!         runs: equal output means equal behavior
#![expect(clippy::print_stdout, reason = "a program that prints")]

mod digests;
mod grid;

use hivemind_core::Limit;
use hivemind_mesh_sim::plot::{Row, svg};
use hivemind_mesh_sim::rivals::{self, Rival};
use hivemind_mesh_sim::{Cell, Draw, Model, Outcome, Played, Reload, Rollout, limits, scenarios};
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
            if let Err(error) = grid::run(&arguments, seed) {
                println!("the file of the grid cannot be written: {error}");
                return ExitCode::FAILURE;
            }
        }
        Some("model") => return search(&arguments),
        Some("rivals") => compare(&arguments, seed),
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
            if arguments.get(1).is_some_and(|first| first == "rollout") {
                return roll_out(&range);
            }
            return play(range, drawn_only);
        }
    }
    ExitCode::SUCCESS
}

/// Searches every order of events of three nodes: the quick models, and with `--deep` the large ones too, each
/// up to so many states.
fn search(arguments: &[String]) -> ExitCode {
    let deep = arguments.iter().any(|argument| argument == "--deep");
    let most_states = value(arguments, "--states").unwrap_or(20_000_000);
    let models = if deep { Model::deep() } else { Model::quick() };
    let (mut failed, mut states, mut steps) = (false, 0, 0);
    for model in models {
        let searched = Model { most_states, ..model }.search();
        println!("{model:?}: {searched:?}");
        failed |= searched.broken.is_some();
        (states, steps) = (states + searched.states, steps + searched.steps);
    }
    println!("{states} states, {steps} steps");
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plays the runs of these seeds in which nodes reload.
fn reload(seeds: std::ops::Range<u64>) -> ExitCode {
    let (mut failed, mut admitted, mut possible) = (0, 0, 0);
    let (one, runs) = (seeds.end - seeds.start == 1, seeds.end - seeds.start);
    for seed in seeds {
        let run = Reload::of(seed);
        let came = run.play();
        let bad = came.over_larger > 0 || came.over_new > 0;
        if one || bad {
            println!("{}: seed {seed}: {came:?} {run:?}", if bad { "FAILED" } else { "held" });
        }
        failed += u64::from(bad);
        (admitted, possible) = (admitted + came.admitted, possible + came.possible);
    }
    println!(
        "{runs} runs, {failed} failed; once all had the new limit {admitted} of {possible} were admitted"
    );
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plays the runs of these seeds in which buckets go from hand to hand.
fn roll_out(seeds: &std::ops::Range<u64>) -> ExitCode {
    let mut failed = 0;
    for rollout in Rollout::ALL {
        let mut told = vec![format!("{rollout:?}:")];
        for hand_over in [false, true] {
            let (mut admitted, mut possible) = (0, 0);
            for seed in seeds.clone() {
                let came = rollout.play(seed, hand_over);
                // Whoever is cut off and restarted is taken for dead: that is counted.
                let bad = came.over > 0 && came.overlaps == 0;
                if bad {
                    println!("FAILED: {rollout:?}, seed {seed}, handed over: {hand_over}: {came:?}");
                }
                failed += u64::from(bad);
                (admitted, possible) = (admitted + came.admitted, possible + came.possible);
            }
            let how = if hand_over { "with" } else { "without" };
            told.push(format!("{admitted} of {possible} {how} hand-over"));
        }
        println!("{}", told.join(" "));
    }
    println!("{failed} failed");
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plays every scenario with each seed, on a limit and a load that the seed chooses, and a run of which it
/// chooses everything.
fn play(seeds: std::ops::Range<u64>, drawn_only: bool) -> ExitCode {
    let (mut failed, mut runs) = (0_u64, 0_u64);
    let one = seeds.end - seeds.start == 1;
    let mut coverage = BTreeMap::new();
    for seed in seeds.clone() {
        let mut judge = |name: &str, limit: &Limit, allowed: u64, played: Played| {
            let bad = played.over > allowed || played.overlaps > 0;
            (failed, runs) = (failed + u64::from(bad), runs + 1);
            if one || bad {
                let verdict = if bad { "FAILED" } else { "held" };
                println!("{verdict}: seed {seed}, {name}, {limit}: {played:?}");
            }
        };
        let draw = Draw::of(seed);
        draw.count(&mut coverage);
        judge(&format!("{draw:?}"), &draw.limit, draw.allowed(), draw.play());
        for scenario in scenarios().iter().filter(|_| !drawn_only) {
            let limits = limits();
            let Some(limit) = limits.get(usize::try_from(seed).unwrap_or(0) % limits.len()) else { continue };
            if scenario.name == "clocks step" && matches!(limit, Limit::TokenBucket(_)) {
                continue; // A clock that is set forward earns what the leap is worth (docs/decisions/005).
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
        for (what, times) in &coverage {
            println!("  {what}: {times}");
        }
    }
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Sums up a column of outcomes.
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
    fn add(&mut self, cell: &Cell, outcome: &Outcome) -> (f64, f64) {
        #[expect(clippy::cast_precision_loss, reason = "figures to be read")]
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

    fn tell(&self, name: &str) {
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
    let cells = grid::chosen(arguments);
    let mut rows = Vec::new();
    println!("{TABLE}");
    let mut one = |name: &str, run: &dyn Fn(&Cell) -> Outcome| {
        let mut sum = Sum::default();
        let figures = cells.iter().map(|cell| sum.add(cell, &run(cell))).collect();
        sum.tell(name);
        rows.push(Row { name: name.to_owned(), cells: figures });
    };
    one("mesh, exact", &|cell| cell.run(seed));
    for rival in Rival::ALL {
        let name = match rival {
            Rival::Gossip => "gossip of counts",
            Rival::Global => "Gubernator GLOBAL",
            Rival::EvenShares => "even shares",
        };
        one(name, &|cell| rivals::run(cell, rival, seed));
    }
    if let Some(file) = value::<String>(arguments, "--svg")
        && let Err(error) = std::fs::write(&file, svg(&rows))
    {
        println!("{file} cannot be written: {error}");
    }
}
