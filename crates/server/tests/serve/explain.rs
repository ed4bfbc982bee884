//! `hivemind explain`: which rule answers, which were passed over, and why.

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
    let (code, said) = hivemind(&arguments);
    assert_eq!(code, Some(0), "{said}");
    said
}

#[test]
fn the_rule_that_answers_is_named_and_so_are_those_passed_over() {
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
        (&["unheard=of"], &["no rule here has the key `unheard`"]),
        (&["k=a=b"], &["k=a*: taken"]),
    ] {
        let said = explained("d", entries);
        for part in parts {
            assert!(said.contains(part), "`{part}` is missing in\n{said}");
        }
    }
}

#[test]
fn a_domain_without_rules_is_told() {
    assert!(explained("elsewhere", &["k=v"]).contains("no rules for the domain `elsewhere`"));
}

#[test]
fn what_is_no_entry_is_refused_with_its_remedy() {
    // Seen failing on: exit 1, which says that the service was asked.
    for command in
        [&["explain", "--domain", "demo", "remote_address"][..], &["ctl", "key", "get", "demo", "user"]]
    {
        let (code, said) = hivemind(command);
        assert_eq!(code, Some(2), "{command:?}");
        assert!(said.contains("key=value"), "{said}");
    }
}

#[test]
fn without_rules_the_demo_rules_are_explained() {
    let (code, said) = hivemind(&["explain", "--domain", "demo", "remote_address=203.0.113.9"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("token bucket of 20"), "{said}");
}
