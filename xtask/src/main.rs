//! Development tasks: `cargo xtask --help` lists them.
#![expect(clippy::print_stdout, reason = "a task reports on the terminal")]

mod lines;
mod tree;

use clap::{Parser, Subcommand};

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
}

fn main() -> anyhow::Result<()> {
    let tree = tree::Tree::open()?;
    match Arguments::parse().task {
        Task::Lines => print!("{}", lines::report(&tree)?),
    }
    Ok(())
}
