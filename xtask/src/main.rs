//! Development tasks: `cargo xtask --help` lists them.
#![expect(clippy::print_stdout, reason = "a task reports on the terminal")]

mod lines;
mod perf;
mod ratchets;
mod tree;

use clap::{Parser, Subcommand};
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
