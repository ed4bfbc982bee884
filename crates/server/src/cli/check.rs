//! `hivemind check`: reports every mistake in rules and configuration before they become active.

use crate::settings::LARGEST_CONFIGURATION;
use crate::settings::load_settings;
use clap::Args;
use hivemind_config::bounded_file::read_bounded;
use hivemind_engine::rule_files::load_rules;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check rules and configuration: exit 1 with the place, cause and remedy of each mistake
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind check rules/                 a folder of rules
  hivemind check rules.yaml hivemind.yaml

A file with a `domain` is checked as rules, any other as a configuration. Environment variables are
ignored: only the files are checked.")]
pub(super) struct Check {
    /// Files and folders to check
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Allow several files to have rules for one domain, like `rate_limiting.merge_domains`
    #[arg(long)]
    merge_domains: bool,
}

impl Check {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut wrong = false;
        let mut out = std::io::stdout().lock();
        for path in &self.paths {
            let checked = if is_configuration(path) {
                load_settings(Some(path), std::iter::empty()).map(|loaded| loaded.warnings)
            } else {
                load_rules(path, self.merge_domains).map(|loaded| loaded.warnings)
            };
            match checked {
                Ok(warnings) => {
                    for warning in warnings {
                        writeln!(out, "{warning}\n")?;
                    }
                    writeln!(out, "{}: ok", path.display())?;
                }
                Err(problems) => {
                    writeln!(std::io::stderr(), "{problems}")?;
                    wrong = true;
                }
            }
        }
        Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Whether a file is a configuration: one of its sections starts a line, and no line starts with `domain`.
fn is_configuration(path: &Path) -> bool {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml")) {
        return true;
    }
    let Ok(text) = read_bounded(path, LARGEST_CONFIGURATION) else { return false };
    let begins = |word: &str| {
        text.lines().any(|line| line.strip_prefix(word).is_some_and(|rest| rest.starts_with(':')))
    };
    !begins("domain") && crate::settings::SECTIONS.iter().any(|section| begins(section))
}
