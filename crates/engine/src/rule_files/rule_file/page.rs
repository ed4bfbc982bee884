//! Tests that docs/reference/rules.md agrees with the code.

use super::super::limit_reader::{LIMIT_KEYS, REPLACES_KEYS};
use super::super::loader::parse_rules;
use super::super::response_reader::{QUOTA_KEYS, RESPONSE_KEYS};
use super::{DESCRIPTOR_KEYS, FILE_KEYS};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../../docs/reference/rules.md");

/// The keys of the reference service.
const OF_THE_REFERENCE: &[&str] = &[
    "domain",
    "key",
    "value",
    "descriptors",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "name",
    "replaces",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// The rows of the table below a heading whose first cell begins with `head`.
pub(super) fn rows(heading: &str, head: &str) -> Vec<Vec<&'static str>> {
    let from = PAGE.lines().skip_while(|line| *line != heading);
    let table = from.skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

// Seen failing on: a missing row, a row of a key that does not exist, and a row without its mark.
#[test]
fn page_lists_exactly_the_keys_of_the_rule_language() {
    for (heading, head, keys) in [
        ("## The file", "key", FILE_KEYS),
        ("## A descriptor", "key", DESCRIPTOR_KEYS),
        ("## A limit", "key", LIMIT_KEYS),
        ("## A limit", "key of `replaces`", REPLACES_KEYS),
        ("## `response`", "key of `response`", RESPONSE_KEYS),
        ("## `response`", "key of `quota`", QUOTA_KEYS),
    ] {
        let rows = rows(heading, head);
        let page: BTreeSet<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
        assert_eq!(page, keys.iter().copied().collect(), "{heading}, {head}");
        assert_eq!(page.len(), rows.len(), "{heading}: duplicate key");
        for row in rows.iter().filter(|_| head == "key") {
            let ours = row[3].starts_with("**Ours.**");
            assert_eq!(ours, !OF_THE_REFERENCE.contains(&row[0].trim_matches('`')), "whose is {}?", row[0]);
        }
    }
}

// Seen failing on: `untl: minute` in an example.
#[test]
fn page_examples_load_without_warnings() {
    let examples: Vec<&str> = PAGE
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(text, _)| text)
        .collect();
    assert!(examples.len() >= 4, "{} examples were found", examples.len());
    for text in examples {
        let loaded = parse_rules("example.yaml", text).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings[0]);
        assert!(loaded.ruleset.rules.declarations().count() > 0);
    }
}

// Seen failing on: a reworded cause, and a row whose rule is valid.
#[test]
fn page_mistakes_are_rejected_with_their_causes() {
    let rows = rows("## What is refused, and what to write instead", "in a descriptor");
    assert!(rows.len() > 25, "{} mistakes were found", rows.len());
    for row in rows {
        let (written, cause) = (row[0].trim_matches('`'), row[1]);
        let text = format!("domain: d\ndescriptors: [{written}]\n");
        let problems = parse_rules("mistake.yaml", &text).expect_err(written).to_string();
        let cause = cause.replace('`', "");
        assert!(
            problems.replace('`', "").contains(&cause),
            "{written}\nis not refused with: {cause}\n{problems}"
        );
    }
}
