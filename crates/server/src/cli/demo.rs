//! `hivemind demo`: demonstrations that need no configuration.

use crate::demo;
use clap::{Args, Subcommand};
use std::num::NonZeroU32;
use std::process::ExitCode;

/// Run a demonstration that needs no setup
#[derive(Args)]
pub(super) struct DemoArgs {
    #[command(subcommand)]
    what: DemoCommand,
}

#[derive(Subcommand)]
enum DemoCommand {
    Mesh(MeshArgs),
}

/// Three nodes that share one limit, shown in this terminal per node and second
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind demo mesh
  hivemind demo mesh --limit 10 --rate 90 --seconds 20

Starts three nodes of this program on free ports with temporary certificates, sends all three more
requests than the limit, and shows how many passed. Ctrl-C stops the nodes and removes all files.
The exit status is 0 if the limit held, 1 if it did not.
To run your own mesh: hivemind certs --help")]
struct MeshArgs {
    /// Requests per second that may pass, at all nodes together
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = at_most::<100_000>)]
    limit: NonZeroU32,

    /// Requests per second that are sent, to all nodes together
    #[arg(long, value_name = "NUMBER", default_value = "300", value_parser = at_most::<3_000>)]
    rate: NonZeroU32,

    /// Stop after this number of seconds
    #[arg(long, value_name = "NUMBER")]
    seconds: Option<NonZeroU32>,
}

fn at_most<const MOST: u32>(text: &str) -> Result<NonZeroU32, String> {
    let number: Option<NonZeroU32> = text.parse().ok();
    number
        .filter(|number| number.get() <= MOST)
        .ok_or_else(|| format!("write a whole number from 1 to {MOST}"))
}

impl DemoArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let DemoCommand::Mesh(mesh) = &self.what;
        let demo = demo::DemoOptions {
            limit: mesh.limit.get(),
            rate: mesh.rate.get(),
            seconds: mesh.seconds.map(NonZeroU32::get),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let is_held = runtime.block_on(demo::run(demo))?;
        Ok(if is_held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
