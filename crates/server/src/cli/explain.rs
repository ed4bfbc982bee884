//! `hivemind explain`: which rule answers a descriptor, and why.

use crate::config::{demo_rules, load_rules};
use crate::ruleset::Extras;
use anyhow::{Context, anyhow};
use clap::Args;
use hivemind_core::rules::{Considered, Explanation, WayEnd};
use hivemind_core::store::Mode;
use hivemind_core::{Entry, Rule, Sharing};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say which rule answers a descriptor, which were passed over, and why
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind explain --domain demo remote_address=203.0.113.9
  hivemind explain --rules rules/ --domain shop plan=gold user=ada

An entry is key=value; the value may contain `=`, and may be empty.")]
pub(super) struct Explain {
    /// Rules: a file, or a folder. Without it, the built-in demo rules
    #[arg(long, value_name = "PATH")]
    rules: Option<PathBuf>,

    /// The domain that is asked for
    #[arg(long, value_name = "NAME")]
    domain: String,

    /// The entries of the descriptor, in order
    #[arg(required = true, value_name = "KEY=VALUE")]
    entries: Vec<String>,

    /// Let several files have rules of one domain, as `rate_limiting.merge_domains` does
    #[arg(long)]
    merge_domains: bool,
}

impl Explain {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let loaded = match &self.rules {
            Some(path) => load_rules(path, self.merge_domains)?,
            None => demo_rules()?,
        };
        for warning in &loaded.warnings {
            writeln!(std::io::stderr(), "{warning}\n")?;
        }
        let entries = self.entries.iter().map(|entry| {
            entry.split_once('=').ok_or_else(|| anyhow!("`{entry}` is no entry; write key=value"))
        });
        let entries: Vec<Entry<'_>> = entries.collect::<Result<_, _>>()?;
        let explanation = loaded.ruleset.rules.explain(&self.domain, &entries);
        let text = shown(&self.domain, &entries, &explanation, &loaded.ruleset.extras).context("writing")?;
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(
    domain: &str,
    entries: &[Entry<'_>],
    explanation: &Explanation<'_>,
    extras: &[Extras],
) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for ((key, value), step) in entries.iter().zip(&explanation.steps) {
        writeln!(text, "{key}={value}")?;
        if step.considered.is_empty() {
            writeln!(text, "  no rule here has the key `{key}` with this value, a wildcard or none")?;
        }
        for (rule, outcome) in &step.considered {
            let why = match outcome {
                Considered::Taken => "taken",
                Considered::DoesNotMatch => "does not match",
                Considered::PassedOver => "matches, but what stands before it goes first",
            };
            writeln!(text, "  {rule}: {why}")?;
        }
    }
    match &explanation.end {
        WayEnd::UnknownDomain => writeln!(text, "no limit: there are no rules for the domain `{domain}`")?,
        WayEnd::NoMatch(number) => {
            let (key, value) = entries.get(*number).copied().unwrap_or_default();
            writeln!(text, "no limit: nothing matches {key}={value} at this place")?;
        }
        WayEnd::NoLimit => {
            writeln!(text, "no limit: the entries match, but no limit is declared at this depth")?;
        }
        WayEnd::Rule(number, rule) => {
            let place = extras.get(*number).map(|extras| &extras.place).cloned().unwrap_or_default();
            writeln!(text, "{}:{}: {}", place.file, place.line, described(rule))?;
        }
    }
    Ok(text)
}

fn described(rule: &Rule) -> String {
    let mode = match rule.mode {
        Mode::Enforce => "",
        Mode::Shadow => " (shadow: it never refuses)",
        Mode::Quota => " (quota)",
    };
    let name = rule.name.as_ref().map(|name| format!(", named `{name}`")).unwrap_or_default();
    let sharing =
        if rule.sharing == Sharing::default() { String::new() } else { format!(", {}", rule.sharing) };
    format!("{}{mode}{name}{sharing}", rule.budget)
}
