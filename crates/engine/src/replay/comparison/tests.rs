use super::{Both, Comparison, Total};
use crate::rule_files::parse_rules;
use hivemind_core::store::OnRefusal;
use hivemind_core::{Descriptor, Rules, Timestamp};

fn rules(limit: &str) -> Rules {
    let text = format!(
        "domain: d\ndescriptors:\n- {{key: k, rate_limit: {limit}}}\n- {{key: free, rate_limit: {{unlimited: true}}}}\n"
    );
    parse_rules("rules.yaml", &text).unwrap().ruleset.rules
}

fn compare(now: &str, then: &str) -> Comparison {
    let rules = Both { now: rules(now), then: rules(then) };
    Comparison::new(rules, 1_000, OnRefusal::default())
}

fn ask(comparison: &mut Comparison, t_ms: u64, descriptors: &[&[(&str, &str)]]) {
    let descriptors: Vec<Descriptor<'_>> =
        descriptors.iter().map(|entries| Descriptor::new(entries)).collect();
    comparison.decide(Timestamp::from_millis(t_ms), "d", &descriptors);
}

#[test]
fn comparison_lists_limited_keys_of_both_rule_sets() {
    let mut comparison = compare("{unit: hour, requests_per_unit: 3}", "{unit: hour, requests_per_unit: 1}");
    for t_ms in 0..4 {
        ask(&mut comparison, t_ms, &[&[("k", "a")], &[("free", "x")]]);
    }
    ask(&mut comparison, 4, &[&[("k", "b")]]);
    ask(&mut comparison, 5, &[&[("free", "x")]]);
    assert_eq!(comparison.requests, 6);
    assert_eq!(comparison.total.now, Total { allowed: 5, limited: 1, unlimited: 1 });
    assert_eq!(comparison.total.then, Total { allowed: 3, limited: 3, unlimited: 1 });
    assert_eq!((comparison.newly_limited, comparison.newly_allowed), (2, 0));
    assert_eq!(comparison.span_ms, Some((0, 5)));
    let [(who, tally)] = comparison.first(10)[..] else { panic!("one is limited") };
    assert_eq!(who.entries, [("k".to_owned(), "a".to_owned())]);
    assert_eq!((tally.requests, tally.limited), (4, Both { now: 1, then: 3 }));
    let columns = comparison.timeline.columns();
    let sum = |of: usize| columns.iter().map(|column| column[of]).sum::<u64>();
    assert_eq!([sum(0), sum(1), sum(2)], [6, 1, 3]);
}

#[test]
fn wider_limit_admits_limited_keys() {
    let mut comparison = compare("{unit: hour, requests_per_unit: 1}", "{unit: hour, requests_per_unit: 3}");
    for t_ms in 0..4 {
        ask(&mut comparison, t_ms, &[&[("k", "a")]]);
    }
    assert_eq!((comparison.newly_limited, comparison.newly_allowed), (0, 2));
    let shown = comparison.to_string();
    assert!(shown.contains("3 (75.0 %)") && shown.contains("1 (25.0 %)"), "{shown}");
    assert!(shown.contains("Now: # allowed") && shown.contains("Then: # allowed"), "{shown}");
}

#[test]
fn equal_rules_have_equal_results() {
    let limit = "{unit: hour, requests_per_unit: 2}";
    let mut comparison = compare(limit, limit);
    for t_ms in 0..50 {
        ask(&mut comparison, t_ms * 1_000, &[&[("k", if t_ms % 3 == 0 { "a" } else { "b" })]]);
    }
    assert_eq!(comparison.total.now, comparison.total.then);
    assert_eq!((comparison.newly_limited, comparison.newly_allowed), (0, 0));
    assert!(comparison.first(10).iter().all(|(_, tally)| tally.limited.now == tally.limited.then));
}

#[test]
fn requests_beyond_the_counted_keys_are_reported() {
    let limit = "{unit: hour, requests_per_unit: 2}";
    let mut comparison = compare(limit, limit);
    for number in 0..super::MOST_KEYS {
        ask(&mut comparison, 0, &[&[("free", &number.to_string())]]);
    }
    assert!(!comparison.to_string().contains("not counted individually"), "all keys are counted");
    for _ in 0..7 {
        ask(&mut comparison, 1, &[&[("free", "one-more")]]);
    }
    ask(&mut comparison, 2, &[&[("free", "0")]]);
    assert_eq!(comparison.unnamed, 7);
    let shown = comparison.to_string();
    assert!(shown.contains("7 requests of keys that were not counted individually"), "{shown}");
}

// Seen failing on: texts truncated before they are hashed.
#[test]
fn credential_is_hashed_before_truncation() {
    let limit = "{unit: hour, requests_per_unit: 0}";
    let mut comparison = compare(limit, limit);
    let long = "a".repeat(super::LONGEST_TEXT);
    for end in ["b", "c"] {
        ask(&mut comparison, 0, &[&[("k", &format!("Bearer {long}{end}"))]]);
        ask(&mut comparison, 0, &[&[("k", &format!("https://user:{long}{end}@host/"))]]);
    }
    assert_eq!((comparison.first(9).len(), comparison.cut), (4, 0));
    assert!(comparison.first(9).iter().all(|(who, _)| who.entries[0].1.starts_with("sha256:")));
    ask(&mut comparison, 1, &[&[("k", &long)]]);
    ask(&mut comparison, 1, &[&[("k", &format!("{long}b"))]]);
    assert_eq!((comparison.first(9).len(), comparison.cut), (5, 1));
    assert!(comparison.to_string().contains("1 requests with truncated texts"));
}
