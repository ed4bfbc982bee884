use super::{LONGEST_PATTERN, MOST_LENGTHS, MOST_PATTERNS, RuleError, RuleNode, WildcardPattern, Wildcards};
use proptest::prelude::*;

proptest! {
    #[test]
    fn wildcard_search_finds_first_declared_match(
        patterns in prop::collection::vec("[ab*é]{0,4}\\*[ab*é]{0,4}", 0..40),
        value in "[abé]{0,8}",
    ) {
        // Fails with `first.max()` in `find`, and `first_in` without `matches` or with `place > first`.
        let mut wildcards = Wildcards::default();
        for (number, text) in patterns.iter().enumerate() {
            wildcards.node(text, || RuleNode::numbered(number)).unwrap();
        }
        let tried = patterns.iter().position(|text| WildcardPattern::new(text).matches(&value));
        prop_assert_eq!(wildcards.find(&value).and_then(RuleNode::declared), tried);
    }
}

#[test]
fn wildcard_search_tries_one_of_ten_thousand_patterns() {
    for (pattern, value) in [("/tenant-{}/*", "/tenant-07777/a/b"), ("*/tenant-{}/*", "a/tenant-07777/b")] {
        let mut wildcards = Wildcards::default();
        for number in 0..10_000 {
            let text = pattern.replace("{}", &format!("{number:05}"));
            wildcards.node(&text, || RuleNode::numbered(number)).unwrap();
        }
        assert_eq!(wildcards.lengths.len(), 1, "one look-up by hash");
        let group = wildcards.groups.values().max_by_key(|group| group.places.len()).unwrap();
        let mut tried = 0;
        match &group.middles {
            Some(middles) => middles.search(value, |_| tried += 1),
            None => tried = group.places.len(),
        }
        assert_eq!(tried, 1, "{pattern}");
        assert_eq!(wildcards.find(value).and_then(RuleNode::declared), Some(7_777));
    }
}

// Seen failing on: an index that the first search built, in 0.7 s for 20,000 patterns.
#[test]
fn first_search_after_load_builds_nothing() {
    let mut wildcards = Wildcards::default();
    for number in 0..MOST_PATTERNS {
        wildcards.node(&format!("*v{number}*"), || RuleNode::numbered(number)).unwrap();
    }
    let loaded = format!("{wildcards:?}");
    assert_eq!(wildcards.find("v19999").and_then(RuleNode::declared), Some(1), "`*v1*` is declared first");
    assert_eq!(wildcards.find("a v7").and_then(RuleNode::declared), Some(7));
    assert!(wildcards.find("w").is_none());
    assert!(loaded == format!("{wildcards:?}"), "a search changes nothing");
}

// Seen failing on: no bounds, where 110,000 patterns took 17 s to read.
#[test]
fn patterns_beyond_the_bounds_are_rejected() {
    let add = |wildcards: &mut Wildcards, text: &str| wildcards.node(text, RuleNode::default).err();
    let mut many = Wildcards::default();
    for number in 0..MOST_PATTERNS {
        assert_eq!(add(&mut many, &format!("*v{number}*")), None);
    }
    assert_eq!(add(&mut many, "*w*"), Some(RuleError::TooManyPatterns { most: MOST_PATTERNS }));
    assert_eq!(add(&mut many, "*v1*"), None, "it is already there");
    let mut lengths = Wildcards::default();
    for number in 0..MOST_LENGTHS {
        assert_eq!(add(&mut lengths, &format!("{}*", "a".repeat(number))), None);
    }
    let too_many = Some(RuleError::TooManyPatternLengths { most: MOST_LENGTHS });
    assert_eq!(add(&mut lengths, "*b"), too_many);
    let long = "a".repeat(LONGEST_PATTERN) + "*";
    assert_eq!(add(&mut lengths, &long), Some(RuleError::LongPattern { most: LONGEST_PATTERN }));
}
