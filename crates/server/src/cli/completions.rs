//! `hivemind completions`: shell completion scripts.

use super::described;
use clap::Args;
use clap_complete::Shell;
use std::io::Write;
use std::process::ExitCode;

/// Print the completion script of a shell
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind completions bash > /etc/bash_completion.d/hivemind
  hivemind completions zsh > \"${fpath[1]}/_hivemind\"
  hivemind completions fish > ~/.config/fish/completions/hivemind.fish")]
pub(super) struct Completions {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

impl Completions {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let shell = match self.shell.as_str() {
            "zsh" => Shell::Zsh,
            "fish" => Shell::Fish,
            _ => Shell::Bash,
        };
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut described(), "hivemind", &mut text);
        std::io::stdout().write_all(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
