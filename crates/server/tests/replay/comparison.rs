//! Comparison of two rule sets, and the counters after a refusal.

use crate::{Files, TEN_A_SECOND, path, replay, request, text};

#[test]
fn two_rule_sets_are_compared_in_a_table_and_charts() {
    let files = Files::new();
    let old = files.write("old.yaml", TEN_A_SECOND);
    let new = files.write("new.yaml", &TEN_A_SECOND.replace("burst: 2", "burst: 1"));
    let input: String =
        [(0, "a"), (0, "a"), (0, "b"), (5_000, "a")].map(|(t_ms, value)| request(t_ms, value)).concat();
    let output = replay(&["--rules", path(&new), "--against", path(&old), "--summary"], &input);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        "4 requests",
        "4 (100.0 %)",
        "3 (75.0 %)",
        "1 newly limited",
        "0 newly allowed",
        "d k=a",
        "Now: #",
        "Then: #",
    ] {
        assert!(shown.contains(part), "no `{part}` in:\n{shown}");
    }
    assert!(!shown.contains("k=b"), "a client that passes under both is not listed:\n{shown}");
    let alone = replay(&["--rules", path(&new), "--against", path(&old)], &input);
    assert!(!alone.status.success() && text(&alone.stderr).contains("--summary"));
}

// Seen failing on: the default for all, and no option.
#[test]
fn counters_after_a_refusal_follow_on_refusal() {
    let files = Files::new();
    let rules = files.write(
        "rules.yaml",
        "domain: d\ndescriptors:\n- key: k\n  rate_limits:\n  - {unit: minute, requests_per_unit: 2}\n  - {unit: hour, requests_per_unit: 3}\n",
    );
    let input: String = [0, 0, 0, 60_000].map(|t_ms| request(t_ms, "a")).concat();
    // The third request is refused by the minute; whether the hour counted it decides the fourth.
    for (more, expected) in [
        (&[][..], true),
        (&["--on-refusal", "count_refusing"], true),
        (&["--on-refusal", "count_none"], true),
        (&["--on-refusal", "count_all"], false),
    ] {
        let output = replay(&[&["--rules", path(&rules)], more].concat(), &input);
        assert!(output.status.success(), "{more:?}: {}", text(&output.stderr));
        let last = text(&output.stdout).lines().last().unwrap().to_owned();
        assert!(last.contains(&format!("\"allow\":{expected}")), "{more:?}: {last}");
    }
    let (old, new) = (path(&rules), files.write("new.yaml", TEN_A_SECOND));
    let compared = ["--rules", path(&new), "--against", old, "--summary"];
    let limited = |more: &[&str]| text(&replay(&[&compared, more].concat(), &input).stdout);
    assert!(limited(&["--on-refusal", "count_all"]).contains("2 (50.0 %)"));
    assert!(limited(&[]).contains("1 (25.0 %)"));
    let wrong = replay(&["--rules", old, "--on-refusal", "count"], &input);
    assert!(text(&wrong.stderr).contains("count_refusing, count_all, count_none"), "{}", text(&wrong.stderr));
}
