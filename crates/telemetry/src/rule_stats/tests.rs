use super::{ChargeOutcome, LONGEST_NAME, MOST_NAMES, RuleCounters, RuleStats, StatName};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn hits_are_near_over_and_within_as_the_reference_counts_them() {
    for (limit, hits, before, total, over, near, within) in [
        (15, 1, 10, 1, 0, 0, 1),
        (15, 1, 12, 1, 0, 1, 1),
        (15, 1, 15, 1, 1, 0, 0),
        (20, 3, 2, 3, 0, 0, 3),
        (8, 2, 5, 2, 0, 1, 2),
        (20, 3, 16, 3, 0, 3, 3),
        (20, 3, 19, 3, 2, 1, 0),
        (20, 7, 15, 7, 2, 4, 0),
        (10, 3, 27, 3, 3, 0, 0),
    ] {
        let counters = RuleCounters::default();
        let available = u64::try_from(limit - before).unwrap_or(0);
        let limit = u64::try_from(limit).unwrap();
        let charged = ChargeOutcome { hits, limit, available, refused: hits > available, shadow: false };
        counters.count(charged, 0.8);
        let counted =
            [&counters.total_hits, &counters.over_limit, &counters.near_limit, &counters.within_limit]
                .map(|counter| counter.load(Ordering::Relaxed));
        assert_eq!(counted, [total, over, near, within], "limit {limit}, {hits} hits after {before}");
    }
}

#[test]
fn names_are_bounded_and_the_rest_is_counted_under_other() {
    let stats = RuleStats::default();
    let name = |number: usize| StatName { domain: "d".into(), parts: vec![number.to_string()] };
    for number in 0..MOST_NAMES + 50 {
        stats.of_request(&name(number)).total_hits.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(stats.by_name().len(), MOST_NAMES);
    let long = StatName { domain: "d".into(), parts: vec!["x".repeat(LONGEST_NAME)] };
    assert!(Arc::ptr_eq(&stats.of_request(&long), &stats.other));
    assert_eq!(stats.other.total_hits.load(Ordering::Relaxed), 50);
    assert!(!Arc::ptr_eq(&stats.of_request(&name(0)), &stats.other));
    // Rules keep their names, however many requests have taken theirs before.
    let rule = stats.of_rule(&StatName::new("d", vec!["of a rule".into()]));
    assert!(!Arc::ptr_eq(&rule, &stats.other));
    stats.drop_unused();
    assert_eq!(stats.by_name().len(), MOST_NAMES + 1);
    drop(rule);
    stats.drop_unused();
    assert_eq!(stats.by_name().len(), MOST_NAMES);
    for number in 0..1_000 {
        stats.domain_not_found(&number.to_string());
    }
    assert_eq!(stats.domains_not_found().len(), 101);
}

#[test]
fn names_are_written_as_the_reference_writes_them() {
    for (text, written) in [
        ("remote_address_10.0.0.1", "remote_address_10_0_0_1"),
        ("path_/v1.2/a.html", "path_/v1.2/a.html"),
        ("host_example.org:8080|x", "host_example.org_8080_x"),
        ("net_10.0.0.0/8", "net_10_0_0_0/8"),
        ("version_1.2.3.4.5", "version_1.2.3.4.5"),
    ] {
        assert_eq!(StatName::new("d", vec![text.into()]).parts, [written]);
    }
}

/// A page with one series twice is refused whole.
#[test]
fn names_that_are_written_alike_are_one_series() {
    let stats = RuleStats::default();
    for parts in [&["t", "p_a", "q_b"][..], &["t", "p_a.q_b"], &["t"], &[], &[""]] {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        stats.of_request(&StatName { domain: "d".into(), parts }).total_hits.fetch_add(1, Ordering::Relaxed);
    }
    let other = StatName { domain: "other".into(), parts: vec!["other".into()] };
    stats.of_rule(&other).total_hits.fetch_add(1, Ordering::Relaxed);
    let page = crate::exposition(&stats.families());
    let mut lines: Vec<&str> = page.lines().filter(|line| line.contains("_total_hits{")).collect();
    lines.sort_unstable();
    let name = "ratelimit_service_rate_limit_total_hits";
    let of = |labels: &str, count: u32| format!("{name}{{{labels}}} {count}");
    assert_eq!(
        lines,
        [
            of(r#"domain="d",key1="""#, 2),
            of(r#"domain="d",key1="t",key2="p_a.q_b""#, 2),
            of(r#"domain="d",key1="t""#, 1),
            of(r#"domain="other",key1="other""#, 1),
        ]
    );
}
