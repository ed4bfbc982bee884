//! Fingerprints of rules, by which nodes detect that their rules differ. Equal rules have equal fingerprints regardless
//! of file names, and, except for the gateway's limits, of the version of this program.

use hivemind_core::store::Mode;
use hivemind_core::{Matcher, Rule, Rules};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Text form of the rate limit service's rules, one line each. Properties that later versions add are omitted when
/// unset, so that nodes of two versions with the same file agree.
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
        let _ = write!(line, " {how} {key:?} {value:?}"); // Writing to a string cannot fail.
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

/// The fingerprint of both texts; never 0, which means unknown.
pub(super) fn of_all(rules: &str, gateway: &str) -> u32 {
    let digest = Sha256::new().chain_update(rules).chain_update([0]).chain_update(gateway).finalize();
    let number = digest.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    number.max(1)
}

#[cfg(test)]
mod tests {
    use super::{of_all, of_rules};
    use crate::rule_files::parse_rules;

    const FILE: &str = "
domain: d
descriptors:
- {key: five, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: path, value: /a*, rate_limit: {unit: second, requests_per_unit: 7, name: a, consistency: bounded}}
- {key: ip, value: 192.0.2.1, rate_limit: {unlimited: true}}
- {key: user, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}
";

    /// The fingerprint by the first version with a mesh. If it changes, nodes disagree during every rolling upgrade, so a
    /// change must be intended.
    const GOLDEN: u32 = 3_367_018_532;

    #[test]
    fn equal_rules_have_a_stable_fingerprint() {
        let rules = parse_rules("rules.yaml", FILE).unwrap().ruleset.rules;
        assert_eq!(of_all(&of_rules(&rules), ""), GOLDEN, "{}", of_rules(&rules));
    }

    #[test]
    fn different_rules_have_different_fingerprints() {
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
