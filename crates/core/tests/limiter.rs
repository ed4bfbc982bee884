//! The embeddable limiter: rule matching, several limits per request, reload and sweep.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use hivemind_core::{
    Budget, Clock, Cost, Descriptor, Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rate,
    Rule, RuleError, Rules, StartError, Timestamp,
};

use hivemind_core::store::{Mode, OnRefusal};
use std::time::Duration;

fn daily(requests: u32) -> Rule {
    Rule::limit(Limit::fixed_window(requests, Period::DAY))
}

fn bucket(per_second: u32, burst: u32) -> Rule {
    Rule::limit(Limit::token_bucket(Rate::per_second(per_second).unwrap(), burst).unwrap())
}

fn limiter(rules: Rules) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_millis(1_794_769_200_000));
    (Limiter::with_clock(rules, clock.clone(), LimiterOptions::default()).unwrap(), clock)
}

/// The remaining budget after one request; none where no limit applies.
fn left<C: Clock>(limiter: &Limiter<C>, entries: &[(&str, &str)]) -> Option<u64> {
    limiter.check("d", &[Descriptor::new(entries)]).remaining()
}

#[test]
fn most_exact_rule_matches_and_parents_do_not() {
    let path = |path: &[Matcher]| path.to_vec();
    let mut rules = Rules::new();
    for (path, rule) in [
        (path(&[Matcher::any("k")]), Some(daily(10))),
        (path(&[Matcher::exact("k", "v")]), Some(daily(20))),
        (path(&[Matcher::wildcard("k", "v*")]), Some(daily(30))),
        (path(&[Matcher::wildcard("k", "*w")]), Some(daily(40))),
        (path(&[Matcher::exact("k", "free")]), None),
        (path(&[Matcher::exact("k", "v"), Matcher::any("sub")]), Some(daily(50))),
        (path(&[Matcher::exact("only", "above"), Matcher::any("sub")]), Some(daily(60))),
    ] {
        rules.add("d", &path, rule).unwrap();
    }
    let (limiter, _) = limiter(rules);
    for (entries, expected) in [
        (&[("k", "other")][..], Some(9)),
        (&[("k", "v")], Some(19)),
        (&[("k", "vw")], Some(29)), // Both wildcards match; the first declared one wins.
        (&[("k", "xw")], Some(39)),
        (&[("k", "free")], None),
        (&[("k", "v"), ("sub", "x")], Some(49)),
        (&[("k", "other"), ("sub", "x")], None),
        (&[("only", "above")], None),
        (&[("k", "v"), ("sub", "x"), ("deeper", "y")], None),
        (&[("K", "v")], None),
        (&[("k_v", "")], None), // Joined names match nothing.
        (&[], None),
    ] {
        assert_eq!(left(&limiter, entries), expected, "{entries:?}");
    }
    assert_eq!(limiter.check("unknown", &[Descriptor::new(&[("k", "v")])]).remaining(), None);
}

#[test]
fn shared_wildcard_values_share_a_counter_and_others_do_not() {
    let rules = Rules::new()
        .with("d", &[Matcher::shared_wildcard("path", "/api/*")], daily(2))
        .and_then(|rules| rules.with("d", &[Matcher::wildcard("path", "/own/*")], daily(2)))
        .unwrap();
    let (limiter, _) = limiter(rules);
    assert_eq!(left(&limiter, &[("path", "/api/a")]), Some(1));
    assert_eq!(left(&limiter, &[("path", "/api/b")]), Some(0));
    assert!(!limiter.allow("d", &[("path", "/api/c")]));
    assert_eq!(left(&limiter, &[("path", "/own/a")]), Some(1));
    assert_eq!(left(&limiter, &[("path", "/own/b")]), Some(1));
}

#[test]
fn request_refused_by_one_descriptor_spends_nothing() {
    let rules = Rules::new()
        .with("d", &[Matcher::any("user")], bucket(1, 5))
        .and_then(|rules| rules.with("d", &[Matcher::any("path")], daily(1)))
        .unwrap();
    let (limiter, _) = limiter(rules);
    let request = [Descriptor::new(&[("user", "ada")]), Descriptor::new(&[("path", "/")])];
    assert!(limiter.check("d", &request).is_allowed());
    for _ in 0..10 {
        let decision = limiter.check("d", &request);
        assert!(!decision.is_allowed());
        assert_eq!(
            decision.limit(),
            Some(Limit::fixed_window(1, Period::DAY)),
            "the limit that refused is reported"
        );
    }
    assert_eq!(left(&limiter, &[("user", "ada")]), Some(3));
}

#[test]
fn limits_of_one_kind_on_a_descriptor_have_own_counters() {
    let minute = Limit::fixed_window(3, Period::MINUTE);
    let limits = vec![minute, Limit::fixed_window(2, Period::MINUTE), Limit::fixed_window(9, Period::HOUR)];
    let rules = Rules::new().with("d", &[Matcher::any("k")], Rule::new(Budget::Limits(limits))).unwrap();
    let (limiter, clock) = limiter(rules);
    let admitted = || (0..5).filter(|_| limiter.allow("d", &[("k", "v")])).count();
    let by_minute: Vec<usize> = (0..6)
        .map(|_| {
            let admitted = admitted();
            clock.advance(Duration::from_secs(60));
            admitted
        })
        .collect();
    assert_eq!(by_minute, [2, 2, 2, 2, 1, 0], "two a minute, nine an hour");
}

#[test]
fn replaced_rule_is_not_charged() {
    let named = |name: &str, requests| {
        let mut rule = daily(requests);
        rule.name = Some(name.into());
        rule
    };
    let mut special = named("special", 100);
    special.replaces = vec!["basic".into()];
    let rules = Rules::new()
        .with("d", &[Matcher::any("user")], named("basic", 1))
        .and_then(|rules| rules.with("d", &[Matcher::any("plan")], special))
        .unwrap();
    let (limiter, _) = limiter(rules);
    let both = [Descriptor::new(&[("user", "ada")]), Descriptor::new(&[("plan", "gold")])];
    assert!((0..5).all(|_| limiter.check("d", &both).is_allowed()));
    assert_eq!(left(&limiter, &[("user", "ada")]), Some(0), "untouched so far");
}

#[test]
fn request_limit_replaces_rules_in_known_domains_only() {
    let rules = Rules::new().with("d", &[Matcher::any("k")], daily(1)).unwrap();
    let (limiter, _) = limiter(rules);
    let limit = Some(Limit::fixed_window(3, Period::HOUR));
    let descriptor = [Descriptor { limit, ..Descriptor::new(&[("k", "v")]) }];
    assert_eq!((0..5).filter(|_| limiter.check("d", &descriptor).is_allowed()).count(), 3);
    assert!((0..5).all(|_| limiter.check("elsewhere", &descriptor).is_allowed()));
}

#[test]
fn shadow_never_refuses_and_quotas_refuse_together() {
    let with_mode = |mode, requests| {
        let mut rule = daily(requests);
        rule.mode = mode;
        rule
    };
    let rules = Rules::new()
        .with("d", &[Matcher::any("shadow")], with_mode(Mode::Shadow, 0))
        .and_then(|rules| rules.with("d", &[Matcher::any("full")], with_mode(Mode::Quota, 0)))
        .and_then(|rules| rules.with("d", &[Matcher::any("free")], with_mode(Mode::Quota, 1)))
        .unwrap();
    let (limiter, _) = limiter(rules);
    assert!(limiter.allow("d", &[("shadow", "")]));
    let quotas = [Descriptor::new(&[("full", "")]), Descriptor::new(&[("free", "")])];
    assert!(limiter.check("d", &quotas).is_allowed(), "one of two quotas has room");
    assert!(!limiter.check("d", &quotas).is_allowed(), "none has");
}

#[test]
fn reload_keeps_usage_and_cuts_tokens_above_the_new_burst() {
    let with = |rule| Rules::new().with("d", &[Matcher::any("k")], rule).unwrap();
    let (limiter, clock) = limiter(with(bucket(10, 10)));
    assert_eq!(left(&limiter, &[("k", "a")]), Some(9));
    assert!((0..10).all(|_| limiter.allow("d", &[("k", "b")])));
    limiter.reload(with(bucket(1, 4)));
    assert_eq!(left(&limiter, &[("k", "a")]), Some(3), "nine tokens are cut to four");
    assert!(!limiter.allow("d", &[("k", "b")]), "an empty bucket stays empty");
    clock.advance(Duration::from_secs(1));
    assert!(limiter.allow("d", &[("k", "b")]), "the new rate applies");
    assert!(!limiter.allow("d", &[("k", "b")]));
}

#[test]
fn sweep_after_reload_to_slower_rate_keeps_limited_key() {
    // Fails when `reload` does not call `hold`.
    let with = |rate| {
        let limit = Limit::token_bucket(rate, 10).unwrap();
        Rules::new().with("d", &[Matcher::any("k")], Rule::limit(limit)).unwrap()
    };
    let (limiter, clock) = limiter(with(Rate::per_second(10).unwrap()));
    assert!((0..10).all(|_| limiter.allow("d", &[("k", "v")])));
    limiter.reload(with(Rate::new(10, Period::DAY).unwrap()));
    clock.advance(Duration::from_secs(600));
    assert_eq!(limiter.sweep(), 0, "full at the old rate, not at the new one");
    assert!(!limiter.allow("d", &[("k", "v")]));
}

#[test]
fn reload_does_not_hold_keys_of_unchanged_rules_or_windows() {
    // Fails when `longest_memory_after` lacks its filter for buckets, or the one for changed rules.
    let slow = Limit::token_bucket(Rate::new(1, Period::YEAR).unwrap(), 1).unwrap();
    let rules = |with_more: bool| {
        let rules = Rules::new().with("d", &[Matcher::any("k")], bucket(10, 10)).unwrap();
        let rules = rules.with("d", &[Matcher::any("slow")], Rule::limit(slow)).unwrap();
        if !with_more {
            return rules;
        }
        let yearly = Rule::limit(Limit::fixed_window(1, Period::YEAR));
        rules.with("d", &[Matcher::any("yearly")], yearly).unwrap()
    };
    let (limiter, clock) = limiter(rules(false));
    assert!(limiter.allow("d", &[("k", "v")]));
    limiter.reload(rules(true));
    clock.advance(Duration::from_secs(600));
    assert_eq!(limiter.sweep(), 1);
}

#[test]
fn refused_request_passes_after_its_retry_after() {
    let with_mode = |mode, per_second| {
        let mut rule = bucket(per_second, 1);
        rule.mode = mode;
        rule
    };
    let mut rules = Rules::new();
    for (name, rule) in [
        ("slow limit", with_mode(Mode::Enforce, 1)),
        ("fast limit", with_mode(Mode::Enforce, 10)),
        ("slow quota", with_mode(Mode::Quota, 1)),
        ("fast quota", with_mode(Mode::Quota, 10)),
    ] {
        rules.add("d", &[Matcher::exact("k", name)], Some(rule)).unwrap();
    }
    for (names, wait_ms) in [
        (["slow limit", "fast limit"], 1_000),
        (["slow quota", "fast quota"], 100), // One quota with room is enough.
        (["fast limit", "slow quota"], 1_000),
    ] {
        let (limiter, _) = limiter(rules.clone());
        let entries = names.map(|name| [("k", name)]);
        let request = [Descriptor::new(&entries[0]), Descriptor::new(&entries[1])];
        assert!(limiter.check("d", &request).is_allowed());
        let wait = limiter.check("d", &request).retry_after();
        assert_eq!(wait, Some(Duration::from_millis(wait_ms)), "{names:?}");
    }
}

#[test]
fn zero_several_and_oversized_costs_are_decided() {
    let rules = Rules::new().with("d", &[Matcher::any("k")], bucket(1, 5)).unwrap();
    let (limiter, _) = limiter(rules);
    let costing = |cost| [Descriptor { cost: Cost::new(cost), ..Descriptor::new(&[("k", "v")]) }];
    assert_eq!(limiter.check("d", &costing(0)).remaining(), Some(5));
    assert_eq!(limiter.occupancy().keys, 0, "a peek stores nothing");
    assert_eq!(limiter.check("d", &costing(4)).remaining(), Some(1));
    let short = limiter.check("d", &costing(3));
    assert_eq!((short.is_allowed(), short.retry_after()), (false, Some(Duration::from_secs(2))));
    let never = limiter.check("d", &costing(6));
    assert_eq!((never.is_allowed(), never.retry_after()), (false, None));
}

#[test]
fn windows_count_refusals_as_configured() {
    for (on_refusal, refused, passed) in [
        (OnRefusal::CountRefusing, false, 9),
        (OnRefusal::CountAll, false, 7),
        (OnRefusal::CountNone, true, 9),
    ] {
        let rules = Rules::new()
            .with("d", &[Matcher::any("small")], daily(3))
            .and_then(|rules| rules.with("d", &[Matcher::any("large")], daily(10)))
            .unwrap();
        let options = LimiterOptions { on_refusal, ..LimiterOptions::default() };
        let limiter = Limiter::with_clock(rules, ManualClock::default(), options).unwrap();
        let request = [
            Descriptor { cost: Cost::new(2), ..Descriptor::new(&[("small", "")]) },
            Descriptor::new(&[("large", "")]),
        ];
        assert!(limiter.check("d", &request).is_allowed());
        assert!(!limiter.check("d", &request).is_allowed());
        assert!(!limiter.check("d", &request).is_allowed());
        assert_eq!(limiter.allow("d", &[("small", "")]), refused, "{on_refusal:?}");
        let peek = [Descriptor { cost: Cost::ZERO, ..Descriptor::new(&[("large", "")]) }];
        assert_eq!(limiter.check("d", &peek).remaining(), Some(passed), "{on_refusal:?}");
    }
}

#[test]
fn invalid_rule_errors_name_the_remedy() {
    let rules = Rules::new().with("d", &[Matcher::any("k")], daily(1)).unwrap();
    for (domain, path, rule, expected) in [
        ("", vec![Matcher::any("k")], daily(1), RuleError::EmptyDomain),
        ("d", vec![], daily(1), RuleError::EmptyPath),
        ("d", vec![Matcher::any("")], daily(1), RuleError::EmptyKey),
        ("d", vec![Matcher::any("k")], daily(1), RuleError::Duplicate),
        ("d", vec![Matcher::any("new")], Rule::new(Budget::Limits(vec![])), RuleError::NoLimits),
    ] {
        let error = rules.clone().with(domain, &path, rule).unwrap_err();
        assert_eq!(error, expected);
        assert!(error.to_string().contains("; "), "cause; remedy: {error}");
    }
    let options = LimiterOptions { sweep_interval: Duration::ZERO, ..LimiterOptions::default() };
    let refused = Limiter::with_clock(rules, ManualClock::default(), options);
    assert!(matches!(refused, Err(StartError::ZeroSweepInterval)));
}
