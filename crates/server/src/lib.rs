//! The `hivemind` binary as a library, so that fuzz targets can reach its parses.
//!
//! It is not a public API: programs that embed rate limiting use `hivemind-rl-core`.

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
