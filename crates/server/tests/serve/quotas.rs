//! Quota rules, whose refusals count only together: case 51.

use hivemind_testkit::{Server, Setup, overall, request, statuses};

const RULES: &str = "
domain: d
descriptors:
- {key: plain, rate_limit: {unit: day, requests_per_unit: 50}}
- {key: plain, value: over, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: quota, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 50}}
- {key: quota, value: over, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: quota, value: over2, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: free, rate_limit: {unlimited: true}}
- {key: twice, quota_mode: true, rate_limits: [{unit: day, requests_per_unit: 0}, {unit: hour, requests_per_unit: 5}]}
";

#[tokio::test]
async fn request_is_refused_by_a_plain_rule_or_by_all_quotas() {
    let server = Server::with_rules(RULES).await;
    for (descriptors, expected) in [
        ("quota=over | quota=over2", "OVER"),
        ("quota=over | quota=ok", "OK"),
        ("quota=ok | quota=over", "OK"),
        ("plain=over | quota=ok", "OVER"),
        ("plain=ok | quota=over", "OVER"),
        ("plain=ok | quota=ok", "OK"),
        ("quota=over", "OVER"),
        ("quota=ok", "OK"),
        // A descriptor without a matching rule, or without a limit, is not a quota.
        ("quota=over | none=x", "OVER"),
        ("quota=over | free=x", "OVER"),
        ("quota=over | none=x | quota=ok", "OK"),
        // Two limits of one descriptor are one quota.
        ("twice=x", "OVER"),
        ("twice=x | quota=ok", "OK"),
    ] {
        let answer = server.ask("d", descriptors).await;
        assert_eq!(overall(&answer), expected, "case 51: {descriptors} is {}", statuses(&answer));
        for (descriptor, status) in descriptors.split(" | ").zip(statuses(&answer).split(" | ")) {
            let over = descriptor.contains("over") || descriptor.contains("twice");
            assert_eq!(status.starts_with("OVER"), over, "{descriptor} of {descriptors} is {status}");
        }
    }
}

#[tokio::test]
async fn global_quota_mode_makes_every_descriptor_a_quota() {
    // Seen failing on: `unmatched()` of `apply_global_modes` always false.
    let server = Setup::rules(RULES).with("rate_limiting.quota_mode", "true").start().await;
    for (descriptors, expected) in [
        ("plain=over | quota=over", "OVER"),
        ("plain=over | plain=ok", "OK"),
        ("plain=over", "OVER"),
        ("plain=over | quota=ok", "OK"),
        // A descriptor without a rule is a quota with room; an unlimited one is not.
        ("plain=over | none=x", "OK"),
        ("none=x", "OK"),
        ("plain=over | free=x", "OVER"),
    ] {
        let answer = server.ask("d", descriptors).await;
        assert_eq!(overall(&answer), expected, "case 51: {descriptors} is {}", statuses(&answer));
    }
    assert_eq!(server.counted("shadow_mode", "domain=\"d\",key1=\"plain_over\"").await, Some(0));
}

#[tokio::test]
async fn exhausted_quota_is_not_charged_while_another_has_room() {
    let server = Server::with_rules(RULES).await;
    let mut both = request("d", "quota=a | quota=b");
    both.descriptors[0].hits_addend = Some(50);
    assert_eq!(statuses(&server.send(both).await), "OK 50/DAY, 0 left | OK 50/DAY, 49 left");
    let answer = server.ask("d", "quota=a | quota=b").await;
    assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", "OVER 50/DAY | OK 50/DAY, 48 left"));
}
