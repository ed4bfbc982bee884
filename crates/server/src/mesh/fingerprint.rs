//! What tells rules apart: nodes with equal rules have equal numbers, whatever their files are called and, but for the
//! gateway's limits, whatever version of this program reads them.

use crate::config::gateway::Routing;
use hivemind_core::store::Mode;
use hivemind_core::{Matcher, Rule, Rules};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Of the rules of the rate limit service: one line each, in words of its own. What a later version can say besides is
/// left out where it is not said, so that nodes of two versions with one file are of one mind.
pub(super) fn of_rules(rules: &Rules) -> String {
    let mut lines: Vec<String> =
        rules.declarations().map(|(domain, path, rule)| line(domain, path, rule)).collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn line(domain: &str, path: &[Matcher], rule: Option<&Rule>) -> String {
    let mut line = format!("{domain:?}");
    for matcher in path {
        let (key, value) = (matcher.key(), matcher.value().unwrap_or_default());
        let how = match matcher {
            _ if *matcher == Matcher::any(key) => "any",
            _ if *matcher == Matcher::exact(key, value) => "exact",
            _ if *matcher == Matcher::wildcard(key, value) => "wildcard",
            _ => "shared",
        };
        let _ = write!(line, " {how} {key:?} {value:?}"); // A string takes all that is written.
    }
    let Some(rule) = rule else { return line + " none" };
    let mode = match rule.mode {
        Mode::Enforce => "",
        Mode::Shadow => " shadow",
        Mode::Quota => " quota",
    };
    let _ = write!(line, ": {}{mode}", rule.budget);
    for (word, names) in [("name", rule.name.as_slice()), ("replaces", rule.replaces.as_slice())] {
        for name in names {
            let _ = write!(line, " {word} {name:?}");
        }
    }
    let sharing = rule.sharing.to_string();
    if sharing.is_empty() { line } else { format!("{line} {sharing}") }
}

/// Of the limits of the gateway. Where requests go is each node's own. They have no words of their own yet: a version that
/// knows more of them is of another mind until all nodes have it, as during a reload.
pub(super) fn of_gateway(routing: &Routing) -> String {
    format!("{:?}", routing.limits())
}

/// One number of both; never 0, which says nothing.
pub(super) fn of_all(rules: &str, gateway: &str) -> u32 {
    let digest = Sha256::new().chain_update(rules).chain_update([0]).chain_update(gateway).finalize();
    let number = digest.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    number.max(1)
}

#[cfg(test)]
mod tests {
    use super::{of_all, of_rules};
    use crate::config::parse_rules;

    const FILE: &str = "
domain: d
descriptors:
- {key: five, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: path, value: /a*, rate_limit: {unit: second, requests_per_unit: 7, name: a, consistency: bounded}}
- {key: ip, value: 192.0.2.1, rate_limit: {unlimited: true}}
- {key: user, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}
";

    /// What nodes of the first version with a mesh say of these rules: a change here makes every rolling upgrade a mesh
    /// of two minds, so it is a change for its own sake or a mistake.
    const GOLDEN: u32 = 3_367_018_532;

    #[test]
    fn equal_rules_have_one_number_that_no_version_changes() {
        let rules = parse_rules("rules.yaml", FILE).unwrap().ruleset.rules;
        assert_eq!(of_all(&of_rules(&rules), ""), GOLDEN, "{}", of_rules(&rules));
    }

    #[test]
    fn rules_that_differ_in_anything_have_other_numbers() {
        let of = |text: &str| of_rules(&parse_rules("rules.yaml", text).unwrap().ruleset.rules);
        for (from, to) in [
            ("requests_per_unit: 5", "requests_per_unit: 6"),
            ("unit: minute", "unit: hour"),
            ("domain: d", "domain: e"),
            ("shadow_mode: true, ", ""),
            ("consistency: bounded", "consistency: local"),
            (", consistency: bounded", ""),
            ("name: a", "name: b"),
            ("/a*", "/b*"),
            ("value: 192.0.2.1, ", ""),
            ("{unlimited: true}", "{unit: second, requests_per_unit: 1}"),
        ] {
            assert!(FILE.contains(from), "{from}");
            assert_ne!(of(FILE), of(&FILE.replace(from, to)), "{from}");
        }
    }
}
