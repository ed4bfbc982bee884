use super::{MOST_DOMAINS, MOST_KEYS, MetricValue, RequestSeries, window};
use hivemind_core::{Period, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_millis(1);

// Fails when keys of a domain past the bound use its name, or when names have no bound.
#[test]
fn names_are_bounded_and_the_rest_is_counted_under_other() {
    let all = RequestSeries::default();
    let held: Vec<_> = (0..MOST_DOMAINS + 5).map(|number| all.domain(&number.to_string(), NOW)).collect();
    assert!(held.iter().skip(MOST_DOMAINS).all(|series| Arc::ptr_eq(series, &all.other)));
    let past = MOST_DOMAINS.to_string();
    assert!(Arc::ptr_eq(&all.key(&past, ["k"].into_iter(), NOW), &all.other.unmatched));
    let keys: Vec<_> =
        (0..MOST_KEYS).map(|number| all.key("0", [number.to_string().as_str()].into_iter(), NOW)).collect();
    let other = keys.iter().filter(|series| Arc::ptr_eq(series, &all.other.unmatched)).count();
    assert_eq!(other, MOST_DOMAINS, "each domain has a name for what no rule answers");
    assert!(all.level("0", ["none of them"].into_iter(), Period::SECOND).is_none());
    let long = "x".repeat(201);
    assert!(Arc::ptr_eq(&all.domain(&long, NOW), &all.other));
    let [requests, ..] = all.families();
    assert_eq!(requests.series.len(), 2 * (MOST_KEYS + 1) + 1);
}

// Fails when a removed domain leaves the total.
#[test]
fn removed_domain_is_not_listed_and_stays_in_total() {
    let all = RequestSeries::default();
    let (domain, keys) = (all.domain("d", NOW), all.key("d", ["a", "b"].into_iter(), NOW));
    let level = all.level("d", ["a", "b"].into_iter(), Period::MINUTE).unwrap();
    domain.ok.observe(Duration::from_micros(5));
    keys.ok.fetch_add(1, Ordering::Relaxed);
    level.set(7);
    all.drop_unused();
    let shown = |all: &RequestSeries| {
        let families = all.families();
        let labels = families.iter().flat_map(|family| &family.series).flat_map(|series| &series.labels);
        labels.map(|(_, text)| text.clone()).collect::<Vec<_>>()
    };
    for text in ["d", "a.b", "none", "1m", "other"] {
        assert!(shown(&all).iter().any(|label| label == text), "{text}");
    }
    let [.., levels] = all.families();
    assert!(matches!(levels.series[0].value, MetricValue::Level(level) if (level - 7.0).abs() < 0.1));
    drop((domain, keys, level));
    all.drop_unused();
    assert!(shown(&all).iter().all(|label| ["other", "OK", "OVER_LIMIT", "ERROR"].contains(&label.as_str())));
    assert_eq!(all.total().count(), 1);
}

#[test]
fn window_is_written_as_in_rule_files() {
    for (span, text) in [
        (Duration::from_secs(1), "1s"),
        (Duration::from_secs(90), "90s"),
        (Duration::from_secs(300), "5m"),
        (Duration::from_secs(3_600), "1h"),
        (Duration::from_secs(7 * 86_400), "7d"),
        (Duration::from_millis(1_500), "1500ms"),
        (Duration::from_nanos(7), "7ns"),
    ] {
        assert_eq!(window(Period::new(span).unwrap()), text);
    }
}
