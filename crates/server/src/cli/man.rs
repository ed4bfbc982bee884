//! `hivemind man`: manual pages, generated from the clap definitions.

use super::described;
use anyhow::Context;
use clap::Args;
use clap_mangen::Man as Pages;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the manual page; with --out, write the pages of all commands
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind man | man -l -
  hivemind man --out /usr/local/share/man/man1")]
pub(super) struct Man {
    /// An existing folder; one page for each command is written to it
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(folder) = &self.out {
            clap_mangen::generate_to(described(), folder)
                .with_context(|| format!("writing to {}; create the folder first", folder.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut text = Vec::new();
        Pages::new(described()).render(&mut text)?;
        std::io::stdout().write_all(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
