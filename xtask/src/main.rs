//! Development tasks: `cargo xtask --help` lists them.
#![expect(clippy::print_stdout, reason = "a task reports on the terminal")]

mod fuzz;
mod lines;
mod perf;
mod ratchets;
mod tree;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Development tasks of the Hivemind workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs the libFuzzer targets of `fuzz/` with a nightly compiler, and fails if one crashes. An interrupted run
    /// continues.
    Fuzz {
        /// The time of each target.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
        minutes: u64,
        /// Copies inputs that add coverage to `fuzz/seeds/found`.
        #[arg(long)]
        accept: bool,
        /// Runs one target once with this file.
        #[arg(long, value_name = "FILE", requires = "target")]
        input: Option<PathBuf>,
        /// Runs these targets; all if none is named.
        #[arg(value_name = "TARGET", id = "target")]
        targets: Vec<String>,
    },
    /// Prints the production lines of each crate and the 90th percentile of file length.
    Lines,
    /// Counts instructions under callgrind, compares them with `xtask/perf.txt`, and fails where one rose by 2 %.
    Perf {
        /// Writes the counts that fell, and those of new cases.
        #[arg(long)]
        accept: bool,
    },
    /// Compares counts of known faults with `xtask/ratchets.txt`, and fails where one rose.
    Ratchets {
        /// Writes the counts that fell.
        #[arg(long)]
        accept: bool,
        /// Prints all places of the counts whose key begins with this text, and compares nothing.
        #[arg(long, value_name = "KEY")]
        places: Option<String>,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let tree = tree::Tree::open()?;
    match Arguments::parse().task {
        Task::Fuzz { minutes, accept, input, targets } => {
            if !fuzz::run(&tree, fuzz::Options { minutes, accept, input, targets })? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Task::Lines => print!("{}", lines::report(&tree)?),
        Task::Perf { accept } => {
            let outcome = perf::run(&tree, accept)?;
            print!("{}", outcome.report);
            if !outcome.passed {
                return Ok(ExitCode::FAILURE);
            }
        }
        Task::Ratchets { accept, places } => {
            let outcome = ratchets::run(&tree, accept, places.as_deref())?;
            print!("{}", outcome.report);
            if !outcome.passed {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
