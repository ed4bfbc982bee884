//! The binary `hivemind`.

mod cli;
mod config;
mod replay;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
