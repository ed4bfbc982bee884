//! `hivemind explain`: which rule matches a descriptor, and why.

use super::entries::entries;
use crate::demo::demo_rules;
use clap::Args;
use hivemind_engine::explanation_text::ExplanationText;
use hivemind_engine::rule_files::load_rules;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain which rule matches a descriptor, which rules were skipped, and why
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind explain --domain demo remote_address=203.0.113.9
  hivemind explain --rules rules/ --domain shop plan=gold user=ada

An entry is key=value; the value may contain `=`, and may be empty.")]
pub(super) struct ExplainArgs {
    /// Rules: a file, or a folder [default: the built-in demo rules]
    #[arg(long, value_name = "PATH")]
    rules: Option<PathBuf>,

    /// The domain
    #[arg(long, value_name = "NAME")]
    domain: String,

    /// The entries of the descriptor, in order
    #[arg(required = true, value_name = "KEY=VALUE")]
    entries: Vec<String>,

    /// Allow several files to have rules for one domain, like `rate_limiting.merge_domains`
    #[arg(long)]
    merge_domains: bool,
}

impl ExplainArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let loaded = match &self.rules {
            Some(path) => load_rules(path, self.merge_domains)?,
            None => demo_rules()?,
        };
        for warning in &loaded.warnings {
            writeln!(std::io::stderr(), "{warning}\n")?;
        }
        let entries = entries(&self.entries)?;
        let explained = ExplanationText::new(&loaded.ruleset, &self.domain, &entries);
        write!(std::io::stdout(), "{explained}")?;
        Ok(ExitCode::SUCCESS)
    }
}
