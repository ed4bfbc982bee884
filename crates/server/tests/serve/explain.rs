//! `hivemind explain`: the matching rule, the rejected candidates, and the reasons.

use hivemind_testkit::hivemind;

const RULES: &str = "
domain: d
descriptors:
- {key: k, value: 'a*', rate_limit: {unit: day, requests_per_unit: 1, name: first}}
- {key: k, value: 'ab*', shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: k, value: abc, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: k, rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 4, burst: 8}}
- {key: deep, descriptors: [ {key: x, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 6}} ]}
- {key: peers, rate_limit: {unit: day, requests_per_unit: 7, consistency: eventual, on_unreachable: refuse}}
- {key: free, rate_limit: {unlimited: true}}
- {key: allowed, value: me}
";

fn explained(domain: &str, entries: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, RULES).unwrap();
    let arguments = [&["explain", "--rules", file.to_str().unwrap(), "--domain", domain], entries].concat();
    let (code, output) = hivemind(&arguments);
    assert_eq!(code, Some(0), "{output}");
    output
}

#[test]
fn explanation_names_the_matching_rule_and_rejected_ones() {
    for (entries, parts) in [
        (
            &["k=abc"][..],
            &[
                "k=abc: taken",
                "k=a*: matches, but",
                "k (any value): matches, but",
                "rules.yaml:6: 3 in each window",
            ][..],
        ),
        (&["k=abd"], &["k=a*: taken", "k=ab*: matches, but", "rules.yaml:4: ", "named `first`"]),
        (&["k=b"], &["k=a*: does not match", "k (any value): taken", "rules.yaml:7: token bucket of 8"]),
        (&["k="], &["k (any value): taken"]),
        (&["deep=1", "x=2"], &["deep (any value): taken", "x (any value): taken", "(quota)"]),
        (&["deep=1"], &["no limit", "at this depth"]),
        (&["deep=1", "y=2"], &["no limit: nothing matches y=2"]),
        (&["k=abc", "x=1"], &["no limit: nothing matches x=1"]),
        (&["peers=x"], &["consistency: eventual, on_unreachable: refuse"]),
        (&["free=x"], &["unlimited"]),
        (&["allowed=me"], &["allowed=me: taken", "no limit"]),
        (&["allowed=you"], &["no limit"]),
        (&["unknown=x"], &["no rule here has the key `unknown`"]),
        (&["k=a=b"], &["k=a*: taken"]),
    ] {
        let output = explained("d", entries);
        for part in parts {
            assert!(output.contains(part), "`{part}` is missing in\n{output}");
        }
    }
}

#[test]
fn explanation_reports_a_domain_without_rules() {
    assert!(explained("elsewhere", &["k=v"]).contains("no rules exist for the domain `elsewhere`"));
}

#[test]
fn malformed_entry_is_rejected_with_its_remedy() {
    // Seen failing on: exit 1, which means that the service was called.
    for command in
        [&["explain", "--domain", "demo", "remote_address"][..], &["ctl", "key", "get", "demo", "user"]]
    {
        let (code, output) = hivemind(command);
        assert_eq!(code, Some(2), "{command:?}");
        assert!(output.contains("key=value"), "{output}");
    }
}

#[test]
fn explanation_without_rules_uses_the_demo_rules() {
    let (code, output) = hivemind(&["explain", "--domain", "demo", "remote_address=203.0.113.9"]);
    assert_eq!(code, Some(0));
    assert!(output.contains("token bucket of 20"), "{output}");
}
