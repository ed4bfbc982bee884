//! The active rules in the reference's format, one per line.

use super::rules::RuleVisibility;
use hivemind_core::{Matcher, Rule, Rules};

use hivemind_core::store::Mode;
use std::fmt::Write;

pub(super) fn dump(rules: &Rules, visibility: RuleVisibility<'_>) -> String {
    let mut text = String::new();
    for (domain, path, rule) in rules.declarations() {
        let Some(rule) = rule else { continue };
        let _ = writeln!(text, "{}: {}", name(domain, path, visibility), described(rule)); // Writing to a string cannot fail.
    }
    text
}

fn name(domain: &str, path: &[Matcher], visibility: RuleVisibility<'_>) -> String {
    let parts = path.iter().map(|matcher| match visibility.value(matcher) {
        Some(value) => format!(".{}_{value}", matcher.key()),
        None => format!(".{}", matcher.key()),
    });
    std::iter::once(domain.to_owned()).chain(parts).collect()
}

fn described(rule: &Rule) -> String {
    let (shadow, quota) = (rule.mode == Mode::Shadow, rule.mode == Mode::Quota);
    format!("{}, shadow_mode: {shadow}, quota_mode: {quota}", rule.budget)
}
