//! The parts of the binary `hivemind`. A library only so that fuzz targets reach them:
//! what others may build on is `hivemind-core`.

mod admin;
mod app;
mod blocks;
mod cli;
mod config;
mod counters;
mod demo;
mod explained;
mod front;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod health;
mod import;
mod mesh;
mod proto;
mod reload;
mod replay;
mod ruleset;
mod service;
mod storage;
mod systemd;

use std::process::ExitCode;

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    cli::run()
}
