//! Explanation of a rule match, printed by the command line and returned by the admin port.

use crate::ruleset::Ruleset;
use hivemind_core::rules::{CandidateOutcome, Explanation, ExplanationEnd};
use hivemind_core::store::Mode;
use hivemind_core::{Entry, Rule, Sharing};
use std::fmt;
use std::path::Path;

/// A descriptor and its path through the rules.
pub struct ExplanationText<'a> {
    ruleset: &'a Ruleset,
    /// Base folder of displayed file names; `None`: full paths.
    root: Option<&'a Path>,
    domain: &'a str,
    pub entries: &'a [Entry<'a>],
    pub explanation: Explanation<'a>,
}

impl<'a> ExplanationText<'a> {
    pub fn new(ruleset: &'a Ruleset, domain: &'a str, entries: &'a [Entry<'a>]) -> Self {
        Self { ruleset, root: None, domain, entries, explanation: ruleset.rules.explain(domain, entries) }
    }

    /// The same, with file names relative to `root`.
    #[must_use]
    pub fn below(self, root: Option<&'a Path>) -> Self {
        Self { root, ..self }
    }
}

impl fmt::Display for ExplanationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((key, value), step) in self.entries.iter().zip(&self.explanation.steps) {
            writeln!(f, "{key}={value}")?;
            if step.candidates.is_empty() {
                writeln!(f, "  no rule here has the key `{key}` with this value, a wildcard or none")?;
            }
            for (rule, outcome) in &step.candidates {
                let why = match outcome {
                    CandidateOutcome::Taken => "taken",
                    CandidateOutcome::DoesNotMatch => "does not match",
                    CandidateOutcome::PassedOver => "matches, but an earlier rule takes precedence",
                };
                writeln!(f, "  {rule}: {why}")?;
            }
        }
        match &self.explanation.end {
            ExplanationEnd::UnknownDomain => {
                writeln!(f, "no limit: no rules exist for the domain `{}`", self.domain)
            }
            ExplanationEnd::NoMatch(number) => {
                let (key, value) = self.entries.get(*number).copied().unwrap_or_default();
                writeln!(f, "no limit: nothing matches {key}={value} at this place")
            }
            ExplanationEnd::NoLimit => {
                writeln!(f, "no limit: the entries match, but no limit is declared at this depth")
            }
            ExplanationEnd::Rule(number, rule) => {
                let place = self.ruleset.extras.get(*number).map(|extras| &extras.place);
                let place = place.cloned().unwrap_or_default();
                let file = self.root.map_or_else(|| place.file.to_string(), |root| place.file_below(root));
                writeln!(f, "{file}:{}: {}", place.line, described(rule))
            }
        }
    }
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
