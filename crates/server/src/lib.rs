//! The `hivemind` binary as a library, so that fuzz targets can reach its parsers. Terms: `docs/GLOSSARY.md`.
//!
//! It is not a public API: programs that embed rate limiting use `hivemind-rl-core`.

mod app;
mod cli;
mod demo;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod import;
mod inherited_sockets;
mod reload;
mod settings;
mod systemd;

use std::process::ExitCode;

/// Runs the command line of this process.
#[must_use]
pub fn run() -> ExitCode {
    cli::run()
}
