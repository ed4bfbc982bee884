use super::sketch::PLACES;
use super::{IN_A_MOMENT, MOMENT, REMEMBERED, RankBy, RuleId, SHARDS, TopKeys, generation};
use hivemind_core::store::{Charge, Key, KeySeed, Parts};
use hivemind_core::{Limit, Period, Timestamp};
use serde_json::Value;

const START: Timestamp = Timestamp::from_millis(1_000_000_000);

fn record(top: &TopKeys, value: &str, amount: u64, now: Timestamp) {
    record_by(top, value, None, amount, now);
}

fn record_by(top: &TopKeys, value: &str, rule: Option<RuleId>, amount: u64, now: Timestamp) {
    let entries = [("k", value)];
    let (limit, parts) = (Limit::fixed_window(1, Period::SECOND), Parts { domain: "d", entries: &entries });
    let key = Key::new(&KeySeed::new([7; 16]), parts, &limit, 0);
    top.record(RankBy::Denied, (&Charge::spend(key, parts, &limit), rule), amount, now);
}

fn shown(top: &TopKeys, limit: usize, now: Timestamp) -> Vec<(String, u64, u64)> {
    let shown = top.shown(RankBy::Denied, limit, 1, now);
    let of = |key: &Value| {
        let value = key["entries"][0]["value"].as_str().unwrap().to_owned();
        (value, key["count"].as_u64().unwrap(), key["error"].as_u64().unwrap())
    };
    shown["keys"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn counts_are_exact_and_ordered_under_low_load() {
    let top = TopKeys::default();
    for (value, times) in [("a", 3), ("b", 5), ("c", 1)] {
        for _ in 0..times {
            record(&top, value, 2, START);
        }
    }
    let of = |value: &str, count| (value.to_owned(), count, 0);
    assert_eq!(shown(&top, 10, START), [of("b", 10), of("a", 6), of("c", 2)]);
    assert_eq!(shown(&top, 1, START), [of("b", 10)]);
    assert_eq!(top.shown(RankBy::Spent, 10, 1, START)["keys"].as_array().map(Vec::len), Some(0));
}

/// Counters of one client under a rule, under the same rule after a reload, and under a limit in requests.
// Fails with a row for each counter, when rows with truncated texts are merged, or with the rule before the reload.
#[test]
fn key_counted_by_several_limits_has_one_row() {
    let top = TopKeys::default();
    let long = ["a", "b"].map(|end| "x".repeat(200) + end);
    let record = |period, value: &str, rules: u8, amount| {
        let entries = [("user", value)];
        let (limit, parts) = (Limit::fixed_window(1, period), Parts { domain: "d", entries: &entries });
        let key = Key::new(&KeySeed::new([7; 16]), parts, &limit, 0);
        let rule = RuleId { rules: rules.into(), number: 10 + usize::from(rules) };
        top.record(RankBy::Denied, (&Charge::spend(key, parts, &limit), Some(rule)), amount, START);
    };
    record(Period::MINUTE, "mallory", 1, 10);
    record(Period::HOUR, "mallory", 2, 4);
    record(Period::DAY, "mallory", 1, 3);
    record(Period::MINUTE, "bob", 2, 12);
    for value in &long {
        record(Period::MINUTE, value, 2, 1);
    }
    let shown = top.shown(RankBy::Denied, 10, 2, START);
    let of = |key: &Value| (key["count"].as_u64(), key["rule"].as_u64(), key["is_cut"].as_bool());
    let all: Vec<_> = shown["keys"].as_array().unwrap().iter().map(of).collect();
    let (whole, cut) = (Some(false), Some(true));
    let counted = |count, is_cut| (Some(count), Some(12), is_cut);
    assert_eq!(all, [counted(17, whole), counted(12, whole), counted(1, cut), counted(1, cut)], "{shown}");
}

// Fails when the heaviest key is replaced, when a replaced slot has no error, or when slots are not bounded.
#[test]
fn heavy_key_among_100000_is_found_with_error_bound() {
    let top = TopKeys::default();
    let (mut now, mut truth) = (START, 0);
    for number in 0..100_000_u32 {
        if number.is_multiple_of(100) {
            now = now.saturating_add(MOMENT);
        }
        record(&top, &format!("one of many {number}"), 1, now);
        if number.is_multiple_of(20) {
            record(&top, "heavy", 1, now);
            truth += 1;
        }
    }
    let all = shown(&top, usize::MAX, now);
    let (_, count, error) = all.iter().find(|(value, ..)| value == "heavy").expect("it is found");
    assert!(*count >= truth && count - error <= truth, "{count} - {error} is not {truth}");
    assert_eq!(all[0].0, "heavy");
    // The other keys occurred once each; the rest of their counts is reported as an error.
    let others = all.iter().filter(|(value, ..)| value != "heavy");
    assert!(others.map(|(_, count, error)| count - error).all(|sure| sure <= 1));
    let kept = top.denied.shards.iter().map(|shard| shard.counted_by(generation(now)).len()).sum::<usize>();
    assert!(kept <= 2 * SHARDS * PLACES, "{kept} are kept");
}

// Fails when unrecorded hits of a flood are lost.
#[test]
fn flood_has_bounded_work_and_complete_total() {
    let top = TopKeys::default();
    let flood = IN_A_MOMENT * 10;
    for _ in 0..flood {
        record(&top, "flood", 1, START);
    }
    assert_eq!(shown(&top, 1, START)[0].1, IN_A_MOMENT);
    let later = START.saturating_add(MOMENT);
    record(&top, "flood", 1, later);
    assert_eq!(shown(&top, 1, later)[0].1, flood + 1);
}

// Fails when generations never turn.
#[test]
fn old_counts_expire() {
    let top = TopKeys::default();
    record(&top, "once", 1, START);
    let next = START.saturating_add(REMEMBERED);
    record(&top, "then", 1, next);
    assert_eq!(shown(&top, 10, next).len(), 2);
    let last = next.saturating_add(REMEMBERED);
    assert_eq!(shown(&top, 10, last), [("then".to_owned(), 1, 0)]);
    assert_eq!(shown(&top, 10, last.saturating_add(REMEMBERED * 5)), []);
}

// Fails when texts are not truncated.
#[test]
fn long_key_text_is_truncated() {
    let top = TopKeys::default();
    record(&top, &"é".repeat(100_000), 1, START);
    assert_eq!(shown(&top, 1, START)[0].0, "é".repeat(64));
}

/// A thread that read its clock earlier records later.
#[test]
fn late_record_before_turn_loses_no_counts() {
    let top = TopKeys::default();
    let turn = Timestamp::from_millis((generation(START) + 1) * REMEMBERED.as_secs() * 1_000);
    record(&top, "first", 1, START);
    record(&top, "second", 2, turn);
    record(&top, "third", 3, Timestamp::from_nanos(turn.as_nanos() - 1));
    let of = |value: &str, count| (value.to_owned(), count, 0);
    assert_eq!(shown(&top, 10, turn), [of("third", 3), of("second", 2), of("first", 1)]);
}

// Fails with the rule of the first request, or with an index of removed rules.
#[test]
fn row_has_active_rule_of_last_request() {
    let top = TopKeys::default();
    let rule = |number| Some(RuleId { rules: 1, number });
    record_by(&top, "a", rule(4), 1, START);
    record_by(&top, "a", rule(7), 1, START);
    record_by(&top, "b", None, 1, START);
    let rules_of = |rules| {
        let shown = top.shown(RankBy::Denied, 9, rules, START);
        shown["keys"].as_array().unwrap().iter().map(|key| key["rule"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(rules_of(1), [Some(7), None]);
    assert_eq!(rules_of(2), [None, None], "other rules have other numbers");
}
