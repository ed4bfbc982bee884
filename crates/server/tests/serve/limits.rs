//! Limits: units, algorithms, and several limits on one descriptor.

use hivemind_testkit::{Server, overall, peek, request, status_summary, statuses};

const RULES: &str = "
domain: d
descriptors:
- {key: second, rate_limit: {unit: second, requests_per_unit: 9}}
- {key: minute, rate_limit: {unit: Minute, requests_per_unit: 9}}
- {key: hour, rate_limit: {unit: HOUR, requests_per_unit: 9}}
- {key: day, rate_limit: {unit: day, requests_per_unit: 9}}
- {key: week, rate_limit: {unit: week, requests_per_unit: 9}}
- {key: month, rate_limit: {unit: month, requests_per_unit: 9}}
- {key: year, rate_limit: {unit: year, requests_per_unit: 9}}
- {key: two_days, rate_limit: {unit: day, unit_multiplier: 2, requests_per_unit: 9}}
- {key: sixty_minutes, rate_limit: {unit: minute, unit_multiplier: 60, requests_per_unit: 9}}
- {key: sliding, rate_limit: {algorithm: sliding_window, unit: day, requests_per_unit: 3}}
- {key: bucket, rate_limit: {algorithm: token_bucket, unit: day, requests_per_unit: 2, burst: 4}}
- {key: plain_bucket, rate_limit: {algorithm: token_bucket, unit: day, requests_per_unit: 2}}
- {key: fixed, rate_limit: {algorithm: fixed_window, unit: day, requests_per_unit: 3}}
- key: several
  rate_limits:
  - {unit: day, requests_per_unit: 10, name: several}
  - {algorithm: token_bucket, unit: hour, requests_per_unit: 1, burst: 3}
  - {algorithm: sliding_window, unit: week, requests_per_unit: 100}
";

#[tokio::test]
async fn window_resets_within_its_unit_in_whole_seconds() {
    let server = Server::with_rules(RULES).await;
    for (key, unit, length) in [
        ("second", "SECOND", 1),
        ("minute", "MINUTE", 60),
        ("hour", "HOUR", 3_600),
        ("day", "DAY", 86_400),
        ("week", "WEEK", 604_800),
        ("month", "MONTH", 2_592_000),
        ("year", "YEAR", 31_536_000),
        ("two_days", "?", 172_800),
        ("sixty_minutes", "HOUR", 3_600),
    ] {
        let answer = server.ask("d", &format!("{key}=x")).await;
        let status = &answer.statuses[0];
        // `status_summary` checks that they are whole seconds, and at least one.
        assert_eq!(status_summary(status), format!("OK 9/{unit}, 8 left"));
        let seconds = status.duration_until_reset.unwrap().seconds;
        assert!(seconds <= length, "{key}: {seconds} of {length}");
    }
}

#[tokio::test]
async fn windows_begin_at_multiples_of_their_unit_since_the_epoch() {
    let server = Server::with_rules(RULES).await;
    let answer = server.ask("d", "day=x | hour=x").await;
    let [day, hour] = [0, 1].map(|index| answer.statuses[index].duration_until_reset.unwrap().seconds);
    // The end of a day is the end of an hour.
    assert_eq!(day % 3_600, hour % 3_600);
}

#[tokio::test]
async fn each_algorithm_admits_its_own_limit() {
    let server = Server::with_rules(RULES).await;
    for (key, admitted, limit) in [
        ("fixed", 3_u32, "3/DAY"),
        ("sliding", 3, "3/DAY"),
        ("bucket", 4, "2/DAY"),
        ("plain_bucket", 2, "2/DAY"),
    ] {
        for left in (0..admitted).rev() {
            let answer = server.ask("d", &format!("{key}=x")).await;
            assert_eq!(statuses(&answer), format!("OK {limit}, {left} left"), "{key}");
        }
        let answer = server.ask("d", &format!("{key}=x")).await;
        assert_eq!((overall(&answer), statuses(&answer)), ("OVER", format!("OVER {limit}")), "{key}");
    }
}

#[tokio::test]
async fn several_limits_are_one_decision_reporting_the_tightest() {
    let server = Server::with_rules(RULES).await;
    for left in (0..3).rev() {
        let answer = server.ask("d", "several=x").await;
        assert_eq!(statuses(&answer), format!("OK 1/HOUR `several`, {left} left"));
    }
    assert_eq!(statuses(&server.ask("d", "several=x").await), "OVER 1/HOUR `several`");
    // The bucket's refusal spends nothing on the window: 3 of its 10 are spent.
    let mut all = request("d", "several=x");
    all.descriptors[0].hits_addend = Some(3);
    all.descriptors[0].is_negative_hits = true;
    server.send(all.clone()).await;
    all.descriptors[0].is_negative_hits = false;
    assert_eq!(statuses(&server.send(all).await), "OK 1/HOUR `several`, 0 left");
    assert_eq!(statuses(&server.send(peek("d", "several=x")).await), "OK 1/HOUR `several`, 0 left");
}

#[tokio::test]
async fn limits_of_one_descriptor_have_separate_counters() {
    let rules = "domain: d\ndescriptors:\n- key: k\n  rate_limits: [{unit: day, requests_per_unit: 2}, {unit: hour, requests_per_unit: 4}]\n";
    let server = Server::with_rules(rules).await;
    for expected in ["OK 2/DAY, 1 left", "OK 2/DAY, 0 left", "OVER 2/DAY", "OVER 2/DAY", "OVER 2/DAY"] {
        assert_eq!(statuses(&server.ask("d", "k=x").await), expected);
    }
}
