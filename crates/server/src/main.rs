//! The binary `hivemind`.

mod admin;
mod app;
mod cli;
mod config;
mod front;
mod health;
mod logging;
mod proto;
mod reload;
mod replay;
mod ruleset;
mod service;
mod telemetry;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
