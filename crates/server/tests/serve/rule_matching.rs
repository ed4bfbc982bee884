//! Rule matching: cases 1 to 16 of the conformance page, and the consequences of its text.

use hivemind_testkit::{Server, Setup, overall, statuses};

pub(crate) const BASIC: &str = "
domain: test-domain
descriptors:
- {key: key1, value: value1, descriptors: [ {key: subkey1, rate_limit: {unit: second, requests_per_unit: 5}},
    {key: subkey1, value: subvalue1, rate_limit: {unit: second, requests_per_unit: 10}} ]}
- {key: key2, rate_limit: {unit: minute, requests_per_unit: 20}}
- {key: key2, value: value2, rate_limit: {unit: minute, requests_per_unit: 30}}
- {key: key2, value: value3}
- {key: key3, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: key4, rate_limit: {name: key4_rate_limit, unit: day, requests_per_unit: 1}}
- {key: key5, value: value5, rate_limit: {unit: day, requests_per_unit: 15}, descriptors: [ {key: subkey5, value: subvalue5, rate_limit: {unit: day, requests_per_unit: 25}} ]}
- {key: key6, rate_limit: {unlimited: true}}
- {key: key7, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 70}}
";

#[tokio::test]
async fn reference_rules_answer_as_in_the_reference() {
    // Seen failing on: `Node::below` without its `.or(values.any)` (cases 8, 10, 13).
    let server = Server::with_rules(BASIC).await;
    for (case, descriptors, expected, counted) in [
        (2, "key1=something", "none", ""),
        (3, "key1=value1", "none", ""),
        (4, "key2=value2 subkey=subvalue", "none", ""),
        (5, "key5=value5 subkey5=subvalue", "none", ""),
        (6, "key5=value5", "OK 15/DAY, 14 left", "key1=\"key5_value5\""),
        (
            7,
            "key5=value5 subkey5=subvalue5",
            "OK 25/DAY, 24 left",
            "key1=\"key5_value5\",key2=\"subkey5_subvalue5\"",
        ),
        (8, "key1=value1 subkey1=something", "OK 5/SECOND, 4 left", "key1=\"key1_value1\",key2=\"subkey1\""),
        (
            9,
            "key1=value1 subkey1=subvalue1",
            "OK 10/SECOND, 9 left",
            "key1=\"key1_value1\",key2=\"subkey1_subvalue1\"",
        ),
        (10, "key2=something", "OK 20/MINUTE, 19 left", "key1=\"key2\""),
        (11, "key2=value2", "OK 30/MINUTE, 29 left", "key1=\"key2_value2\""),
        (12, "key2=value3", "none", ""),
        (13, "key3=foo", "OK 1/HOUR, 0 left", "key1=\"key3\""),
        (14, "key4=foo", "OK 1/DAY `key4_rate_limit`, 0 left", "key1=\"key4\""),
        // The reference does not count unlimited rules; Hivemind does.
        (15, "key6=foo", "unlimited", "key1=\"key6\""),
        (16, "key7=unspecified_value", "OK 70/MINUTE, 69 left", "key1=\"key7_unspecified_value\""),
        (16, "key7=another_value", "OK 70/MINUTE, 69 left", "key1=\"key7_another_value\""),
    ] {
        let answer = server.ask("test-domain", descriptors).await;
        assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", expected), "case {case}");
        if !counted.is_empty() {
            let labels = format!("domain=\"test-domain\",{counted}");
            assert_eq!(server.counted("total_hits", &labels).await, Some(1), "case {case}: {labels}");
        }
    }
}

#[tokio::test]
async fn unknown_domain_is_not_limited_and_is_counted() {
    let server = Server::with_rules(BASIC).await;
    for _ in 0..2 {
        let answer = server.ask("foo_domain", "key2=a | key3=b").await;
        assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", "none | none"), "case 1");
    }
    assert_eq!(server.counted("domain_not_found", "domain=\"foo_domain\"").await, Some(2));
}

#[tokio::test]
async fn domain_without_descriptors_is_known() {
    let server = Server::with_rules("domain: empty\ndescriptors:\n").await;
    assert_eq!(statuses(&server.ask("empty", "a=b").await), "none");
    assert_eq!(server.counted("domain_not_found", "domain=\"empty\"").await, None);
}

const PRECEDENCE: &str = "
domain: d
descriptors:
- {key: k, value: 'a*', rate_limit: {unit: day, requests_per_unit: 1}}
- {key: k, value: 'ab*', rate_limit: {unit: day, requests_per_unit: 2}}
- {key: k, value: abc, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: k, rate_limit: {unit: day, requests_per_unit: 4}}
- {key: k, value: '*z', rate_limit: {unit: day, requests_per_unit: 5}}
- {key: deep, descriptors: [ {key: x, rate_limit: {unit: day, requests_per_unit: 6}} ]}
- {key: deep, value: one, descriptors: [ {key: y, rate_limit: {unit: day, requests_per_unit: 7}} ]}
- {key: deep, value: 'two*', rate_limit: {unit: day, requests_per_unit: 8}}
- {key: a, value: b_c, rate_limit: {unit: day, requests_per_unit: 9}}
- {key: three, descriptors: [ {key: x, descriptors: [ {key: y, value: z, rate_limit: {unit: week, requests_per_unit: 10}} ]} ]}
- {key: Case, value: Value, rate_limit: {unit: month, requests_per_unit: 11}}
- {key: blocked, rate_limit: {unit: year}}
";

#[tokio::test]
async fn exact_value_precedes_first_wildcard_precedes_no_value() {
    let server = Server::with_rules(PRECEDENCE).await;
    for (descriptors, expected) in [
        ("k=abc", "OK 3/DAY, 2 left"),
        ("k=abd", "OK 1/DAY, 0 left"),
        ("k=az", "OK 1/DAY, 0 left"),
        ("k=bz", "OK 5/DAY, 4 left"),
        ("k=b", "OK 4/DAY, 3 left"),
        ("k=", "OK 4/DAY, 3 left"),
        ("deep=other x=1", "OK 6/DAY, 5 left"),
        // A match is not undone, although `deep` without a value has an `x`.
        ("deep=one x=1", "none"),
        ("deep=one y=1", "OK 7/DAY, 6 left"),
        ("deep=twofold x=1", "none"),
        ("deep=twofold", "OK 8/DAY, 7 left"),
        // Key and value are compared separately.
        ("a=b_c", "OK 9/DAY, 8 left"),
        ("a_b=c", "none"),
        ("three=1 x=2 y=z", "OK 10/WEEK, 9 left"),
        ("three=1 x=2", "none"),
        ("three=1 x=2 y=z w=1", "none"),
        ("x=2 three=1 y=z", "none"),
        ("Case=Value", "OK 11/MONTH, 10 left"),
        ("case=value", "none"),
        ("Case=value", "none"),
        ("", "none"),
        ("blocked=x", "OVER 0/YEAR"),
    ] {
        assert_eq!(statuses(&server.ask("d", descriptors).await), expected, "{descriptors}");
    }
}

#[tokio::test]
async fn folder_rules_are_loaded_and_merged_if_configured() {
    let file = |domain: &str, key: &str| {
        format!(
            "domain: {domain}\ndescriptors:\n- {{key: {key}, rate_limit: {{unit: day, requests_per_unit: 3}}}}\n"
        )
    };
    let setup = Setup::new().rules_at("rules").with("rate_limiting.merge_domains", "true");
    setup.write("rules/one.yaml", &file("d", "a"));
    setup.write("rules/two.yml", &file("d", "b"));
    setup.write("rules/deeper/three.yaml", &file("e", "c"));
    setup.write("rules/.hidden.yaml", &file("d", "a"));
    setup.write("rules/..data/one.yaml", &file("d", "a"));
    setup.write("rules/notes.txt", "not rules");
    let server = setup.start().await;
    assert_eq!(statuses(&server.ask("d", "a=1 | b=1").await), "OK 3/DAY, 2 left | OK 3/DAY, 2 left");
    assert_eq!(statuses(&server.ask("e", "c=1").await), "OK 3/DAY, 2 left");
}

#[tokio::test]
async fn ten_thousand_sibling_values_match_their_own_rules() {
    let rule = |number| {
        format!(
            "- {{key: tenant, value: t{number}, rate_limit: {{unit: day, requests_per_unit: {number}}}}}\n"
        )
    };
    let rules: String = (1..=10_000).map(rule).collect();
    let server = Server::with_rules(&format!("domain: d\ndescriptors:\n{rules}")).await;
    let descriptors: Vec<String> = (1..=250).map(|number| format!("tenant=t{}", number * 4)).collect();
    let expected: Vec<String> =
        (1..=250).map(|number| format!("OK {0}/DAY, {1} left", number * 4, number * 4 - 1)).collect();
    assert_eq!(statuses(&server.ask("d", &descriptors.join("|")).await), expected.join(" | "));
}
